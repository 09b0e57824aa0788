"""``lgx validate``, ``lgx test`` and ``lgx predict`` on a checkpoint."""

from lgx.core.rows import read_rows


def test_predictions_name_the_right_images_in_any_order_of_loading(fit, ancestor, tmp_path):
    path = f"--ckpt_path={ancestor}/checkpoints/best.ckpt"
    assert fit("Ancestor", path, "--name=p", command="predict").code == 0
    lines = (tmp_path / "runs/test/p/seed0/predictions.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["index", *map(str, range(12))]
    assert {line.split(",")[2] for line in lines[1:]} <= {"circle", "square", "stripe"}


def test_validate_and_test_of_a_checkpoint_agree_with_the_run(fit, ancestor, tmp_path):
    result = fit("Ancestor", f"--ckpt_path={ancestor}/checkpoints/best.ckpt", "--name=again", command="validate")
    assert result.code == 0, result.err
    best = max((r for r in read_rows(ancestor / "results.csv") if r.metric == "acc"), key=lambda r: r.value)
    (again,) = [r for r in read_rows(tmp_path / "runs/test/again/seed0/results.csv") if r.metric == "acc"]
    assert (again.value, again.epochs, again.n) == (best.value, best.epochs, best.n)


def test_predict_gives_probabilities_for_every_test_image(fit, ancestor):
    result = fit("Ancestor", f"--ckpt_path={ancestor}/checkpoints/best.ckpt", "--name=p", command="predict")
    assert result.code == 0, result.err


def test_predict_can_be_limited_to_some_batches(fit, ancestor, tmp_path):
    some = ["--data.batch_size=5", "--trainer.limit_predict_batches=1"]
    result = fit("Ancestor", f"--ckpt_path={ancestor}/checkpoints/best.ckpt", "--name=p", *some, command="predict")
    assert result.code == 0, result.err
    lines = (tmp_path / "runs/test/p/seed0/predictions.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["index", *map(str, range(10))]  # twice as many as in training


def test_evaluation_without_a_checkpoint_is_refused(fit):
    for command in ("test", "validate", "predict"):
        result = fit("Ancestor", command=command)
        assert result.code == 2
        assert "needs --ckpt_path" in result.sentence
        assert "--untrained" in result.sentence
    assert fit("Ancestor", "--untrained=true", "--name=u", command="test").code == 0

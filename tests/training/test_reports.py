"""What a run says at its end, and what ``lgx test`` and ``lgx validate`` print."""

import pytest

from lgx.artifacts.checkpoints import BEST, LAST
from lgx.components.class_metrics import interval
from lgx.core.rows import read_rows
from tests.support.command_line import arguments, lgx, ok

HYPER = [
    "--model.width=16", "--model.layers=1", "--model.heads=2", "--model.max_shape=[32,32,4,4]", "--model.set_size=5",
    '--model.panel=["depth=2,embed_dim=16,num_heads=2","depth=3,embed_dim=16,num_heads=2"]', "--model.meta_batch=2",
]  # fmt: skip


def shown(rows, split, epochs):
    """The numbers of one network's rows, as a report shows them; the sets have equally many examples of each class."""
    own = {row.metric: row for row in rows if (row.split, row.epochs) == (split, epochs)}
    accuracy, n = own["acc"].value, own["acc"].n
    low, high = (100 * limit for limit in interval(accuracy, n))
    always, of_classes = "", ""
    if split == "test":
        always = ", largest class circle 33.3 %"
        of_classes = f", balanced accuracy {100 * own['balanced_acc'].value:.1f} %"
        of_classes += f", calibration error {own['ece'].value:#.4g}"
    place = f"(95 %: {low:.1f} to {high:.1f}) of {n} images of shapes (chance 33.3 %{always})"
    return f"{100 * accuracy:.1f} % {place}{of_classes}, loss {own['loss'].value:#.4g}"


@pytest.fixture(scope="module")
def run(images, tmp_path_factory):
    """A run of two epochs that tests its start and its end: its folder and what it printed."""
    runs = tmp_path_factory.mktemp("reports")
    options = ["--name=r", "--test_start", "--test_end", "--trainer.max_epochs=2", "--model.optimizer.lr=0.01"]
    return runs / "test/r/seed0", ok(lgx(*arguments("fit", "Ancestor", images, runs, *options))).out


def test_fit_ends_with_the_test_scores_of_its_results(run):
    folder, out = run
    rows = read_rows(folder / "results.csv")
    assert f"untrained  test accuracy {shown(rows, 'test', 0)}\n" in out
    assert f"final      test accuracy {shown(rows, 'test', 2)}, weights of {run_weights(folder)}\n" in out


def run_weights(folder):
    """The run's weights in words, after two epochs with a schedule that ends: the last, if validation cannot tell."""
    found = [row for row in read_rows(folder / "results.csv") if row.split == "val"]
    (first, last), (early, late) = (
        [row.value for row in sorted(found, key=lambda row: row.epochs) if row.metric == name]
        for name in ("acc", "loss")
    )
    if (last, -late) >= (first, -early):
        return "epoch 2, last and best"
    return "epoch 2, last" if first - last <= (first * (1 - first) / found[0].n) ** 0.5 else "epoch 1, best"


def test_fit_names_the_runs_weights_and_how_to_test_them(run):
    folder, out = run
    weights = run_weights(folder)
    name = BEST if weights == "epoch 1, best" else LAST
    assert f"weights    {weights}: {folder}/checkpoints/{name}" in out
    assert out.splitlines()[-1] == f"next       lgx test --config {folder}/config.yaml"


@pytest.mark.parametrize(
    ("command", "split", "word"), [("test", "test", "test      "), ("validate", "val", "validation")]
)
def test_an_evaluation_prints_its_scores_its_data_and_its_checkpoint(run, fit, tmp_path, command, split, word):
    folder, _ = run
    result = ok(fit("Ancestor", "--name=e", f"--ckpt_path={folder}/checkpoints/last.ckpt", command=command))
    rows = read_rows(tmp_path / "runs/test/e/seed0/results.csv")
    lines = [line for line in result.out.splitlines() if not line.startswith(" ")]  # those of single classes
    assert lines[-2:] == [
        f"{word} accuracy {shown(rows, split, 2)}",
        f"checkpoint {folder}/checkpoints/last.ckpt, 2 epoch(s) of training",
    ]


def test_several_networks_have_one_line_each_and_their_mean(fit, tmp_path):
    result = ok(fit("GHN3", *HYPER, "--name=g", "--test_end"))
    rows = [r for r in read_rows(tmp_path / "runs/test/g/seed0/results.csv") if (r.split, r.metric) == ("test", "acc")]
    assert len(rows) == 2
    mean = sum(row.value for row in rows) / 2
    start = f"final      test accuracy {100 * mean:.1f} % on average of 2 networks, weights of epoch 1, last and best:"
    lines = result.out.splitlines()
    first = lines.index(start)
    assert lines[first + 1].split() == ["data", "set", "architecture", "accuracy", "loss", "examples"]
    for row, line in zip(rows, lines[first + 2 : first + 4], strict=True):
        assert line.split()[:4] == ["shapes", row.architecture, f"{100 * row.value:.1f}", "%"]
        assert line.endswith(" 12")
    assert "(mean of 2)" in next(line for line in lines if line.startswith("epoch "))

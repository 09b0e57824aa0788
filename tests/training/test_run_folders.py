"""One folder per run: two runs never share one, and the saved configuration repeats the run."""

from lgx.core.rows import read_rows
from tests.support.command_line import lgx, refusal


def test_a_checkpoint_of_another_run_does_not_unlock_a_used_folder(fit, ancestor, tmp_path):
    assert fit("Ancestor", "--name=a").code == 0
    (tmp_path / "runs/test/a/seed0/checkpoints/last.ckpt").unlink()
    for options in ([f"--ckpt_path={ancestor}/checkpoints/last.ckpt"], []):
        assert "already holds a run" in refusal(fit("Ancestor", "--name=a", *options))
    assert read_rows(tmp_path / "runs/test/a/seed0/results.csv")


def test_a_boolean_seed_is_seed_0_in_the_folder_and_in_the_rows(fit, tmp_path):
    assert fit("Ancestor", "--name=b", "--seed_everything=true").code == 0
    assert {r.seed for r in read_rows(tmp_path / "runs/test/b/seed0/results.csv")} == {0}


def test_the_saved_configuration_repeats_the_run(fit, tmp_path):
    assert fit("Ancestor", "--name=a").code == 0
    config = tmp_path / "runs/test/a/seed0/config.yaml"
    assert lgx("fit", "--config", config, "--name", "b").code == 0
    a, b = ([r.value for r in read_rows(tmp_path / f"runs/test/{n}/seed0/results.csv")] for n in "ab")
    assert a == b
    assert (tmp_path / "runs/test/b/seed0/checkpoints/best.ckpt").exists()
    assert str(tmp_path / "runs/test/a") not in (tmp_path / "runs/test/b/seed0/config.yaml").read_text()


def test_a_saved_configuration_neither_resumes_nor_overwrites_by_itself(fit, tmp_path):
    assert fit("Ancestor", "--name=a", "--overwrite=true").code == 0
    assert fit("Ancestor", "--name=a", "--ckpt_path=last", "--trainer.max_epochs=2").code == 0
    config = tmp_path / "runs/test/a/seed0/config.yaml"
    assert "already holds a run" in lgx("fit", "--config", config).sentence
    assert lgx("test", "--config", config).code == 0
    assert lgx("fit", "--config", config, "--name", "fresh").code == 0

"""Seeds, names and numbers are refused with their key, before a run writes anything."""

import pytest

from tests.support.command_line import arguments, lgx

OPTIMIZER = """
model:
  class_path: Ancestor
  init_args:
    optimizer: {{class_path: torch.optim.AdamW, init_args: {{lr: {}}}}}
"""
MISTAKES = {
    "--seed_everything=-1": "--seed_everything: a seed is a whole number from 0 to 4294967295",
    f"--seed_everything={2**32}": "--seed_everything: a seed is a whole number from 0 to 4294967295",
    "--name=../../evil": "--name: '../../evil' is no name of a folder",
    "--name=a\tb": "--name: 'a\\tb' holds the character",
    "--name=a/seed0": "--name: 'a/seed0' has the part seed0",
    "--experiment=..": "--experiment: '..' is no name of a folder",
    "--experiment=/tmp/evil": "--experiment: '/tmp/evil' is no name of a folder",
    "--runs_dir=a\nb": "--runs_dir: 'a\\nb' holds the character",
    "--checkpoint.filename=../../evil": "checkpoint.filename: '../../evil' is no name of a folder",
    "--model.optimizer.lr=nan": "model.optimizer.lr: expected float, got nan",
    "--model.optimizer.lr=.nan": "model.optimizer.lr: expected a finite number, got nan",
    "--model.optimizer.lr=inf": "model.optimizer.lr: expected float, got inf",
    "--model.optimizer.lr=.inf": "model.optimizer.lr: expected a finite number, got inf",
    "--model.optimizer.lr=abc": "model.optimizer.lr: expected float, got abc",
    "--model.label_smoothing=.nan": "model.label_smoothing: expected a finite number, got nan",
    "--trainer.gradient_clip_val=.nan": "trainer.gradient_clip_val: expected a finite number, got nan",
}


@pytest.mark.parametrize("option", MISTAKES)
def test_a_value_is_refused_with_its_key(images, tmp_path, option):
    result = lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", option))
    assert result.code == 2
    assert result.sentence.startswith(f"lgx fit: {MISTAKES[option]}"), result.sentence
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rate", [".nan", "-.inf"])
def test_a_learning_rate_in_a_file_is_refused_with_its_key(images, tmp_path, rate):
    (tmp_path / "c.yaml").write_text(OPTIMIZER.format(rate))
    given = [word for word in arguments("fit", "Ancestor", images, tmp_path) if "optimizer" not in word]
    result = lgx(*given, "--config", tmp_path / "c.yaml")
    assert "model.optimizer.lr: expected a finite number, got" in result.sentence


def test_a_further_checkpoint_callback_stays_in_its_folder(images, tmp_path):
    further = ["--trainer.callbacks+=ModelCheckpoint", "--trainer.callbacks.filename=../../../evil"]
    result = lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", *further))
    assert "trainer.callbacks.filename: '../../../evil' is no name of a folder" in result.sentence


@pytest.mark.parametrize(
    ("words", "end"),
    [
        (["arena", "arena.yaml", "--cluster=foo"], "cluster: expected one of 'local', 'slurm', got foo"),
        (
            ["sample", "ViTs-1K", "--seed=-1"],
            "--seed: a seed is a whole number from 0 to 4294967295 (2**32 - 1), got -1",
        ),
        (["init", "--arch=2-Tiny", "--out=x", f"--seed={2**32}"], "(2**32 - 1), got 4294967296"),
    ],
)
def test_a_message_ends_with_the_value(words, end):
    result = lgx(*words)
    assert result.code == 2
    assert result.sentence.endswith(end)

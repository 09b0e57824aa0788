"""A run's folder may be a symbolic link: commands that read it find the run, and leave link and target in place."""

import shutil

import pytest

from lgx.core.rows import read_rows
from tests.support.command_line import ARCH, lgx, ok, refusal


@pytest.fixture
def linked(ancestor, tmp_path):
    """A link in the place of a run's folder."""
    target = shutil.copytree(ancestor, tmp_path / "elsewhere" / "run")
    link = tmp_path / "runs/test/ancestor/seed0"
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    return link


def test_commands_read_a_run_behind_a_link(fit, linked, tmp_path):
    for command, checkpoint in (("test", "best"), ("validate", "last"), ("predict", "best")):
        ok(fit("Ancestor", "--name=ancestor", f"--ckpt_path={checkpoint}", command=command))
    assert {row.split for row in read_rows(linked / "results.csv")} == {"train", "val", "test"}
    for words in (
        ["compare", tmp_path / "runs", "--split=val", "--out", tmp_path / "report"],
        ["compare", linked, "--split=val"],
        ["export", linked / "checkpoints/best.ckpt", "--out", tmp_path / "model"],
        ["init", "--source", linked / "best.learngene.safetensors", "--arch", ARCH, "--out", tmp_path / "start"],
    ):
        ok(lgx(*words))
    assert linked.is_symlink()
    assert (tmp_path / "elsewhere/run/checkpoints/best.ckpt").is_file()


def test_the_rows_behind_a_link_are_not_replaced(linked, tmp_path):
    before = (linked / "results.csv").read_bytes()
    for runs in (linked, tmp_path / "elsewhere"):
        assert "would replace" in refusal(lgx("compare", runs, "--split=val", "--out", linked, "--force"))
    assert (linked / "results.csv").read_bytes() == before


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_run_that_is_linked_twice_is_read_once(linked, tmp_path, depth):
    (tmp_path / "more").mkdir()
    (tmp_path / "more/link").symlink_to([linked, linked.parent, linked.parent.parent][depth])
    (tmp_path / "more/loop").symlink_to(tmp_path / "more")
    result = ok(lgx("compare", tmp_path / "more", tmp_path / "runs", "--split=val"))
    assert "of 1 run(s)" in " ".join(result.out.split())

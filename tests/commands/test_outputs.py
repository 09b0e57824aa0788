"""A command replaces what it wrote, and other files with ``--force`` only; never what it reads."""

import pytest

from experiments.analyze.__main__ import MARK
from lgx.artifacts.learngene import Learngene
from lgx.components.figures import make_panels, write_svg
from tests.support.command_line import ARCH, analyze, lgx, ok, refusal

NETWORK = "depth=6,embed_dim=24,num_heads=3,patch_size=4,img_size=16"
COMMANDS = {
    "export": ("x.onnx", ["export", "{ancestor}"]),
    "extract": ("x.learngene.safetensors", ["extract", "no_run"]),
    "embed": ("x.safetensors", ["embed", "--ancestor", "{ancestor}", "--data", "no_set"]),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_foreign_file_is_kept_and_named_before_anything_is_read(ancestor_file, tmp_path, command):
    name, words = COMMANDS[command]
    out = tmp_path / name
    Learngene.load(ancestor_file).save(out)
    before = out.read_bytes()
    sentence = refusal(lgx(*(word.format(ancestor=ancestor_file) for word in words), "--out", out))
    assert f"--out {out}: exists, and `lgx {command}` did not write it" in sentence
    assert "--force" in sentence
    assert out.read_bytes() == before


def test_init_replaces_its_own_folder_but_not_that_of_export(ancestor_file, tmp_path):
    init, export = ["init", "--arch", ARCH], ["export", ancestor_file]
    for words in (init, init, [*export, "--force"], export):
        ok(lgx(*words, "--out", tmp_path / "x"))
    assert "`lgx init` did not write it" in lgx(*init, "--out", tmp_path / "x").sentence


def test_a_source_is_never_replaced(ancestor_file, tmp_path):
    folder = tmp_path / "model"
    assert lgx("init", "--source", ancestor_file, "--arch", NETWORK, "--out", folder).code == 0
    before = (folder / "model.safetensors").read_bytes()
    for words in (
        ["init", "--source", folder, "--arch", NETWORK, "--out", folder],
        ["export", folder, "--out", folder],
        ["embed", "--ancestor", ancestor_file, "--data", "no_set", "--out", ancestor_file],
        ["embed", "--ancestor", folder, "--data", "no_set", "--out", folder / "model.safetensors"],
    ):
        assert "reads" in refusal(lgx(*words, "--force"))
    assert (folder / "model.safetensors").read_bytes() == before


def test_a_learngene_that_a_run_wrote_is_not_replaced_by_extract_but_its_own_is(ancestor_file, tmp_path):
    out = tmp_path / "final.learngene.safetensors"
    for writer, words in (("", "did not write it"), ("lgx extract", "no_run")):
        Learngene.load(ancestor_file).save(out, writer)
        assert words in lgx("extract", "no_run", "--out", out).sentence


def test_a_figure_that_analyze_drew_is_drawn_again(tmp_path):
    out = tmp_path / "x.svg"
    for mark, words in (("", "did not write it"), (MARK, "no_run")):
        write_svg(make_panels(1)[0], out, "paths", mark)
        assert words in analyze("paths", "--runs", "no_run", "--out", out).sentence

"""Folders of timm are read whatever format of weights they hold."""

import os
import pickle
import re
import stat

import pytest
import timm
import torch
from jsonargparse import Namespace
from safetensors.torch import save_file

from lgx.artifacts.export import write_descendant
from lgx.artifacts.export.folders import model_card
from lgx.artifacts.pretrained import load_pretrained
from lgx.errors import UserError
from lgx.training.sources import resolve_sources
from tests.support.command_line import ARCH, lgx, ok
from tests.support.families import tiny

SIZES = {"depth": 2, "embed_dim": 16, "num_heads": 2, "patch_size": 4, "img_size": 16}


@pytest.fixture
def folder(tmp_path):
    """What timm's ``save_for_hf`` writes by default: ``pytorch_model.bin``."""
    torch.manual_seed(0)
    model = timm.create_model("vit_base_patch16_224", num_classes=3, **SIZES)
    timm.models.save_for_hf(model, str(tmp_path / "saved"), model_args=SIZES)
    assert not (tmp_path / "saved/model.safetensors").exists()
    return tmp_path / "saved", model.eval()


def test_a_folder_with_pickled_weights_is_a_source(folder, tmp_path):
    path, model = folder
    image = torch.randn(1, 3, 16, 16)
    loaded = load_pretrained(str(path))
    assert torch.equal(loaded.model(image), model(image))
    assert loaded.mean == (0.5, 0.5, 0.5)
    ok(lgx("init", "--source", path, "--arch", ARCH.replace("depth=4", "depth=2"), "--out", tmp_path / "out"))


def test_pickled_weights_that_could_run_code_are_refused(folder):
    path, _ = folder
    (path / "pytorch_model.bin").write_bytes(pickle.dumps({"cls_token": print}))
    with pytest.raises(UserError, match="timm could not load it"):
        load_pretrained(str(path))


def test_numbers_that_are_not_finite_are_refused_in_folders_and_in_checkpoints(folder, ancestor, tmp_path):
    path, model = folder
    torch.save({**model.state_dict(), "norm.weight": torch.full((16,), torch.nan)}, path / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"norm\.weight has values that are not finite"):
        load_pretrained(str(path))
    checkpoint = torch.load(ancestor / "checkpoints/best.ckpt", weights_only=True)
    checkpoint["state_dict"]["network.norm.weight"].fill_(torch.inf)
    torch.save(checkpoint, tmp_path / "last.ckpt")
    with pytest.raises(UserError, match=r"norm\.weight has values that are not finite"):
        load_pretrained(str(tmp_path / "last.ckpt"))


def test_the_weights_of_a_folder_are_a_part_of_the_record_of_a_run(folder):
    path, _ = folder
    config = Namespace(model=Namespace(init_args=Namespace(ancestor=str(path), arch="6-Small")))
    before = resolve_sources(config).digests()
    assert list(before) == ["model.ancestor"]
    torch.save({"cls_token": torch.zeros(1)}, path / "pytorch_model.bin")
    assert resolve_sources(config).digests() != before


def test_a_folder_of_a_segmentation_network_keeps_the_names_of_its_classes(tmp_path):
    architecture, names = tiny("plain", kind="segmentation"), ("a", "b", "c", "d", "e")
    write_descendant(tmp_path / "net", architecture.build(), architecture, (0.5,) * 3, (0.5,) * 3, names)
    loaded = load_pretrained(str(tmp_path / "net"))
    assert loaded.architecture == architecture
    assert loaded.label_names == names


def test_files_have_the_mode_that_the_umask_gives(tmp_path):
    architecture, before = tiny("plain"), os.umask(0o027)
    try:
        write_descendant(tmp_path / "net", architecture.build(), architecture)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "net/model.safetensors").stat().st_mode) == 0o640


def test_a_bare_file_is_refused_with_the_command_that_reads_it(folder, tmp_path):
    _, model = folder
    file = tmp_path / "bare.safetensors"
    save_file(model.state_dict(), file)
    with pytest.raises(UserError, match=rf"`lgx import timm:NAME --weights {file} --out FOLDER`"):
        load_pretrained(str(file))


def test_the_code_of_a_card_loads_the_folder(tmp_path, monkeypatch):
    assert lgx("init", "--arch", ARCH, "--num_classes=3", "--out", tmp_path / "vit").code == 0
    card = (tmp_path / "vit/README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)\n```", card, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    found: dict[str, object] = {}
    exec(compile(code, "card", "exec"), found)
    assert found["model"].num_classes == 3


def test_a_fact_stays_in_its_cell():
    card = model_card("a", "timm", "tag", "A model.", {}, {"task": "x | y"}, "pass", "lgx init")
    assert '| task | "x \\| y" |' in card

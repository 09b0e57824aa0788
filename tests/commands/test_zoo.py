"""The learngenes that ship with lgx are what the index says, and start descendants without a network."""

import json
import tomllib
from fnmatch import fnmatch

import pytest
import timm
import torch
from safetensors import safe_open

from lgx.artifacts.learngene import Learngene
from lgx.artifacts.safety import digest_of
from lgx.artifacts.sources import resolve
from lgx.artifacts.zoo import FOLDER, zoo
from lgx.errors import UserError
from tests.support.command_line import lgx
from tests.support.paths import ROOT

ENTRIES = list(zoo().values())
NAMES = [entry.name for entry in ENTRIES]


def test_the_index_names_every_file_with_its_checksum_and_its_card():
    shipped = {path.name for path in FOLDER.iterdir() if path.suffix != ".py" and path.name != "__pycache__"}
    own = {path.name for entry in ENTRIES for path in (entry.path, entry.card)}
    assert shipped == {"index.json", *own}
    for entry in ENTRIES:
        assert digest_of(entry.path) == entry.sha256
        assert entry.path.stat().st_size == entry.size
        assert Learngene.load(entry.path).method == entry.method
    assert sum(entry.size for entry in ENTRIES) < 8e6
    assert sorted(entry.method for entry in ENTRIES) == ["lsamd", "sws", "tal", "tleg"]


def test_the_package_holds_the_files():
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["lgx"]
    for path in FOLDER.iterdir():
        assert any(fnmatch(path.relative_to(ROOT / "lgx").as_posix(), pattern) for pattern in patterns)


@pytest.mark.parametrize("name", NAMES)
def test_the_command_of_each_card_starts_a_descendant_that_timm_loads(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (command,) = [line for line in zoo()[name].card.read_text(encoding="utf-8").splitlines() if line.startswith("lgx ")]
    result = lgx(*command.split()[1:])
    assert result.code == 0, result.err
    record = json.loads((tmp_path / "vit/lgx.json").read_text())
    assert record["arguments"]["source"] == f"zoo:{name}#sha256={zoo()[name].sha256}"
    model = timm.create_model("local-dir:vit", pretrained=True).eval()
    assert torch.isfinite(model(torch.randn(2, 3, 32, 32))).all()


@pytest.mark.parametrize("name", NAMES)
def test_files_hold_half_precision_and_are_computed_in_single_precision(name):
    with safe_open(zoo()[name].path, framework="pt") as file:
        assert {file.get_tensor(key).dtype for key in file.keys()} == {torch.float16}
    assert {tensor.dtype for tensor in Learngene.load(zoo()[name].path).tensors.values()} == {torch.float32}


def test_the_list_shows_every_entry():
    result = lgx("zoo")
    assert result.code == 0, result.err
    for entry in ENTRIES:
        assert f"zoo:{entry.name}" in result.out
        assert entry.sha256 in result.out


def test_a_record_of_another_version_of_a_file_is_refused():
    assert resolve(resolve(f"zoo:{NAMES[0]}").name).place == str(zoo()[NAMES[0]].path)
    with pytest.raises(UserError, match=f"zoo:{NAMES[0]}: has the SHA-256"):
        resolve(f"zoo:{NAMES[0]}#sha256={'a' * 64}")
    with pytest.raises(UserError, match="no such learngene ships with lgx; it has sws-digits, "):
        resolve("zoo:none")

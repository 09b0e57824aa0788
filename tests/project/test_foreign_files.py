"""Foreign checkpoints, configurations and folders run no code, and archives write nothing outside their folder."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from data_modules.sets.official import Archive
from data_modules.sets.torchvision_sets import Food101
from tests.support.command_line import Result, arguments, lgx, refusal


def test_a_checkpoint_with_code_is_refused_by_every_command(images, tmp_path, evil, evidence):
    commands = [
        arguments("fit", "Ancestor", images, tmp_path / "runs", f"--ckpt_path={evil}"),
        arguments("fit", "Finetune", images, tmp_path / "runs", "--model.initializer=Pretrained",
                  f"--model.initializer.source={evil}"),
        ["export", evil, "--out", tmp_path / "out"],
        ["init", "--arch=2-Tiny", "--out", tmp_path / "out", "--source", evil, "--method=logah"],
        ["extract", evil, "--out", tmp_path / "x.learngene.safetensors"],
        ["embed", "--ancestor", evil, "--data", images, "--out", tmp_path / "e.safetensors"],
    ]  # fmt: skip
    for command in commands:
        assert f"{evil}: not an intact checkpoint" in refusal(lgx(*command))
    assert not evidence.exists()


@pytest.fixture
def fit(images: Path, tmp_path: Path) -> Callable[..., Result]:
    """``lgx fit`` of one batch, with a configuration file."""

    def run(content: Any = None, *options: str) -> Result:
        if content is not None:
            file = tmp_path / "others.yaml"
            file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
            options = (*options, f"--config={file}")
        return lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", "--trainer.fast_dev_run=true", *options))

    return run


@pytest.mark.parametrize(
    "path",
    ["os.system", "timm.create_model", "lgx.methods.Ancestor.load_from_checkpoint", "tests.support.probes.KillAt"],
)
@pytest.mark.parametrize("spot", ["model", "data", "optimizer", "callback"])
def test_a_configuration_names_known_classes_only(fit, path, spot):
    named = {"class_path": path, "init_args": {}}
    places = {
        "optimizer": {"model": {"class_path": "Ancestor", "init_args": {"optimizer": named}}},
        "callback": {"trainer": {"callbacks": [named]}},
    }
    sentence = refusal(fit(places.get(spot, {spot: named})))
    assert "is not allowed" in sentence
    assert "LGX_ALLOW_IMPORTS" in sentence


def test_own_packages_are_allowed_only_by_name(fit, tmp_path, evidence, monkeypatch):
    (tmp_path / "own_callbacks.py").write_text("from lightning.pytorch import Callback\nclass Own(Callback): pass\n")
    (tmp_path / "their_callbacks.py").write_text(f"open({str(evidence)!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "own_callbacks.Own is not allowed" in fit(None, "--trainer.callbacks+=own_callbacks.Own").sentence
    monkeypatch.setenv("LGX_ALLOW_IMPORTS", "own_callbacks, other")
    assert fit(None, "--trainer.callbacks+=own_callbacks.Own").code == 0
    for option in ("--model", "--model.optimizer", "--trainer.callbacks+"):
        assert "importing their_callbacks.Own is not allowed" in refusal(fit(None, f"{option}=their_callbacks.Own"))
    assert not evidence.exists()
    monkeypatch.setenv("LGX_ALLOW_IMPORTS", "a b")
    assert "LGX_ALLOW_IMPORTS" in refusal(fit())


@pytest.mark.parametrize(("name", "link"), [("../evil", ""), ("a/link", "/etc/passwd")])
def test_a_tar_file_writes_nothing_outside_its_folder(tmp_path, name, link, monkeypatch):
    monkeypatch.setattr(Food101, "archives", (Archive("http://x/food.tar.gz"),))
    source, root = tmp_path / "source", tmp_path / "data"
    source.mkdir()
    archive = source / Food101.archives[0].filename
    with tarfile.open(archive, "w:gz") as opened:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = (tarfile.SYMTYPE, link) if link else (tarfile.REGTYPE, "")
        opened.addfile(member, io.BytesIO())
    sentence = refusal(lgx("data", "prepare", "food101", "--root", root, "--source", source))
    assert f"{archive} is incomplete or corrupted" in sentence
    assert {p.name for p in tmp_path.rglob("*")} <= {archive.name, "source", "data"}

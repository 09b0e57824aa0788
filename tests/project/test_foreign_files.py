"""Foreign checkpoints, configurations and folders run no code, and archives write nothing outside their folder."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from data_modules.sets.official import Archive
from data_modules.sets.torchvision_sets import Food101
from lgx.architectures import HFArchitecture, ViTArchitecture
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.export import write_descendant
from tests.support.command_line import Result, arguments, lgx, ok, refusal
from tests.support.hostile import Payload

SMALL = ViTArchitecture(1, 8, 2, patch_size=4, img_size=8, num_classes=3)


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


def test_hyper_parameters_of_a_checkpoint_are_not_instantiated(images, ancestor, tmp_path, evidence):
    checkpoint = load_checkpoint(ancestor / "checkpoints" / "last.ckpt")
    checkpoint["hyper_parameters"] = {
        "_instantiator": "os.system",
        "_class_path": "subprocess.Popen",
        "model": {"class_path": "subprocess.Popen", "init_args": {"args": ["touch", str(evidence)]}},
    }
    checkpoint["datamodule_hyper_parameters"] = checkpoint["hyper_parameters"]
    torch.save(checkpoint, tmp_path / "x.ckpt")
    ok(lgx(*arguments("test", "Ancestor", images, tmp_path / "runs", f"--ckpt_path={tmp_path / 'x.ckpt'}")))
    assert not evidence.exists()


def test_a_checkpoint_of_something_else_ends_with_one_sentence(images, ancestor, tmp_path):
    saved = torch.load(ancestor / "checkpoints" / "last.ckpt", weights_only=True)
    del saved["lgx"]
    torch.save(saved, tmp_path / "x.ckpt")
    more = (f"--ckpt_path={tmp_path / 'x.ckpt'}", "--trainer.max_epochs=9")
    sentence = refusal(lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", *more)))
    assert sentence.startswith("lgx fit: --ckpt_path")
    assert "not a checkpoint of an lgx run" in sentence


@pytest.mark.parametrize("architecture", [HFArchitecture(1, 8, 2, max_len=16, vocab_size=32), SMALL])
def test_a_model_folder_runs_no_code_and_names_no_other_file(tmp_path, evidence, architecture):
    folder = tmp_path / "model"
    write_descendant(folder, architecture.build(), architecture)
    about = json.loads((folder / "config.json").read_text())
    (folder / "evil.py").write_text(f"open({str(evidence)!r}, 'w')\n")
    torch.save({"x": Payload(evidence)}, tmp_path / "evil.pt")
    timm = about.get("pretrained_cfg", {})
    for changes in (
        {"attn_implementation": "someone/kernels"},
        {"auto_map": {"AutoModel": "evil.Evil", "AutoConfig": "evil.Evil"}},
        {"pretrained_cfg": {**timm, "file": str(tmp_path / "evil.pt"), "source": ""}},
        {"pretrained_cfg": {**timm, "custom_load": True}},
    ):
        (folder / "config.json").write_text(json.dumps({**about, **changes}))
        assert lgx("export", folder, "--out", tmp_path / "out").code in (0, 2)
    assert not evidence.exists()
    (folder / "config.json").write_text(json.dumps(about))
    (folder / "model.safetensors").unlink()
    torch.save({"x": Payload(evidence)}, folder / "pytorch_model.bin")
    refusal(lgx("export", folder, "--out", tmp_path / "out"))
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


def test_yaml_tags_create_no_objects(fit, evidence):
    tag = "python/object/apply:os.system"
    assert tag in refusal(fit(f"model: !!{tag} ['touch {evidence}']\n"))
    assert not evidence.exists()


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

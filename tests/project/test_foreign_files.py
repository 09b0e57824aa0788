"""Foreign checkpoints, configurations, folders and archives run no code, and write nothing outside their folder."""

import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from PIL import Image

from data_modules.own_images.class_folders import ImageFolderData
from data_modules.sets.official import Archive
from data_modules.sets.torchvision_sets import Food101
from data_modules.shards.module import ShardedData
from data_modules.shards.writing import write_shards
from lgx.architectures import HFArchitecture, ViTArchitecture
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.export import write_descendant
from lgx.errors import UserError
from tests.support import fake_data
from tests.support.command_line import Result, analyze, arguments, lgx, ok, refusal
from tests.support.hostile import Payload
from tests.support.picture_files import tar

SMALL = ViTArchitecture(1, 8, 2, patch_size=4, img_size=8, num_classes=3)


def test_a_checkpoint_with_code_is_refused_by_every_command(images, tmp_path, evil, evidence):
    commands = [
        arguments("fit", "Ancestor", images, tmp_path / "runs", f"--ckpt_path={evil}"),
        arguments("test", "Ancestor", images, tmp_path / "runs", f"--ckpt_path={evil}"),
        arguments("fit", "Finetune", images, tmp_path / "runs", "--model.initializer=Pretrained",
                  f"--model.initializer.source={evil}"),
        arguments("fit", "SWS", images, tmp_path / "runs", "--model.stages=[2,2]", f"--model.ancestor={evil}"),
        ["export", evil, "--out", tmp_path / "out"],
        ["init", "--arch=2-Tiny", "--out", tmp_path / "out", "--source", evil],
        ["init", "--arch=2-Tiny", "--out", tmp_path / "out", "--source", evil, "--method=logah"],
        ["extract", evil, "--out", tmp_path / "x.learngene.safetensors"],
        ["embed", "--ancestor", evil, "--data", images, "--out", tmp_path / "e.safetensors"],
    ]  # fmt: skip
    analyzed = analyze("parameters", "--start", evil, "--trained", evil)
    for command, result in [*((command, lgx(*command)) for command in commands), ("analyze", analyzed)]:
        assert result.code == 2, command
        assert f"{evil}: not an intact checkpoint" in result.sentence, result.sentence
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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda saved: saved["optimizer_states"][0]["state"][0].update(exp_avg=torch.zeros(3)), "exp_avg has shape"),
        (lambda saved: saved["loops"]["fit_loop"].update(epoch_progress="x"), "is damaged"),
        (lambda saved: saved["state_dict"].pop("network.norm.weight"), "the checkpoint is from another run"),
        (lambda saved: saved.pop("lgx"), "not a checkpoint of an lgx run"),
    ],
)
def test_a_checkpoint_of_another_run_ends_with_one_sentence(images, ancestor, tmp_path, change, words):
    saved = torch.load(ancestor / "checkpoints" / "last.ckpt", weights_only=True)
    change(saved)
    torch.save(saved, tmp_path / "x.ckpt")
    more = (f"--ckpt_path={tmp_path / 'x.ckpt'}", "--trainer.max_epochs=9")
    sentence = refusal(lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", *more)))
    assert sentence.startswith("lgx fit: --ckpt_path")
    assert words in sentence


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
    ["os.system", "functools.partial", "torch.load", "timm.create_model", "lightning.pytorch.Trainer",
     "lgx.methods.Ancestor.load_from_checkpoint", "lgx.cli.main", "tests.support.probes.KillAt"],
)  # fmt: skip
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


def test_common_classes_are_allowed(fit):
    ok(fit(
        None, "--model.optimizer=timm.optim.Lion", "--data=data_modules.ImageFolderData",
        "--model.scheduler=torch.optim.lr_scheduler.CosineAnnealingLR",
        "--trainer.callbacks+=lightning.pytorch.callbacks.EarlyStopping", "--trainer.callbacks.monitor=val/loss",
        "--trainer.profiler=lightning.pytorch.profilers.SimpleProfiler",
        "--trainer.plugins+=lightning.pytorch.plugins.environments.LightningEnvironment",
    ))  # fmt: skip


def test_a_root_is_never_run_as_a_command(fit, evidence):
    for options in (["--data=ShardedData", "--data.name=x"], ["--data=ImageFolderData"]):
        refusal(fit(None, *options, f"--data.root=pipe:touch {evidence}"))
    assert not evidence.exists()


@pytest.mark.parametrize("suffix", ["pyd", "pkl", "pth", "npy"])
def test_members_of_shards_that_webdataset_would_decode_stay_bytes(tmp_path, evidence, suffix):
    for split in ("train", "val"):
        write_shards(fake_data.numbered(1), tmp_path / "toy", split, fake_data.TOY)
    picture = io.BytesIO()
    Image.new("RGB", (8, 8)).save(picture, "png")
    members = {"a.png": picture.getvalue(), "a.cls": b"0", f"a.{suffix}": pickle.dumps(Payload(evidence))}
    (tmp_path / "toy/train-000000.tar").write_bytes(tar(members.items()))
    for in_memory in (False, True):
        module = ShardedData(name="toy", root=str(tmp_path), in_memory=in_memory, batch_size=1, img_size=8)
        module.setup("fit")
        next(iter(module.train_dataloader()))
    assert not evidence.exists()


@pytest.mark.parametrize(("name", "link"), [("../evil", ""), ("a/link", "/etc/passwd"), ("a/link", "../..")])
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


def test_a_zip_file_writes_nothing_outside_its_folder(tmp_path):
    (tmp_path / "source").mkdir()
    for split in ("train", "test"):
        with zipfile.ZipFile(tmp_path / "source" / f"{split}.zip", "w") as archive:
            archive.writestr("../evil.png", b"")
    lgx("data", "prepare", "cifar10", "--root", tmp_path / "data", "--source", tmp_path / "source")
    assert {p.name for p in tmp_path.iterdir()} <= {"source", "data"}
    assert not (tmp_path / "data/evil.png").exists()


def test_a_file_behind_a_link_that_is_no_image_does_not_get_into_shards(tmp_path):
    for k, split in enumerate(("train", "test")):
        fake_data.class_tree(tmp_path / "mine" / split, ["a", "b"], 2, k)
    picture = next((tmp_path / "mine/train").rglob("*.png"))
    picture.unlink()
    picture.symlink_to("/etc/passwd")
    module = ImageFolderData(str(tmp_path / "mine"), val_fraction=0)
    with pytest.raises(UserError, match="is not an image"):
        write_shards(module.read("train"), tmp_path / "shards", "train", module.info)
    assert not list(tmp_path.rglob("*.tar"))

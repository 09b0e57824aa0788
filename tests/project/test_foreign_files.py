"""Foreign checkpoints, configurations and folders run no code, and archives write nothing outside their folder."""

import io
import json
import tarfile
from pathlib import Path

import pytest
import torch

from data_modules.sets.official import Archive
from data_modules.sets.torchvision_sets import Food101
from lgx.architectures import HFArchitecture, ViTArchitecture
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.export import write_descendant
from tests.support.command_line import arguments, lgx, ok, refusal
from tests.support.hostile import Payload

SMALL = ViTArchitecture(1, 8, 2, patch_size=4, img_size=8, num_classes=3)


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """A file that exists only if hostile code has run."""
    return tmp_path / "evidence"


@pytest.fixture
def evil(tmp_path: Path, evidence: Path) -> Path:
    """A checkpoint that runs code when it is unpickled."""
    path = tmp_path / "evil.ckpt"
    torch.save({"state_dict": Payload(evidence), "lgx": {}, "pytorch-lightning_version": "2"}, path)
    return path


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


def test_yaml_tags_create_no_objects(images, tmp_path, evidence):
    tag, file = "python/object/apply:os.system", tmp_path / "others.yaml"
    file.write_text(f"model: !!{tag} ['touch {evidence}']\n")
    assert tag in refusal(lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", f"--config={file}")))
    assert not evidence.exists()


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

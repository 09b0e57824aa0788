"""Foreign learngenes, checkpoints and model folders run no code, and take no more memory than they hold."""

import json
import struct
import time

import pytest
import torch

from lgx.architectures import HFArchitecture, ViTArchitecture
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.export import write_descendant
from lgx.artifacts.learngene import Learngene
from lgx.errors import UserError
from tests.support.command_line import analyze, arguments, lgx, ok, refusal
from tests.support.hostile import Payload

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


def test_a_header_of_terabytes_reads_nothing(tmp_path):
    path = tmp_path / "x.learngene.safetensors"
    path.write_bytes(struct.pack("<Q", 2**42) + b"{")
    with pytest.raises(UserError, match="not an intact safetensors file"):
        Learngene.load(path)
    for shape, end in (([2**40], 2**42), ([2**62, 2**62], 16), ([4], 2**63)):
        header = json.dumps({"x": {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}}).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 16)
        with pytest.raises(UserError, match="not an intact safetensors file"):
            Learngene.load(path)


def test_a_learngene_that_claims_more_than_it_contains_is_refused(tmp_path):
    path, started = tmp_path / "x.learngene.safetensors", time.perf_counter()
    for changes in ({"depth": 1000}, {"embed_dim": 65_536, "num_heads": 1}, {"num_classes": 10**6}, {"img_size": 4096}):
        claimed = ViTArchitecture(**{**SMALL.to_dict(), **changes})
        Learngene("ancestor", claimed, SMALL.build().state_dict()).save(path)
        assert str(path) in refusal(lgx("export", path, "--out", tmp_path / "out"))
    tensors = {**SMALL.build().state_dict(), "blocks.999999999.norm1.weight": torch.ones(8)}
    Learngene("ancestor", SMALL, tensors).save(path)
    assert "not numbered" in lgx("export", path, "--out", tmp_path / "out").sentence
    assert time.perf_counter() - started < 20


def test_paths_in_a_learngene_are_never_opened(tmp_path, evidence):
    path, secret = tmp_path / "x.learngene.safetensors", tmp_path / "secret.txt"
    secret.write_text("secret")
    task = {"name": f"../../{evidence}", "class_names": [str(secret)] * 3, "num_classes": 3}
    Learngene("ancestor", SMALL, SMALL.build().state_dict(), ancestor=str(secret), task=task).save(path)
    assert lgx("export", path, "--out", tmp_path / "out").code == 0
    assert lgx("init", "--source", path, "--arch", SMALL.spec(), "--out", tmp_path / "again").code == 0
    assert not evidence.exists()
    assert secret.read_text() == "secret"
    assert not any("secret\n" in p.read_text(errors="replace") for p in (tmp_path / "out").iterdir())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again", "out", "secret.txt", "x.learngene.safetensors"]


def test_names_with_terminal_control_codes_are_refused(tmp_path):
    path = tmp_path / "x.learngene.safetensors"
    Learngene("\x1b]0;owned\x07", SMALL, SMALL.build().state_dict()).save(path)
    result = lgx("export", path, "--out", tmp_path / "out")
    assert (result.code, "\x1b" in result.err) == (2, False)


def test_a_folder_of_transformers_runs_no_code(tmp_path):
    folder = tmp_path / "gpt2"
    architecture = HFArchitecture(1, 8, 2, max_len=16, vocab_size=32)
    write_descendant(folder, architecture.build(), architecture)
    about = json.loads((folder / "config.json").read_text())
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'evidence')!r}, 'w')\n")
    for changes in (
        {"attn_implementation": "someone/kernels"},
        {"_attn_implementation": "someone/kernels"},
        {"quantization_config": {"quant_method": "bitnet"}},
        {"auto_map": {"AutoModel": "evil.Evil", "AutoConfig": "evil.Evil"}},
    ):
        (folder / "config.json").write_text(json.dumps({**about, **changes}))
        result = lgx("export", folder, "--out", tmp_path / "out")
        assert (result.code == 2) == ("quantization_config" in changes), result.err
    assert not (tmp_path / "evidence").exists()
    (folder / "config.json").write_text(json.dumps(about))
    (folder / "model.safetensors").rename(folder / "elsewhere.safetensors")
    torch.save({"x": Payload(tmp_path / "evidence")}, folder / "pytorch_model.bin")
    assert "it was not loaded" in lgx("export", folder, "--out", tmp_path / "out").sentence
    assert not (tmp_path / "evidence").exists()


def test_a_timm_folder_names_no_other_file_of_weights(tmp_path):
    folder = tmp_path / "vit"
    write_descendant(folder, SMALL.build(), SMALL)
    about = json.loads((folder / "config.json").read_text())
    torch.save({"x": Payload(tmp_path / "evidence")}, tmp_path / "evil.pt")
    for changes in (
        {"file": str(tmp_path / "evil.pt"), "source": ""},
        {"custom_load": True},
        {"url": "http://127.0.0.1:9/x"},
    ):
        changed = {**about, "pretrained_cfg": {**about["pretrained_cfg"], **changes}}
        (folder / "config.json").write_text(json.dumps(changed))
        assert lgx("export", folder, "--out", tmp_path / "out").code in (0, 2)
    assert not (tmp_path / "evidence").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda saved: saved["optimizer_states"][0]["state"][0].update(exp_avg=torch.zeros(3)), "exp_avg has shape"),
        (lambda saved: saved["optimizer_states"][0]["state"].update({0: []}), "is damaged"),
        (lambda saved: saved["optimizer_states"][0]["param_groups"][0].update(eps="x"), "is damaged"),
        (lambda saved: saved["optimizer_states"][0]["param_groups"][0].update(betas=(0.9,)), "is damaged (ValueError"),
        (lambda saved: saved["loops"]["fit_loop"].update(epoch_progress="x"), "is damaged"),
        (lambda saved: saved["state_dict"].pop("network.norm.weight"), "the checkpoint is from another run"),
        (lambda saved: saved["lgx"].update(epochs="x"), "epochs is 'x'"),
        (lambda saved: saved.pop("lgx"), "not a checkpoint of an lgx run"),
    ],
)  # fmt: skip
def test_a_checkpoint_of_another_run_ends_with_one_sentence(images, ancestor, tmp_path, change, words):
    saved = torch.load(ancestor / "checkpoints" / "last.ckpt", weights_only=True)
    change(saved)
    torch.save(saved, tmp_path / "x.ckpt")
    result = lgx(
        *arguments("fit", "Ancestor", images, tmp_path / "runs", f"--ckpt_path={tmp_path / 'x.ckpt'}"),
        "--trainer.max_epochs=9",
    )
    assert result.code == 2, result.err
    assert result.sentence.startswith("lgx fit: --ckpt_path")
    assert words in result.sentence, result.sentence

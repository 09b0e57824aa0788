"""Configurations, learngenes and checkpoints of others run no code, and take no more than their share."""

import json
import os
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import Learngene, load_checkpoint
from lgx.errors import UserError
from lgx.runs.sweeps import load_sweep
from tests.support.command_line import Result, arguments, lgx
from tests.support.hostile import Payload


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """A file that nothing may write."""
    return tmp_path / "evidence"


@pytest.fixture
def evil(tmp_path: Path, evidence: Path) -> Path:
    """A checkpoint that runs code where it is unpickled."""
    path = tmp_path / "evil.ckpt"
    torch.save({"state_dict": Payload(evidence), "lgx": {}, "pytorch-lightning_version": "2"}, path)
    return path


@pytest.fixture
def fit(images: Path, tmp_path: Path) -> Callable[..., Result]:
    """``lgx fit`` of one batch, with a configuration beside it."""

    def run(content: Any = None, *options: str) -> Result:
        if content is not None:
            file = tmp_path / "others.yaml"
            file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
            options = (*options, f"--config={file}")
        return lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", "--trainer.fast_dev_run=true", *options))

    return run


# -- configurations --------------------------------------------------------------------------------------------------

FOREIGN = [
    "os.system", "posix.system", "subprocess.Popen", "builtins.eval", "builtins.exec", "builtins.open", "shutil.rmtree",
    "functools.partial", "importlib.import_module", "pickle.load", "torch.load", "torch.hub.load", "torch.jit.load",
    "torch.utils.cpp_extension.load", "torch.optim.optimizer.torch.load", "torch.nn.Module", "timm.create_model",
    "timm.models._helpers.load_state_dict", "lightning.fabric.utilities.cloud_io._load", "lightning.pytorch.Trainer",
    "lightning.pytorch.LightningModule.load_from_checkpoint", "lgx.methods.Ancestor.load_from_checkpoint",
    "lgx.cli.main", "lgx.core.files.atomic_path", "data_modules.prepare.link", "data_modules.archives.unzip",
    "data_modules.ADE20K.bring",
    "webdataset.gopen.gopen", "jsonargparse.set_parsing_settings", "tests.support.probes.KillAt",
]  # fmt: skip


def place(spot: str, path: str, arguments_: dict[str, Any]) -> dict[str, Any]:
    """A configuration that names a path where a class or a callable may stand."""
    named = {"class_path": path, "init_args": arguments_}
    match spot:
        case "model" | "data":
            return {spot: named}
        case "optimizer" | "scheduler":
            return {"model": {"class_path": "Ancestor", "init_args": {spot: named}}}
        case "callable":
            named = {"class_path": "lightning.pytorch.callbacks.LambdaCallback", "init_args": {"on_fit_start": named}}
    return {"trainer": {"callbacks": [named]}}


@pytest.mark.parametrize("path", FOREIGN)
def test_a_configuration_names_known_classes_only(fit, path):
    result = fit(place("optimizer", path, {}))
    assert result.code == 2
    assert result.sentence.startswith("lgx fit: ")
    assert "is not allowed" in result.sentence
    assert "LGX_ALLOW_IMPORTS" in result.sentence


@pytest.mark.parametrize("spot", ["optimizer", "scheduler", "callable", "callback", "model", "data"])
def test_a_loader_of_pickles_with_its_file_is_refused_everywhere(fit, evil, evidence, spot):
    loader = "timm.models._helpers.load_state_dict"
    result = fit(place(spot, loader, {"checkpoint_path": str(evil), "weights_only": False}))
    assert result.code == 2
    assert f"{loader} is not allowed" in result.sentence
    assert not evidence.exists()


@pytest.mark.parametrize(
    "tag", ["python/object/apply:os.system", "python/object/new:subprocess.Popen", "python/name:os.system"]
)
def test_yaml_makes_no_objects(fit, evidence, tag):
    result = fit(f"model: !!{tag} ['touch {evidence}']\n")
    assert result.code == 2
    assert tag in result.sentence
    assert not evidence.exists()


LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{k + 1}: &a{k + 1} [*a{k}, *a{k}]\n" for k in range(60))
BOMBS = {
    "aliases": LAUGHS,
    "an alias of itself": "&a [*a]\n",
    "brackets": "[" * 500_000,  # the interpreter itself would end
    "braces": "{a: " * 500_000,
    "dashes": "- " * 500_000,
    "a long text": f"a: {'x' * 2**21}",
    "a long number": f"a: {'9' * 10_000}",
    "no such day": "a: 2024-13-45",
    "another encoding": b"a: caf\xe9",
    "zeros": b"\0" * 1000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_of_yaml_is_one_sentence(tmp_path, name):
    file, content = tmp_path / "sweep.yaml", BOMBS[name]
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    started = time.perf_counter()
    for result in (lgx("sweep", file, "--dry_run"), lgx("fit", f"--config={file}")):
        assert result.code == 2, result.err
        assert len(result.err) < 2500
        assert str(file) in result.sentence or name == "no such day"
    if name != "no such day":  # a text to jsonargparse, whose options are no days
        with pytest.raises(UserError, match=r"sweep\.yaml: (not valid YAML|a sweep)"):
            load_sweep(file)
    assert time.perf_counter() - started < 20


def test_braces_in_a_sweep_fetch_no_attributes_and_fill_no_memory(tmp_path):
    for name in ("{seed.__class__.__init__}", "{seed:999999999}", "{runs!r:>9999999}"):
        entry = {"name": name, "config": "run.yaml"}
        (tmp_path / "s.yaml").write_text(yaml.safe_dump({"experiment": "e", "seeds": [0], "runs": [entry]}))
        with pytest.raises(UserError, match="unknown variable"):
            load_sweep(tmp_path / "s.yaml")
    entry = {"name": "{a}{b}{c}", "config": "run.yaml", "matrix": {key: list(range(1000)) for key in "abc"}}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"experiment": "e", "seeds": [0], "runs": [entry]}))
    with pytest.raises(UserError, match="asks for 1,000,000,000 runs"):
        load_sweep(tmp_path / "s.yaml")


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path):
    for name in ("sweep.yaml", "set.jsonl", "config.json", "results.csv", "x.learngene.safetensors", "x.ckpt"):
        os.mkfifo(tmp_path / name)
    for command in (
        ["sweep", tmp_path / "sweep.yaml"],
        ["fit", f"--config={tmp_path / 'sweep.yaml'}"],
        ["init", "--arch=2-Tiny", "--out=x", f"--learngene={tmp_path / 'x.learngene.safetensors'}"],
        ["export", tmp_path / "x.ckpt", "--out=x"],
        ["export", tmp_path, "--out=x"],
        ["compare", tmp_path / "results.csv"],
    ):
        result = lgx(*command)
        assert result.code == 2, result.err


@pytest.mark.parametrize("packages", ["*", "jsonargparse", "a b", "os.", "..", "lgx;os"])
def test_a_malformed_list_of_own_packages_is_one_sentence(fit, monkeypatch, packages):
    monkeypatch.setenv("LGX_ALLOW_IMPORTS", packages)
    result = fit()
    assert result.code == 2
    assert "LGX_ALLOW_IMPORTS" in result.sentence


def test_ones_own_packages_are_allowed_by_name_alone(fit, tmp_path, evidence, monkeypatch):
    (tmp_path / "own_callbacks.py").write_text("from lightning.pytorch import Callback\nclass Own(Callback): pass\n")
    (tmp_path / "their_callbacks.py").write_text(f"open({str(evidence)!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "own_callbacks.Own is not allowed" in fit(None, "--trainer.callbacks+=own_callbacks.Own").sentence
    monkeypatch.setenv("LGX_ALLOW_IMPORTS", "own_callbacks, other")
    assert fit(None, "--trainer.callbacks+=own_callbacks.Own").code == 0
    result = fit(None, "--trainer.callbacks+=their_callbacks.Own")
    assert result.code == 2
    assert "importing their_callbacks.Own is not allowed" in result.sentence
    assert not evidence.exists()
    monkeypatch.delenv("LGX_ALLOW_IMPORTS")
    assert "own_callbacks.Own is not allowed" in fit(None, "--trainer.callbacks+=own_callbacks.Own").sentence


NEEDED = [
    "--model.optimizer=timm.optim.Lion", "--model.scheduler=torch.optim.lr_scheduler.CosineAnnealingLR",
    "--trainer.callbacks+=lightning.pytorch.callbacks.EarlyStopping", "--data=data_modules.ImageFolderData",
    "--trainer.profiler=lightning.pytorch.profilers.SimpleProfiler",
    "--trainer.plugins+=lightning.pytorch.plugins.environments.LightningEnvironment",
]  # fmt: skip


@pytest.mark.parametrize("option", NEEDED)
def test_what_users_need_is_allowed(fit, option):
    extra = ["--trainer.callbacks.monitor=val/acc"] if "EarlyStopping" in option else []
    result = fit(None, option, *extra)
    assert result.code == 0, result.err


REFUSED = ["--trainer.strategy=foo", "--trainer.accelerator=foo", "--model.optimizer.lr=-1", "--model.mixup=.nan",
           "--name=\0", "--model.optimizer.betas=[1.5, 0.9]"]  # fmt: skip


@pytest.mark.parametrize("option", REFUSED)
def test_a_value_that_libraries_refuse_is_one_sentence(fit, option):
    result = fit(None, option)
    assert result.code == 2, result.err
    assert result.sentence.startswith("lgx fit: ")
    assert "Traceback" not in result.err


@pytest.mark.parametrize("root", ["pipe:touch {}", "http://127.0.0.1:9/x", "file:///etc", "pipe:touch {} |"])
def test_a_root_is_a_folder_and_no_command(fit, evidence, root):
    root = root.format(evidence)
    for options in (["--data=ShardedData", "--data.name=x"], ["--data=PocketDecathlon"], ["--data=ImageFolderData"]):
        result = fit(None, *options, f"--data.root={root}")
        assert result.code == 2
        assert result.sentence.startswith("lgx fit: ")
    assert not evidence.exists()
    assert not list(Path().glob("pipe:*"))


# -- learngenes and checkpoints ----------------------------------------------------------------------------------------

SMALL = ViTArchitecture(1, 8, 2, patch_size=4, img_size=8, num_classes=3)


def test_a_checkpoint_with_code_is_refused_by_every_command(images, tmp_path, evil, evidence):
    commands = [
        arguments("fit", "Ancestor", images, tmp_path / "runs", f"--ckpt_path={evil}"),
        arguments("test", "Ancestor", images, tmp_path / "runs", f"--ckpt_path={evil}"),
        arguments("fit", "Finetune", images, tmp_path / "runs", "--model.initializer=Pretrained",
                  f"--model.initializer.source={evil}"),
        arguments("fit", "SWS", images, tmp_path / "runs", "--model.stages=[2,2]", f"--model.ancestor={evil}"),
        ["export", evil, "--out", tmp_path / "out"],
        ["init", "--arch=2-Tiny", "--out", tmp_path / "out", "--learngene", evil],
        ["init", "--arch=2-Tiny", "--out", tmp_path / "out", "--learngene", evil, "--method=logah"],
        ["extract", evil, "--out", tmp_path / "x.learngene.safetensors"],
        ["embed", "--ancestor", evil, "--data", images, "--out", tmp_path / "e.safetensors"],
        ["analyze", "parameters", "--start", evil, "--trained", evil],
    ]  # fmt: skip
    for command in commands:
        result = lgx(*command)
        assert result.code == 2, command
        assert f"{evil}: not an intact checkpoint" in result.sentence, result.sentence
    assert not evidence.exists()


def test_hyper_parameters_of_a_checkpoint_make_nothing(fit, images, ancestor, tmp_path, evidence):
    checkpoint = load_checkpoint(ancestor / "checkpoints" / "last.ckpt")
    checkpoint["hyper_parameters"] = {
        "_instantiator": "os.system",
        "_class_path": "subprocess.Popen",
        "model": {"class_path": "subprocess.Popen", "init_args": {"args": ["touch", str(evidence)]}},
    }
    checkpoint["datamodule_hyper_parameters"] = checkpoint["hyper_parameters"]
    torch.save(checkpoint, tmp_path / "x.ckpt")
    result = lgx(
        *arguments("test", "Ancestor", images, tmp_path / "runs", f"--ckpt_path={tmp_path / 'x.ckpt'}"),
    )
    assert result.code == 0, result.err
    assert not evidence.exists()


def saved(path: Path, pickled: bytes, **options: Any) -> Path:
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/data/0", bytes(2**20))
    return path


TUPLES = b"\x80\x02})q\x00" + b"".join(
    b"h" + bytes([k]) + b"h" + bytes([k]) + b"\x86q" + bytes([k + 1]) for k in range(99)
)
PICKLES = {
    "a byte array of a gigabyte": (b"\x80\x02cbuiltins\nbytearray\nJ\x00\x00\x00\x40\x85R.", {}),
    "a byte array by its old name": (b"\x80\x02c__builtin__\nbytearray\nJ\x00\x00\x00\x40\x85R.", {}),
    "tuples that double": (TUPLES + b"K\x01s.", {}),
    "compression": (b"\x80\x02}.", {"compression": zipfile.ZIP_DEFLATED}),
    "lists in lists": (b"\x80\x02" + b"]" * 10**5 + b"a" * (10**5 - 1) + b".", {}),
    "a function": (b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.", {}),
}


@pytest.mark.parametrize("name", PICKLES)
def test_a_pickle_that_asks_for_time_or_memory_is_refused(tmp_path, name):
    pickled, options = PICKLES[name]
    path, started = saved(tmp_path / "x.ckpt", pickled, **options), time.perf_counter()
    with pytest.raises(UserError, match=r"x\.ckpt: (not an intact checkpoint|holds a list)"):
        load_checkpoint(path)
    assert time.perf_counter() - started < 10


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


def test_a_learngene_that_claims_more_than_it_holds_builds_nothing(tmp_path):
    path, started = tmp_path / "x.learngene.safetensors", time.perf_counter()
    for changes in ({"depth": 1000}, {"embed_dim": 65_536, "num_heads": 1}, {"num_classes": 10**6}, {"img_size": 4096}):
        claimed = ViTArchitecture(**{**SMALL.to_dict(), **changes})
        Learngene("ancestor", claimed, SMALL.build().state_dict()).save(path)
        result = lgx("export", path, "--out", tmp_path / "out")
        assert result.code == 2
        assert str(path) in result.sentence
    tensors = {**SMALL.build().state_dict(), "blocks.999999999.norm1.weight": torch.ones(8)}
    Learngene("ancestor", SMALL, tensors).save(path)
    assert "not numbered" in lgx("export", path, "--out", tmp_path / "out").sentence
    assert time.perf_counter() - started < 20


def test_paths_in_a_learngene_are_names_alone(tmp_path, evidence):
    path, secret = tmp_path / "x.learngene.safetensors", tmp_path / "secret.txt"
    secret.write_text("secret")
    task = {"name": f"../../{evidence}", "class_names": [str(secret)] * 3, "num_classes": 3}
    Learngene("ancestor", SMALL, SMALL.build().state_dict(), ancestor=str(secret), task=task).save(path)
    assert lgx("export", path, "--out", tmp_path / "out").code == 0
    assert lgx("init", "--learngene", path, "--arch", SMALL.spec(), "--out", tmp_path / "again").code == 0
    assert not evidence.exists()
    assert secret.read_text() == "secret"
    assert not any("secret\n" in p.read_text(errors="replace") for p in (tmp_path / "out").iterdir())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again", "out", "secret.txt", "x.learngene.safetensors"]


def test_names_that_would_steer_a_terminal_are_refused(tmp_path):
    path = tmp_path / "x.learngene.safetensors"
    Learngene("\x1b]0;owned\x07", SMALL, SMALL.build().state_dict()).save(path)
    result = lgx("export", path, "--out", tmp_path / "out")
    assert result.code == 2
    assert "\x1b" not in result.err


def test_a_folder_of_transformers_brings_no_code(tmp_path):
    from lgx.architectures import GPT2Architecture
    from lgx.artifacts.export_gpt2 import write_text_descendant

    folder = tmp_path / "gpt2"
    write_text_descendant(folder, GPT2Architecture(1, 8, 2, max_len=16, vocab_size=32).build())
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
        assert (result.code == 0) == ("auto_map" in changes), result.sentence
    assert not (tmp_path / "evidence").exists()
    (folder / "config.json").write_text(json.dumps(about))
    (folder / "model.safetensors").rename(folder / "elsewhere.safetensors")
    torch.save({"x": Payload(tmp_path / "evidence")}, folder / "pytorch_model.bin")
    assert "no such file" in lgx("export", folder, "--out", tmp_path / "out").sentence
    assert not (tmp_path / "evidence").exists()


def test_a_timm_folder_is_no_larger_than_its_weights(tmp_path):
    from lgx.artifacts.export import write_descendant

    folder = tmp_path / "vit"
    write_descendant(folder, SMALL.build(), SMALL)
    about = json.loads((folder / "config.json").read_text())
    started = time.perf_counter()
    for changes in (
        {"depth": 10**6},
        {"embed_dim": 65_536},
        {"embed_dim": 10**9},
        {"mlp_ratio": 1e9},
        {"num_classes": 10**9},
    ):
        (folder / "config.json").write_text(json.dumps({**about, "model_args": {**about["model_args"], **changes}}))
        result = lgx("export", folder, "--out", tmp_path / "out")
        assert result.code == 2, changes
        assert str(folder) in result.sentence
    assert time.perf_counter() - started < 30
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
        (lambda saved: saved["optimizer_states"][0]["state"].update({0: []}), "state of a parameter is []"),
        (lambda saved: saved["optimizer_states"][0]["param_groups"][0].update(eps="x"), "eps is 'x'"),
        (lambda saved: saved["optimizer_states"][0]["param_groups"][0].update(params=[{}]), "is damaged"),
        (lambda saved: saved["lr_schedulers"][0].update(lr_lambdas=[False, 1]), "is damaged"),
        (lambda saved: saved.update(loops={"fit_loop": {"epoch_progress": 1}}), "the checkpoint is not of this run"),
        (lambda saved: saved["loops"]["fit_loop"].update(epoch_progress="x"), "loops is"),
        (lambda saved: saved["state_dict"].pop("network.norm.weight"), "the checkpoint is not of this run"),
        (lambda saved: saved["state_dict"].update({"network.norm.weight": "x"}), "state_dict is"),
        (lambda saved: saved["lgx"].update(architecture=1), "architecture"),
        (lambda saved: saved["lgx"].update(task={"mean": "x"}), "mean is 'x'"),
        (lambda saved: saved.pop("lgx"), "not a checkpoint of an lgx run"),
    ],
)  # fmt: skip
def test_a_checkpoint_of_something_else_is_one_sentence(images, ancestor, tmp_path, change, words):
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

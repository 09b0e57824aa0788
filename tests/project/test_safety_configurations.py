"""Foreign configurations name known classes only, and run no code."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from lgx.errors import UserError
from lgx.runs.sweeps import load_sweep
from tests.support.command_line import Result, arguments, lgx, ok, refusal


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


FOREIGN = [
    "os.system", "posix.system", "subprocess.Popen", "builtins.eval", "builtins.exec", "builtins.open", "shutil.rmtree",
    "functools.partial", "importlib.import_module", "pickle.load", "torch.load", "torch.hub.load", "torch.jit.load",
    "torch.utils.cpp_extension.load", "torch.optim.optimizer.torch.load", "torch.nn.Module", "timm.create_model",
    "timm.models._helpers.load_state_dict", "lightning.fabric.utilities.cloud_io._load", "lightning.pytorch.Trainer",
    "lightning.pytorch.LightningModule.load_from_checkpoint", "lgx.methods.Ancestor.load_from_checkpoint",
    "lgx.cli.main", "lgx.host.files.atomic_path", "data_modules.sets.bring.link", "data_modules.files.archives.unzip",
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
    sentence = refusal(fit(place("optimizer", path, {})))
    assert sentence.startswith("lgx fit: ")
    assert "is not allowed" in sentence
    assert "LGX_ALLOW_IMPORTS" in sentence


@pytest.mark.parametrize("spot", ["optimizer", "scheduler", "callable", "callback", "model", "data"])
def test_a_function_that_loads_pickles_is_refused_everywhere(fit, evil, evidence, spot):
    loader = "timm.models._helpers.load_state_dict"
    sentence = refusal(fit(place(spot, loader, {"checkpoint_path": str(evil), "weights_only": False})))
    assert loader in sentence
    assert "is not allowed" in sentence
    assert not evidence.exists()


@pytest.mark.parametrize(
    "tag", ["python/object/apply:os.system", "python/object/new:subprocess.Popen", "python/name:os.system"]
)
def test_yaml_tags_create_no_objects(fit, evidence, tag):
    assert tag in refusal(fit(f"model: !!{tag} ['touch {evidence}']\n"))
    assert not evidence.exists()


DAMAGE = {
    "an alias of itself": "&a [*a]\n",
    "a long number": f"a: {'9' * 10_000}",
    "no such day": "a: 2024-13-45",
    "another encoding": b"a: caf\xe9",
    "zeros": b"\0" * 1000,
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_yaml_ends_with_one_sentence(tmp_path, name):
    file, content = tmp_path / "sweep.yaml", DAMAGE[name]
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    started = time.perf_counter()
    for result in (lgx("sweep", file, "--dry_run"), lgx("fit", f"--config={file}")):
        assert result.code == 2, result.err
        assert len(result.err) < 2500
        assert str(file) in result.sentence or name == "no such day"
    if name != "no such day":  # jsonargparse reads it as text: no option is a date
        with pytest.raises(UserError, match=r"sweep\.yaml: (not valid YAML|.*expected keys)"):
            load_sweep(file)
    assert time.perf_counter() - started < 20


def test_a_pipe_in_place_of_a_file_is_refused_at_once(tmp_path):
    for name in ("sweep.yaml", "set.jsonl", "config.json", "results.csv", "x.learngene.safetensors", "x.ckpt"):
        os.mkfifo(tmp_path / name)
    for command in (
        ["sweep", tmp_path / "sweep.yaml"],
        ["fit", f"--config={tmp_path / 'sweep.yaml'}"],
        ["init", "--arch=2-Tiny", "--out=x", f"--source={tmp_path / 'x.learngene.safetensors'}"],
        ["export", tmp_path / "x.ckpt", "--out=x"],
        ["export", tmp_path, "--out=x"],
        ["compare", tmp_path / "results.csv"],
    ):
        refusal(lgx(*command))


@pytest.mark.parametrize("packages", ["*", "jsonargparse", "a b", "os.", "..", "lgx;os"])
def test_a_malformed_list_of_own_packages_ends_with_one_sentence(fit, monkeypatch, packages):
    monkeypatch.setenv("LGX_ALLOW_IMPORTS", packages)
    assert "LGX_ALLOW_IMPORTS" in refusal(fit())


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
    monkeypatch.delenv("LGX_ALLOW_IMPORTS")
    assert "own_callbacks.Own is not allowed" in fit(None, "--trainer.callbacks+=own_callbacks.Own").sentence


def test_common_classes_are_allowed(fit):
    ok(fit(
        None, "--model.optimizer=timm.optim.Lion", "--data=data_modules.ImageFolderData",
        "--model.scheduler=torch.optim.lr_scheduler.CosineAnnealingLR",
        "--trainer.callbacks+=lightning.pytorch.callbacks.EarlyStopping", "--trainer.callbacks.monitor=val/loss",
        "--trainer.profiler=lightning.pytorch.profilers.SimpleProfiler",
        "--trainer.plugins+=lightning.pytorch.plugins.environments.LightningEnvironment",
    ))  # fmt: skip


@pytest.mark.parametrize("root", ["pipe:touch {}", "http://127.0.0.1:9/x", "file:///etc", "pipe:touch {} |"])
def test_a_root_is_never_run_as_a_command(fit, evidence, root):
    root = root.format(evidence)
    for options in (["--data=ShardedData", "--data.name=x"], ["--data=PocketDecathlon"], ["--data=ImageFolderData"]):
        assert refusal(fit(None, *options, f"--data.root={root}")).startswith("lgx fit: ")
    assert not evidence.exists()
    assert not list(Path().glob("pipe:*"))

"""Without the optional packages every module imports, and what needs one of them names its extra.

``make no-extras`` runs this file, and the tests of the core, where they are not installed; here links
to all other packages replace the folder of installed packages.
"""

import json
import os
import re
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.support import house
from tests.support.command_line import ARCH, python
from tests.support.paths import ROOT

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TOOLS = {"dev", "docs"}
"""Extras of those who work on lgx."""
OPTIONAL = {
    re.split(r"[\[<>=]", text)[0]
    for extra, texts in EXTRAS.items()
    if extra not in TOOLS
    for text in texts
    if not text.startswith("lgx[")
}
NEED_ONE = {
    f"lgx.architectures.hf_{name}": "No module named 'transformers'"
    for name in ("config", "model", "structure", "trials")
}
"""Modules that are imported inside the context of their extra alone, and what their message says."""
GPT2 = "hf:depth=1,embed_dim=8,num_heads=2,max_len=8"
COMMANDS = {
    "nlp": ["init", "--method=random", f"--arch={GPT2}", "--num_classes=3", "--out=text"],
    "sweep": ["sweep", str(ROOT / "experiments/sws/demo.yaml"), "--cluster=slurm"],
    "core": ["init", "--method=random", f"--arch={ARCH}", "--num_classes=3", "--out=start"],
}
SCRIPT = f"""
import contextlib, importlib, io, json, sys
from lgx.cli import main
commands, modules = {{}}, {{}}
for name, words in {COMMANDS}.items():
    err = io.StringIO()
    try:
        with contextlib.redirect_stderr(err):
            main(words)
        commands[name] = [0, err.getvalue()]
    except SystemExit as end:
        commands[name] = [end.code, err.getvalue()]
for name in {sorted(house.modules())}:
    try:
        importlib.import_module(name)
    except Exception as error:
        modules[name] = str(error)
print(json.dumps([commands, modules]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An empty folder to work in."""
    return tmp_path_factory.mktemp("folder")


@pytest.fixture(scope="module")
def ran(folder, tmp_path_factory):
    """What a Python without the optional packages, to which links lead, says to commands and to every import."""
    packages = tmp_path_factory.mktemp("packages")
    installed = Path(sysconfig.get_path("purelib"))
    hidden = set()
    for distribution in metadata.distributions(path=[str(installed)]):
        if canonicalize_name(distribution.name) in map(canonicalize_name, OPTIONAL):
            hidden |= {Path(file).parts[0] for file in distribution.files or ()}
    for path in installed.iterdir():
        if path.name not in hidden and path.suffix != ".pth":
            (packages / path.name).symlink_to(path)
    path = os.pathsep.join([str(ROOT), str(packages)])
    done = python("-S", "-c", SCRIPT, cwd=folder, timeout=170, PYTHONPATH=path, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_module_imports_without_the_optional_packages(ran):
    _, failed = ran
    assert failed.keys() == NEED_ONE.keys(), failed
    assert all(NEED_ONE[name] in message for name, message in failed.items()), failed


def test_a_command_names_the_extra_that_it_needs_and_images_need_none(ran, folder):
    commands, _ = ran
    for extra in ("nlp", "sweep"):
        code, err = commands[extra]
        assert code == 2
        assert err.strip().endswith(f"pip install 'lgx[{extra}]'")
    commands, _ = ran
    assert commands["core"][0] == 0, commands["core"]
    assert (folder / "start/model.safetensors").is_file()

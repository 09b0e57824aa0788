"""Measured rows record their code, configuration and machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import lgx
from lgx.core.provenance import commit, config_hash
from lgx.core.rows import read_rows


def test_rows_of_a_run_name_its_configuration_and_the_machine(ancestor: Path) -> None:
    (config,) = {row.config for row in read_rows(ancestor / "results.csv")}
    text = (ancestor / "config.yaml").read_text()
    assert config == config_hash(text) == config_hash("# another version\n" + text)
    assert config != config_hash(text.replace("max_epochs: ", "max_epochs: 1"))
    assert all("CPU cores" in row.hardware and row.commit == commit() for row in read_rows(ancestor / "results.csv"))


def test_the_commit_is_marked_when_the_code_was_changed(tmp_path: Path) -> None:
    root = tmp_path / "clone"
    shutil.copytree(Path(lgx.__file__).parent, root / "lgx", ignore=shutil.ignore_patterns("__pycache__"))

    # Independent of a repository that a git hook names, and of the user's settings.
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

    def version() -> str:
        script = "import sys; sys.path.insert(0, '.'); from lgx.core.provenance import commit; print(commit())"
        return subprocess.run(
            [sys.executable, "-c", script], cwd=root, env=env, check=True, capture_output=True, text=True
        ).stdout

    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
        return subprocess.run(command, cwd=root, env=env, check=True, capture_output=True, text=True).stdout.strip()

    assert version() == f"lgx {lgx.__version__}\n"
    git("init", "-q")
    git("add", "lgx")
    git("commit", "-qm", "first")
    head = git("rev-parse", "--short=10", "HEAD")
    (root / "lgx/__pycache__").mkdir(exist_ok=True)
    (root / ".gitignore").write_text("__pycache__\n")
    os.utime(root / "lgx/errors.py", (0, 0))  # git would note in its index that the file is the same, under a lock
    index = (root / ".git/index").read_bytes()
    assert version() == f"{head}\n"
    assert (root / ".git/index").read_bytes() == index
    (root / "lgx/errors.py").write_text((root / "lgx/errors.py").read_text() + "\n")
    assert version() == f"{head}+\n"

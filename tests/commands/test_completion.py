"""The Tab key completes commands, options and names: the scripts of ``lgx completion`` run in real shells."""

import shlex
import shutil
import subprocess

import pytest

from lgx.cli import COMMANDS, TRAINING
from lgx.methods import registry
from tests.support.command_line import lgx

pytest.importorskip("shtab")

PRESS_TAB = """
source {script}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_shtab_lgx
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh"):
        done = lgx("completion", shell)
        assert done.code == 0, done.err
        (folder / f"lgx.{shell}").write_text(done.out)
    return folder


def bash(scripts, *words: str) -> list[str]:
    """What bash offers for the last word of a command line."""
    text = PRESS_TAB.format(script=scripts / "lgx.bash", words=" ".join(map(shlex.quote, words)))
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=60, check=True, cwd=scripts)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.slow
def test_bash_offers_commands_options_and_names(scripts):
    assert {*TRAINING, *COMMANDS} <= {*bash(scripts, "lgx", "")}
    assert bash(scripts, "lgx", "data", "") == ["list", "prepare"]
    assert bash(scripts, "lgx", "fit", "--trainer.max_") == [f"--trainer.max_{w}" for w in ("epochs", "steps", "time")]
    assert {*registry.method_classes()} <= {*bash(scripts, "lgx", "fit", "--model", "")}
    assert "CIFAR10" in bash(scripts, "lgx", "test", "--data", "CIF")
    assert bash(scripts, "lgx", "init", "--sour") == ["--source"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_reads_the_script(scripts):
    assert (scripts / "lgx.zsh").read_text().startswith("#compdef lgx")
    subprocess.run(["zsh", "-n", scripts / "lgx.zsh"], check=True, timeout=60)

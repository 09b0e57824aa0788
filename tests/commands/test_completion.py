"""The Tab key completes commands, options and names: the scripts of ``lgx completion`` run in real shells."""

import shlex
import shutil
import subprocess
import sys

import pytest

from lgx.cli import COMMANDS, TRAINING
from lgx.methods import registry
from tests.support.command_line import lgx

pytest.importorskip("shtab")

PRESS_TAB = """
source {script}
function=$(complete -p lgx | sed 's/.*-F \\([^ ]*\\).*/\\1/')
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
$function lgx
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh", "fish"):
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


def test_bash_offers_every_command(scripts):
    assert {*TRAINING, *COMMANDS} <= {*bash(scripts, "lgx", "")}
    assert bash(scripts, "lgx", "comp") == ["compare", "completion"]
    assert bash(scripts, "lgx", "data", "") == ["list", "prepare"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fit", "--model", "TL"], ["TLEG"]),
        (["fit", "--model", "=", "TL"], ["TLEG"]),
        (["fit", "--model.help", "TA"], ["TAL"]),
        (["test", "--data", "SV"], ["SVHN"]),
        (["fit", "--model", "SWS", "--data", "SV"], ["SVHN"]),
        (["fit", "--model.initializer", "Mim"], ["Mimetic"]),
        (["fit", "--trainer.max_ep"], ["--trainer.max_epochs"]),
        (["fit", "--model.stag"], ["--model.stages"]),
        (["fit", "--model.optimizer.weight_d"], ["--model.optimizer.weight_decay"]),
        (["fit", "--help-"], ["--help-all"]),
        (["plan", "--tfl"], ["--tflops"]),
        (["init", "--method", "tl"], ["tleg"]),
        (["init", "--arch", "6-Sm"], ["6-Small"]),
        (["compare", "--base"], ["--baseline"]),
        (["data", "prepare", "cifar100"], ["cifar100"]),
        (["reproduce", "--cl"], ["--claims"]),
        (["fit", "--config", "lgx.b"], ["lgx.bash"]),
    ],
    ids=" ".join,
)
def test_bash_completes_options_and_names(scripts, words, expected):
    assert bash(scripts, "lgx", *words) == expected


def test_bash_offers_every_method_that_can_be_trained_and_every_start(scripts):
    assert {*registry.method_classes()} == {*bash(scripts, "lgx", "fit", "--model", "")}
    assert {*registry.names_with_initializer()} == {*bash(scripts, "lgx", "init", "--method", "")}


def test_a_press_of_tab_runs_no_lgx(scripts):
    assert "lgx " not in "\n".join(
        line for line in (scripts / "lgx.bash").read_text().splitlines() if not line.startswith(("#", "complete"))
    ).replace("_lgx ", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_have_no_syntax_error_and_say_how_to_install_them(scripts, shell):
    text = (scripts / f"lgx.{shell}").read_text()
    assert f"# lgx completion {shell} > ~/" in text
    assert shell != "zsh" or text.startswith("#compdef lgx\n")
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-n", scripts / f"lgx.{shell}"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(("line", "word"), [("lgx fit --model TL", "TLEG"), ("lgx comp", "completion")])
def test_fish_completes_commands_and_names(scripts, line, word):
    text = f"source {scripts / 'lgx.fish'}; complete -C '{line}'"
    done = subprocess.run(["fish", "--no-config", "-c", text], capture_output=True, text=True, timeout=60, check=True)
    assert word in [offered.split("\t")[0] for offered in done.stdout.splitlines()]


def test_without_shtab_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    done = lgx("completion", "bash")
    assert done.code == 2
    assert (
        done.sentence
        == "lgx completion: completion: needs shtab, which is not installed; pip install 'lgx[completion]'"
    )

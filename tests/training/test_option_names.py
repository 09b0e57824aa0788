"""Unknown options and classes are refused before torch is imported; ``python -m tests.training.test_option_names``."""

import inspect
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import lgx
from data_modules import TaskDataModule
from lgx.errors import UserError
from lgx.methods import registry
from lgx.methods.base import Method
from lgx.training import option_names
from lgx.training.configuration import RunParser, _new_parser
from lgx.training.lightning_internals import option_strings
from lgx.training.option_names import LIGHTNING, TABLE, check_options


def _names(parser):
    names = {option.lstrip("-").rstrip("+").removesuffix(".help") for option in option_strings(parser)}
    return sorted(names - {"h", "c", "help"})


def _classes(base):
    for kind in base.__subclasses__():
        if kind.__module__.split(".")[0] in ("lgx", "data_modules") and not inspect.isabstract(kind):
            parser = RunParser(exit_on_error=False)
            parser.add_class_arguments(kind)
            yield kind.__name__, sorted({name.partition(".")[0] for name in _names(parser)})
        yield from _classes(kind)


def table_text():
    registry.load_all()
    commands = ("fit", "validate", "test", "predict")
    parsers = [_new_parser.__wrapped__(command, None) for command in commands]  # one that has parsed has more options
    run = {name for parser in parsers for name in _names(parser)}
    rows = [f'"lightning": "{version("lightning")}"', f'"run": {json.dumps(sorted(run))}']
    for group, base in {"model": Method, "data": TaskDataModule}.items():
        lines = [f"  {json.dumps(name)}: {json.dumps(options)}" for name, options in sorted(_classes(base))]
        rows.append(f'"{group}": {{\n' + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(rows) + "\n}\n"


def test_the_table_has_all_options_of_the_parser():
    table, expected = json.loads(TABLE.read_text("utf-8")), json.loads(table_text())
    if table["lightning"] != expected["lightning"]:
        for each in (table, expected):
            each["lightning"] = ""
            each["run"] = [name for name in each["run"] if not name.startswith(LIGHTNING)]
    assert table == expected


def test_no_configuration_of_the_project_has_an_unknown_option():
    configs = [*Path(lgx.__file__).parent.glob("configs/*.yaml"), *Path("experiments").rglob("*/*.yaml")]
    assert len(configs) > 100
    for config in configs:
        if "class_path" in config.read_text("utf-8"):
            check_options(["--config", str(config)])


MISTAKES = {
    "--model.achr=x": "--model.achr",
    "--model.init_args.achr x": "--model.achr",
    "--data.rot=x": "--data.rot",
    "--trainer.max_epoch 3": "did you mean --trainer.max_epochs",
    "--nam=x": "did you mean --name",
    "--data=ImageFolderDat": "did you mean ImageFolderData",
    "--model.class_path Finetun": "model: class 'Finetun' is unknown; did you mean Finetune",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_found_without_torch(words):
    code = "import sys; from lgx.cli import run_command; run_command(sys.argv[1:])"
    data = [] if words.startswith("--data=") else ["--data=ImageFolderData"]
    model = [] if "class_path" in words else ["--model=Finetune"]
    argv = ["fit", *model, *data, "--name", "x", *words.split()]
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", code, *argv], capture_output=True, text=True)
    assert "UserError" in done.stderr
    assert MISTAKES[words] in done.stderr
    assert "| torch\n" not in done.stderr


LEFT = [
    "--model=my.Own --model.x=1",
    "--model=Finetune --model=SWS --model.stages=[1]",
    "--model=SWS --model.help=SWS --no-overwrite",
    "--model=SWS --model.dict_kwargs.x=1 -- --nam",
    "--data.root data --model SWS --model.stages=[1]",
    "--runs_dir data -c sws.yaml --model.stages=[1]",
    "-csws.yaml --model.stages=[1]",
    "-c included.yaml --model.stages=[1]",
    "--model CIFAR10 --model.stages=[1]",
    "--init_args=1 --init_args",
    "-c lists.yaml",
    "-c",
]


@pytest.mark.parametrize("words", LEFT)
def test_what_the_parser_may_accept_is_left_to_it(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sws.yaml").write_text("model: {class_path: SWS, init_args: {stages: [2]}}\ndata:\ntrainer:\n")
    (tmp_path / "included.yaml").write_text("config: sws.yaml")
    (tmp_path / "lists.yaml").write_text("model: {class_path: SWS, init_args: [1]}\ntrainer: {init_args: 3}")
    (tmp_path / "CIFAR10").write_text("class_path: SWS")
    if "--init_args" in words:
        with pytest.raises(UserError, match="--init_args: there is no such option"):
            check_options(words.split())
    else:
        check_options(words.split())


def test_options_of_another_version_of_lightning_are_left_to_the_parser(monkeypatch):
    monkeypatch.setattr(option_names, "version", lambda _: "99.0")
    check_options(["--trainer.new_in_99=1"])


def test_the_file_of_a_mistake_and_a_similar_option_are_named(tmp_path):
    (tmp_path / "a.yaml").write_text("model: {class_path: lgx.methods.sws.method.SWS, init_args: {stagse: [1]}}")
    with pytest.raises(UserError, match=r"a\.yaml: model\.stagse: there is no such option; did you mean model\.stages"):
        check_options([f"--config={tmp_path / 'a.yaml'}"])


if __name__ == "__main__":
    TABLE.write_text(table_text(), "utf-8")

"""Every file below experiments/ is valid, and every run of every sweep parses and builds."""

from functools import cache
from pathlib import Path

import pytest

from lgx.architectures import parse_any_architecture
from lgx.cli import TRAINING
from lgx.runs.sweeps import RunSpec, load_sweep, run_arguments
from lgx.training.configuration import RunParser, make_parser, parse_configuration
from tests.support.paths import EXPERIMENTS

TABLES = ("paper_numbers.yaml", "index.yaml", "departures.yaml", "costs.yaml")
FILES = sorted(p for p in EXPERIMENTS.rglob("*.yaml") if p.name not in TABLES)
SWEEPS = [p for p in FILES if "\nseeds:" in f"\n{p.read_text()}"]
HARDWARE = [p for p in FILES if p.parent.name == "hardware"]
TAL_PLUS = EXPERIMENTS / "tal/tal_plus.yaml"
CONFIGS = [p for p in FILES if p not in [*SWEEPS, *HARDWARE, TAL_PLUS]]


@cache
def parser_of(command: str) -> RunParser:
    """The parser of a command, which is made once for all files."""
    return make_parser(command)


def parsed_model(command: str, *arguments: str | Path) -> str:
    """The class path of the model, after all that ``lgx`` checks of a command line without building anything."""
    return str(parse_configuration(parser_of(command), [str(argument) for argument in arguments]).model.class_path)


SWEPT = {Path(spec.config).resolve() for path in SWEEPS for spec in load_sweep(path).runs}


@pytest.mark.parametrize(
    "path", [p for p in CONFIGS if p.resolve() not in SWEPT], ids=lambda p: str(p.relative_to(EXPERIMENTS))
)
def test_every_configuration_that_no_sweep_runs_parses(path):
    assert parsed_model("fit", "--config", path).startswith("lgx.methods.")


@pytest.mark.parametrize("path", HARDWARE, ids=lambda p: p.stem)
def test_hardware_files_combine_with_a_run(path):
    assert parsed_model("fit", "--config", path, "--config", EXPERIMENTS / "sws/demo/sws.yaml").endswith(".SWS")


PARSED: set[object] = set()
"""Commands and configurations, each with a kind, that some sweep has parsed."""


def option_names(spec: RunSpec) -> set[object]:
    """Each option of a run by its name."""
    return {None, *spec.options}


def classes(spec: RunSpec) -> set[object]:
    """Each class of a run, together with the names of all options."""
    return {(key, spec.options.get(key), *spec.options) for key in ("data", "model", "model.initializer")}


@pytest.mark.parametrize("path", SWEEPS, ids=lambda p: str(p.relative_to(EXPERIMENTS)))
@pytest.mark.parametrize("kinds_of", [option_names, pytest.param(classes, marks=pytest.mark.slow)])
def test_every_option_and_every_class_of_every_sweep_parses(path, kinds_of):
    """Parse runs until each configuration was parsed with each kind: those that differ in plain values parse alike."""
    sweep = load_sweep(path)
    for spec in sweep.runs:
        if arch := spec.options.get("model.arch"):
            parse_any_architecture(arch)
        kinds = {(spec.command, spec.config, kind) for kind in kinds_of(spec)}
        if kinds <= PARSED:
            continue
        PARSED.update(kinds)
        command, *arguments = run_arguments(spec, sweep.runs_dir, sweep.experiment)
        assert command in TRAINING
        arguments = [a for a in arguments if a not in ("--ckpt_path", "last")]
        assert parsed_model(command, *arguments).startswith("lgx.methods.")

"""``lgx tune``: a search for the best options of a run, with optuna."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lgx.runs.tuning import Search

SHOWN = 10
"""Rows of the table of trials."""


def tune(file: str, runs_dir: str = "runs", parallel: int = 1) -> None:
    """Search the options of a run that score best on the validation split; go on where a stopped search stopped.

    A search file names an experiment, a configuration, the metric (val/acc), its direction (maximize or minimize),
    the number of trials, the space (option -> low and high with log or step, or a list of choices), and perhaps a
    seed and options of all trials. Every trial is a run of its own, in a process of its own; its score is the best
    epoch's, and the test split is not read.

    Args:
        file: Search file, YAML.
        runs_dir: Folder below which all runs lie.
        parallel: Trials at a time; several share GPUs and cores.
    """
    from pathlib import Path

    from lgx.errors import UserError
    from lgx.runs.tuning import load_search
    from lgx.runs.work import locked

    if parallel < 1:
        raise UserError(f"--parallel: at least 1 trial at a time, got {parallel}")
    search = load_search(file, runs_dir)
    with locked(Path(runs_dir) / search.experiment / "study") as lock:
        if lock is None:
            raise UserError(f"{search.experiment}: another `lgx tune` works on this search; wait for it, or end it")
        _tune(search, parallel)


def _tune(search: "Search", parallel: int) -> None:
    import sys

    from lgx.runs.pool import Pool
    from lgx.runs.report import Bar, Report
    from lgx.runs.schedule import jobs_folder
    from lgx.runs.study import open_study, run_search
    from lgx.runs.submitted import Local

    study = open_study(search)
    ended = sum(trial.state.is_finished() for trial in study.trials)
    left = max(0, search.trials - ended)
    print(f"search     {search.experiment}: {left} of {search.trials} trials to do", flush=True)
    if left:
        with (Bar if sys.stdout.isatty() else Report)(left) as report:
            executor = Local(jobs_folder(search.runs_dir, search.experiment) / "submitit", parallel)
            run_search(search, study, Pool(executor, report))
    _show(search, study.trials)


def _show(search: "Search", trials: list[Any]) -> None:
    """Print the best trials, and what runs the best options.

    Raises:
        UserError: If no trial has a score.
    """
    import shlex

    from rich.console import Console
    from rich.table import Table

    from lgx.errors import UserError
    from lgx.runs.schedule import jobs_folder
    from lgx.runs.sweeps import option_arguments

    scored = [trial for trial in trials if trial.value is not None]
    if not scored:
        logs = jobs_folder(search.runs_dir, search.experiment)
        raise UserError(f"all {len(trials)} trials failed; their logs are below {logs}")
    best, *_ = scored = sorted(scored, key=lambda trial: trial.value, reverse=search.direction == "maximize")
    failed = f"; {len(trials) - len(scored)} failed" if len(trials) > len(scored) else ""
    table = Table(
        "trial", f"val/{search.metric}", *search.space, caption=f"{len(scored)} trials{failed}", caption_justify="left"
    )
    for trial in scored[:SHOWN]:
        drawn = (trial.params[option] for option in search.space)
        table.add_row(str(trial.number), f"{trial.value:.4g}", *(_short(value) for value in drawn))
    Console().print(table)
    place = ["--runs_dir", search.runs_dir, "--experiment", search.experiment, "--name", "best"]
    options = option_arguments({**search.options, **best.params})
    arguments = ["fit", "--config", search.config, *place, "--seed_everything", str(search.seed), *options]
    print(f"best       lgx {shlex.join(arguments)}")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

"""``lgx tune``: tune the options of a run with optuna."""

from typing import TYPE_CHECKING, Any

from jsonargparse.typing import PositiveInt

if TYPE_CHECKING:
    from lgx.runs.tuning import Tuning

SHOWN = 10
"""Rows of the table of trials."""


def tune(file: str, runs_dir: str = "runs", parallel: PositiveInt = 1) -> None:
    """Find the options with the best score on the validation split; the same command resumes a study that was stopped.

    A tuning file names an experiment, a configuration, the metric (val/acc), its direction (maximize or minimize), the
    number of trials, the space (option -> low and high with log or step, or a list of choices), and optionally a seed
    and options of all trials. Every trial is a run with its own process. The score of a trial is that of its best
    epoch. The test split is not read.

    Args:
        file: Tuning file, YAML.
        runs_dir: Folder of all runs.
        parallel: Number of trials at a time; several share GPUs and cores.

    Raises:
        UserError: If the file or an option is wrong, another command runs this study, or all trials failed.
    """
    from pathlib import Path

    from lgx.errors import UserError
    from lgx.host.locks import locked
    from lgx.runs.tuning import load_tuning

    tuning = load_tuning(file, runs_dir)
    with locked(Path(runs_dir) / tuning.experiment / "study") as lock:
        if lock is None:
            raise UserError(f"{tuning.experiment}: another `lgx tune` runs this study; wait until it ends, or stop it")
        _tune(tuning, parallel)


def _tune(tuning: "Tuning", parallel: int) -> None:
    from lgx.runs.executors import LocalExecutor
    from lgx.runs.pool import Pool
    from lgx.runs.progress import Progress
    from lgx.runs.study import open_study, run_trials

    study = open_study(tuning)
    ended = sum(trial.state.is_finished() for trial in study.trials)
    left = max(0, tuning.trials - ended)
    print(f"tuning     {tuning.experiment}: {left} of {tuning.trials} trials to do", flush=True)
    if left:
        run_trials(tuning, study, Pool(LocalExecutor(parallel), Progress(left)))
    _show(tuning, study.trials)


def _show(tuning: "Tuning", trials: list[Any]) -> None:
    """Print the best trials, and the command line of a run with the best options.

    Raises:
        UserError: If no trial has a score.
    """
    import shlex

    from lgx.core.readable import aligned
    from lgx.errors import UserError
    from lgx.runs.jobs import jobs_folder
    from lgx.runs.sweeps import option_arguments

    scored = [trial for trial in trials if trial.value is not None]
    if not scored:
        logs = jobs_folder(tuning.runs_dir, tuning.experiment)
        raise UserError(f"all {len(trials)} trials failed; their logs are below {logs}")
    best, *_ = scored = sorted(scored, key=lambda trial: trial.value, reverse=tuning.direction == "maximize")
    failed = f"; {len(trials) - len(scored)} failed" if len(trials) > len(scored) else ""
    lines = [("trial", f"val/{tuning.metric}", *tuning.space)]
    for trial in scored[:SHOWN]:
        drawn = (_short(trial.params[option]) for option in tuning.space)
        lines.append((str(trial.number), f"{trial.value:.4g}", *drawn))
    print("\n".join(aligned(lines, left=1)))
    print(f"{len(scored)} trials{failed}")
    folder = ["--runs_dir", tuning.runs_dir, "--experiment", tuning.experiment, "--name", "best"]
    options = option_arguments({**tuning.options, **best.params})
    arguments = ["fit", "--config", tuning.config, *folder, "--seed_everything", str(tuning.seed), *options]
    print(f"best       lgx {shlex.join(arguments)}")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

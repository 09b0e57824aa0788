"""Running a search: trials drawn by optuna, each a run in a process of its own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lgx.core.extras import sweep_extra
from lgx.errors import UserError
from lgx.runs.executors import Failure
from lgx.runs.pool import Pool
from lgx.runs.schedule import jobs_folder
from lgx.runs.sweeps import run_arguments
from lgx.runs.tuning import Range, Search, score
from lgx.runs.work import Work

with sweep_extra("searching"):
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import TrialState


def open_study(search: Search) -> optuna.Study:
    """The search so far, from its journal in the experiment's folder; a new one if there is none.

    Raises:
        UserError: If the journal is of another search.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    journal = Path(search.runs_dir) / search.experiment / "study.journal"
    journal.parent.mkdir(parents=True, exist_ok=True)
    _drop_torn_line(journal)
    study = optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(journal))),
        study_name=search.experiment,
        direction=search.direction,
        load_if_exists=True,
    )
    if "stated" not in study.user_attrs and not study.trials:
        study.set_user_attr("stated", search.stated)
    stated = study.user_attrs.get("stated", {})
    if differ := [key for key, text in search.stated.items() if stated.get(key) != text]:
        raise UserError(
            f"{journal}: holds a search with another {' and '.join(differ)}; give the file another experiment, "
            f"or remove {journal.parent}"
        )
    return study


def run_search(search: Search, study: optuna.Study, pool: Pool) -> None:
    """Run all trials that are left, first those that an earlier command began.

    Trial k is drawn by a sampler of seed ``seed + k`` from what has ended before, so that a search of one trial at a
    time is the same whether or not it was interrupted.

    Args:
        search: The search.
        study: Its trials.
        pool: Where they work.
    """
    begun = study.get_trials(states=(TrialState.RUNNING,))
    numbers: dict[str, int] = {}
    with pool:
        while True:
            while pool.free and (begun or len(study.trials) < search.trials):
                trial = begun.pop(0) if begun else _draw(search, study)
                if set(trial.params) != set(search.space):  # the command ended while it drew
                    study.tell(trial.number, state=TrialState.FAIL)
                    continue
                work = _work(search, trial.number, trial.params)
                numbers[work.folder] = trial.number
                pool.start([work])
            ended = pool.wait()
            if not ended:
                break
            for work, outcome in ended:
                reached = outcome if isinstance(outcome, Failure) else _score(work, search)
                if isinstance(reached, Failure):
                    study.tell(numbers[work.folder], state=TrialState.FAIL)
                    pool.report.failed(work, reached)
                else:
                    study.tell(numbers[work.folder], reached)
                    pool.report.finished(work, f"val/{search.metric} {reached:.4g}")


def _draw(search: Search, study: optuna.Study) -> optuna.Trial:
    study.sampler = optuna.samplers.TPESampler(seed=search.seed + len(study.trials))
    return study.ask({option: _distribution(values) for option, values in search.space.items()})


def _distribution(values: Range | tuple[Any, ...]) -> optuna.distributions.BaseDistribution:
    if not isinstance(values, Range):
        return optuna.distributions.CategoricalDistribution(values)
    if all(isinstance(value, int) for value in (values.low, values.high, values.step or 1)):
        return optuna.distributions.IntDistribution(values.low, values.high, log=values.log, step=values.step or 1)
    return optuna.distributions.FloatDistribution(values.low, values.high, log=values.log, step=values.step)


def _work(search: Search, number: int, drawn: Mapping[str, Any]) -> Work:
    job = search.job(number, drawn)
    return Work(
        name=job.name,
        folder=job.folder,
        arguments=tuple(run_arguments(search.sweep, job)),
        log=str(jobs_folder(search.runs_dir, search.experiment) / job.name / f"seed{job.seed}.log"),
        inputs=(job.config,),
    )


def _score(work: Work, search: Search) -> float | Failure:
    try:
        return score(work.folder, search)
    except UserError as error:
        return Failure(str(error), work.log)


def _drop_torn_line(journal: Path) -> None:
    """Cut off what a full disk left of a last entry: the next one would be added to it, and neither be readable."""
    if journal.is_file():
        content = journal.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            with journal.open("r+b") as file:
                file.truncate(whole)

"""Run a tuning study: optuna draws the trials, and each trial is a run with its own process."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lgx.core.seed import LARGEST_SEED
from lgx.errors import UserError
from lgx.host.extras import extra
from lgx.host.failures import foreign_errors
from lgx.runs.executors import Failure
from lgx.runs.jobs import Job, make_job
from lgx.runs.pool import Pool
from lgx.runs.sweeps import in_one_line
from lgx.runs.tuning import Tuning, score

with extra("sweep", "tuning"):
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import TrialState


def open_study(tuning: Tuning) -> optuna.Study:
    """Load the study from its journal in the experiment's folder, or create it.

    Raises:
        UserError: If the journal holds a study with other values, or optuna refuses the space.
    """
    _space(tuning)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    journal = Path(tuning.runs_dir) / tuning.experiment / "study.journal"
    journal.parent.mkdir(parents=True, exist_ok=True)
    _drop_incomplete_line(journal)
    study = optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(journal))),
        study_name=tuning.experiment,
        direction=tuning.direction,
        load_if_exists=True,
    )
    if "stated" not in study.user_attrs and not study.trials:
        study.set_user_attr("stated", tuning.stated)
    stated = study.user_attrs.get("stated", {})
    if different := [key for key, text in tuning.stated.items() if stated.get(key, text) != text]:
        raise UserError(
            f"{journal}: holds a study with another {' and '.join(different)}; give the tuning file another "
            f"experiment, or remove {journal.parent}"
        )
    return study


def run_trials(tuning: Tuning, study: optuna.Study, pool: Pool) -> None:
    """Run all trials that are left, beginning with those that an earlier command started.

    The sampler of trial k has the seed ``seed + k`` and knows the trials that have ended. With one trial at a time, an
    interrupted study therefore draws the same trials as an uninterrupted one.

    Args:
        tuning: The tuning file.
        study: The study.
        pool: Runs the trials.
    """
    started = study.get_trials(states=(TrialState.RUNNING,))
    numbers: dict[str, int] = {}
    with pool:
        while True:
            while pool.free and (started or len(study.trials) < tuning.trials):
                trial = started.pop(0) if started else _draw(tuning, study)
                if set(trial.params) != set(tuning.space):  # an earlier command ended before it had drawn all values
                    study.tell(trial.number, state=TrialState.FAIL)
                    continue
                job = _job(tuning, trial.number, trial.params)
                numbers[job.folder] = trial.number
                pool.start([job])
            ended = pool.wait()
            if not ended:
                break
            for job, outcome in ended:
                result = outcome if isinstance(outcome, Failure) else _score(job, tuning)
                if isinstance(result, Failure):
                    study.tell(numbers[job.folder], state=TrialState.FAIL)
                    pool.progress.failed(job, result)
                else:
                    study.tell(numbers[job.folder], result)
                    pool.progress.finished(job, f"val/{tuning.metric} {result:.4g}")


def _draw(tuning: Tuning, study: optuna.Study) -> optuna.Trial:
    study.sampler = optuna.samplers.TPESampler(seed=(tuning.seed + len(study.trials)) % (LARGEST_SEED + 1))
    return study.ask(_space(tuning))


def _space(tuning: Tuning) -> dict[str, optuna.distributions.BaseDistribution]:
    """The distribution of every option that is tuned.

    Raises:
        UserError: If optuna refuses one.
    """
    found = {}
    for option, values in tuning.space.items():
        remedy = "give a list of choices, or low and high, and optionally log or step"
        with foreign_errors(f"space.{option}", "no choices and no range", remedy):
            found[option] = _choices(values) if isinstance(values, list) else _range(**values)
    return found


def _choices(values: list[Any]) -> optuna.distributions.BaseDistribution:
    """Choices; lists and mappings become command-line text."""
    texts = [in_one_line(choice) if isinstance(choice, list | dict) else choice for choice in values]
    return optuna.distributions.CategoricalDistribution(texts)


def _range(low: Any, high: Any, log: bool = False, step: Any = None) -> optuna.distributions.BaseDistribution:
    """Numbers from ``low`` to ``high``. YAML reads 1e-4, which has no decimal point, as text."""
    if all(isinstance(value, int) for value in (low, high, step or 1)):
        return optuna.distributions.IntDistribution(low, high, log=log, step=step or 1)
    step = None if step is None else float(step)
    return optuna.distributions.FloatDistribution(float(low), float(high), log=log, step=step)


def _job(tuning: Tuning, number: int, drawn: Mapping[str, Any]) -> Job:
    spec = tuning.trial(number, drawn)
    return make_job(spec, tuning.runs_dir, tuning.experiment, spec.name)


def _score(job: Job, tuning: Tuning) -> float | Failure:
    try:
        return score(job.folder, tuning)
    except UserError as error:
        return Failure(str(error), job.log)


def _drop_incomplete_line(journal: Path) -> None:
    """Remove the incomplete last line that a full disk leaves: the next entry would be appended to it and be lost."""
    if journal.is_file():
        content = journal.read_bytes()
        complete = content.rfind(b"\n") + 1
        if complete < len(content):
            with journal.open("r+b") as file:
                file.truncate(complete)

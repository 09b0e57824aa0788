"""A run that averages its weights and is killed in any phase resumes to the same weights, learngene and rows."""

import signal

import pytest

from lgx.core.rows import read_rows
from tests.support.command_line import arguments
from tests.support.forks import finish, start
from tests.support.kills import of_run

pytestmark = pytest.mark.slow

AVERAGES = {
    "EMAWeightAveraging": ["--trainer.callbacks.decay=0.5"],
    "StochasticWeightAveraging": ["--trainer.callbacks.swa_lrs=0.01", "--trainer.callbacks.swa_epoch_start=1"],
}
STEPS = 9
MOMENTS = [("before_update", 5), ("after_update", 8), ("validation", 6), ("fit_end", STEPS), ("test", STEPS)]


def command(images, average):
    options = ["--name=r", "--trainer.max_epochs=3", "--save_every=1", "--test_start=true", "--test_end=true"]
    callback = [f"--trainer.callbacks+={average}", *AVERAGES[average]]
    return [*arguments("fit", "Ancestor", images, "runs", *options), "--ckpt_path=last", *callback]


@pytest.fixture(scope="module", params=AVERAGES)
def undisturbed(request, images, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    args = command(images, request.param)
    finish(args, folder)
    return args, of_run(folder)


@pytest.mark.parametrize(("moment", "step"), MOMENTS)
def test_a_killed_average_resumes_to_the_same_result(undisturbed, tmp_path, moment, step):
    args, expected = undisturbed
    probe = ["--trainer.callbacks+=tests.support.probes.KillAt", f"--trainer.callbacks.step={step}"]
    killed = start([*args, *probe, f"--trainer.callbacks.moment={moment}"], tmp_path)
    killed.join()
    assert killed.exitcode == -signal.SIGKILL, (tmp_path / "log").read_text()[-2000:]
    finish(args, tmp_path)
    assert of_run(tmp_path) == expected


def test_a_finished_average_is_tested_with_its_final_weights_when_it_is_asked_again(undisturbed, tmp_path):
    args, expected = undisturbed
    finish(args, tmp_path)
    (tmp_path / "runs/test/r/seed0/summary.json").unlink()
    finish(args, tmp_path)
    assert of_run(tmp_path) == expected
    assert (
        len({row.epochs for row in read_rows(tmp_path / "runs/test/r/seed0/results.csv") if row.split == "test"}) == 2
    )

"""A killed run resumes to the same result, bit for bit; checkpoints that do not fit are refused."""

import random
import re
import shutil

import pytest
import torch

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.core.rows import read_rows
from lgx.training.callbacks.checkpoints import LastCheckpoint
from tests.support.command_line import ARCH, arguments, lgx, ok, refusal
from tests.support.fake_data import toy_shards
from tests.support.runs import kill_and_resume, last_checkpoint

# Every source of randomness: augmentation, mixup, stochastic depth.
OPTIONS = [
    "--trainer.max_epochs=3", "--save_every=1", "--data.augment=randaugment", "--model.mixup=0.8",
    "--model.drop_path_rate=0.2", "--data.batch_size=8", "--trainer.accumulate_grad_batches=2",
]  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(images, tmp_path_factory):
    runs = tmp_path_factory.mktemp("undisturbed")
    assert lgx(*arguments("fit", "Ancestor", images, runs, "--name=r", *OPTIONS)).code == 0
    return runs / "test/r/seed0"


SLOW = pytest.mark.slow
CASES = [(random.Random(k).randrange(1, 8), moment) for k, moment in enumerate(["before_update", "after_update"])]


@pytest.mark.parametrize(
    ("step", "moment"), [CASES[0], pytest.param(*CASES[1], marks=SLOW), pytest.param(3, "validation", marks=SLOW)]
)
def test_a_killed_run_equals_the_undisturbed_one_bit_for_bit(images, undisturbed, tmp_path, step, moment):
    resumed = kill_and_resume(images, tmp_path / "runs", step, moment, OPTIONS)
    expected, found = last_checkpoint(undisturbed), last_checkpoint(resumed)
    assert found["global_step"] == expected["global_step"] == 9
    for name, tensor in expected["state_dict"].items():
        assert torch.equal(tensor, found["state_dict"][name]), name
    for index, state in expected["optimizer_states"][0]["state"].items():
        for name, value in state.items():
            assert torch.equal(value, found["optimizer_states"][0]["state"][index][name]), name
    assert found["lr_schedulers"] == expected["lr_schedulers"]
    rows, again = (
        [(r.epochs, r.metric, r.value) for r in read_rows(run / "results.csv")] for run in (undisturbed, resumed)
    )
    assert rows == again


@pytest.mark.slow
def test_a_run_killed_before_its_first_checkpoint_starts_over(images, tmp_path):
    run = kill_and_resume(images, tmp_path, 1, "before_update", ["--test_start=true"])
    rows = [(r.split, r.epochs) for r in read_rows(run / "results.csv") if r.metric == "acc"]
    assert rows == [("test", 0), ("val", 1)]


def test_a_checkpoint_of_another_folder_does_not_replace_typed_options(images, undisturbed, tmp_path):
    checkpoint = undisturbed / "checkpoints/last.ckpt"
    typed = ["--name=typed", *OPTIONS, "--trainer.max_epochs=4", f"--ckpt_path={checkpoint}"]
    words = arguments("fit", "Ancestor", images, tmp_path, *typed)
    assert "model.label_smoothing was 0.0, is 0.3" in refusal(lgx(*words, "--model.label_smoothing=0.3"))
    ok(lgx(*words))
    assert "hyper_parameters" not in load_checkpoint(checkpoint)


def test_a_run_that_is_resumed_in_a_copy_of_its_folder_keeps_its_best_score(images, undisturbed, tmp_path):
    run = shutil.copytree(undisturbed, tmp_path / "runs/test/r/seed0")
    best, last = run / "checkpoints/best.ckpt", run / "checkpoints/last.ckpt"
    checkpoint, before = load_checkpoint(last), best.read_bytes()
    former = _state_of_best(checkpoint)
    score = torch.tensor(2.0)  # no later accuracy reaches it
    former.update(best_model_score=score, kth_value=score, best_k_models={former["best_model_path"]: score})
    torch.save(checkpoint, last)
    longer = [*OPTIONS, "--trainer.max_epochs=4", "--ckpt_path=last"]
    ok(lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", "--name=r", *longer)))
    state = _state_of_best(load_checkpoint(last))
    assert state["best_model_score"] == 2
    assert [state["best_model_path"], *state["best_k_models"]] == [str(best.resolve())] * 2
    assert best.read_bytes() == before


def _state_of_best(checkpoint):
    (state,) = [state for key, state in checkpoint["callbacks"].items() if key.startswith("BestCheckpoint")]
    return state


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # An epoch has six steps, each second one with a validation.
        (["--data.batch_size=8", "--trainer.val_check_interval=2", "--save_every=2", "--trainer.max_epochs=2"],
         [3, 5, 6, 9, 11]),
        # An epoch has three steps; steps 4 and 8 are followed by a validation.
        (["--trainer.check_val_every_n_epoch=null", "--trainer.val_check_interval=4", "--save_every=1",
          "--trainer.max_epochs=3"], [1, 2, 3, 5, 6, 7]),
    ],
)  # fmt: skip
def test_a_checkpoint_that_is_due_at_a_validation_is_saved_at_the_next_step(fit, monkeypatch, options, expected):
    steps, save = [], LastCheckpoint.save

    def noted(self, trainer):
        steps.append(trainer.global_step)
        save(self, trainer)

    monkeypatch.setattr(LastCheckpoint, "save", noted)
    ok(fit("Ancestor", "--name=a", *options))
    assert steps == expected


STREAMED = ["--data=ShardedData", "--data.name=toy", "--data.in_memory=false"]
SEVERAL = [
    "--model=LSAMD", "--model.ancestor={ancestor}/final.learngene.safetensors", "--data=MultiTask",
    "--data.tasks=[{images},{images}2]", "--data.steps_per_epoch=6", "--model.mixup=0",
    "--model.drop_path_rate=0", "--model.random_paths=0",  # a part of the run
]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "parts"),
    [
        # An epoch has three updates of six batches; the run ends within it, and with it.
        ([], [(2, []), (3, ["--trainer.max_steps=6"])]),
        (["--trainer.val_check_interval=4"], [(5, ["--trainer.max_steps=6"])]),
        pytest.param(
            [*STREAMED, "--data.batch_size=4"],
            [(1, ["--trainer.max_steps=6"]), (3, ["--trainer.max_steps=6"])],
            marks=SLOW,
        ),
        pytest.param(SEVERAL, [(2, ["--trainer.max_steps=6"]), (3, ["--trainer.max_steps=6"])], marks=SLOW),
    ],
)
def test_a_run_that_max_steps_ends_goes_on_where_it_stopped(images, ancestor, tmp_path, more, parts):
    toy_shards(tmp_path / "toy")
    shutil.copytree(images, tmp_path / "shapes2")
    root = tmp_path if more[: len(STREAMED)] == STREAMED else images
    (tmp_path / "shapes").symlink_to(images)
    more = [option.format(ancestor=ancestor, images=tmp_path / "shapes") for option in more]
    options = ["--name=r", *OPTIONS[2:], "--trainer.max_epochs=2", "--model.scheduler=null", "--early_stop=9", *more]
    whole, *halves = [tmp_path / f"runs{number}" for number in range(1 + len(parts))]
    ok(lgx(*arguments("fit", "Ancestor", root, whole, *options)))
    for place, (step, ends) in zip(halves, parts, strict=True):
        ok(lgx(*arguments("fit", "Ancestor", root, place, *options, f"--trainer.max_steps={step}")))
        ok(lgx(*arguments("fit", "Ancestor", root, place, *options, *ends, "--ckpt_path=last")))
        expected, found = (last_checkpoint(run / "test/r/seed0") for run in (whole, place))
        assert expected["global_step"] == found["global_step"] == 6
        assert all(torch.equal(value, found["state_dict"][name]) for name, value in expected["state_dict"].items())
        rows = [
            sorted((r.split, r.epochs, r.metric, r.value, r.n) for r in read_rows(p / "test/r/seed0/results.csv"))
            for p in (whole, place)
        ]
        assert rows[0] == rows[1]


def test_the_first_step_after_a_longer_schedule_was_asked_for_has_its_rate(fit, tmp_path):
    options = ["--name=r", "--model.optimizer=torch.optim.SGD", "--data.batch_size=8"]
    assert fit("Ancestor", *options, "--trainer.max_steps=3").code == 0
    run = tmp_path / "runs/test/r/seed0"
    before = last_checkpoint(run)["state_dict"]
    assert fit("Ancestor", *options, "--trainer.max_steps=4", "--trainer.max_epochs=3", "--ckpt_path=last").code == 0
    after = last_checkpoint(run)["state_dict"]
    assert not torch.equal(before["network.head.weight"], after["network.head.weight"])


def test_the_best_weights_are_those_of_a_validation(fit, tmp_path):
    options = ["--name=r", "--model.optimizer.lr=0", "--model.scheduler=null", "--trainer.max_steps=4"]
    assert fit("Ancestor", *options, "--trainer.max_epochs=2").code == 0
    assert load_checkpoint(tmp_path / "runs/test/r/seed0/checkpoints/best.ckpt")["global_step"] == 3


def test_a_checkpoint_of_another_method_or_architecture_is_refused(fit, ancestor):
    path = f"--ckpt_path={ancestor}/checkpoints/best.ckpt"
    sentence = refusal(fit("Finetune", path, command="test"))
    assert "contains a network of method ancestor, but this run is of method random" in sentence
    sentence = refusal(fit("Ancestor", f"--model.arch={ARCH.replace('depth=4', 'depth=2')}", path))
    assert "model.arch was depth=4" in sentence


def test_a_loss_that_is_not_finite_ends_the_run_before_a_checkpoint_within_an_epoch(fit, tmp_path):
    options = ["--data.batch_size=8", "--trainer.val_check_interval=2", "--trainer.log_every_n_steps=1000"]
    sentence = refusal(fit("Ancestor", "--name=a", "--model.optimizer.lr=1e30", "--trainer.max_epochs=2", *options))
    step = int(re.search(r"step (\d+): not finite", sentence)[1])
    saved = [
        load_checkpoint(file)["global_step"] for file in (tmp_path / "runs/test/a/seed0/checkpoints").glob("*.ckpt")
    ]
    assert step < 6
    assert all(number < step for number in saved)

"""Predicted memory, sizes of files and steps are those of real training."""

import json
from functools import partial

import pytest
import torch
from lightning.pytorch import Trainer
from torch.autograd.graph import saved_tensors_hooks

from benchmarks.steps import peak_mb
from lgx.methods.base import Method
from lgx.methods.lsamd.super_ancestor import SuperAncestor
from lgx.planning.configured import configure
from lgx.planning.plan import plan_of
from tests.planning.helpers import BASE, LARGE, LOW_RANK, OFFLINE, WIDE, one_of, plan, run_folder, steps_of
from tests.support.command_line import arguments, lgx, ok, python
from tests.support.extras import import_transformers
from tests.support.fake_text import SIZE, write_sets, write_vocabulary


@pytest.fixture
def held(monkeypatch):
    """Bytes that autograd saves in each training step, and the method that trains."""
    seen: list[int] = []
    methods: list[Method] = []
    training_step = Method.training_step

    def recorded(method, batch, batch_idx):
        if not isinstance(method.trainer, Trainer):  # of the plan
            return training_step(method, batch, batch_idx)
        own = {t.untyped_storage().data_ptr() for t in (*method.network.parameters(), *method.network.buffers())}
        saved: dict[int, torch.Tensor] = {}

        def pack(tensor):
            saved[tensor.untyped_storage().data_ptr()] = tensor
            return tensor

        with saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = training_step(method, batch, batch_idx)
        seen.append(sum(t.untyped_storage().nbytes() for place, t in saved.items() if place not in own))
        methods.append(method)
        return loss

    monkeypatch.setattr(Method, "training_step", recorded)
    return seen, methods


slowly = partial(pytest.param, marks=pytest.mark.slow)
GUIDE, MIXED = "--model.ancestor={ancestor}/final.learngene.safetensors", "--trainer.precision=bf16-mixed"


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("Ancestor", LARGE),
        slowly("Ancestor", [*LARGE, MIXED, "--model.mixup=0.8", "--model.drop_path_rate=0.1"]),
        slowly("Finetune", [*LARGE, "--trainer.precision=bf16-true", "--model.optimizer=torch.optim.SGD"]),
        ("SWS", ["--model.stages=[2,2]", GUIDE]),
        slowly("MiniDeiT", [*LARGE, "--model.stages=[3,3]", MIXED]),
        slowly("LSAMD", [GUIDE]),
        slowly("LoGAH", [*LARGE, *LOW_RANK, "--model.layout=aligned", MIXED]),
        ("TAL", [*LOW_RANK, GUIDE]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_predicted_memory_is_what_a_step_takes(held, images, ancestor, tmp_path, monkeypatch, model, options):
    seen, methods = held
    if model == "LSAMD":  # which of its steps needs most is a matter of its draws
        monkeypatch.setattr(SuperAncestor, "_majority", lambda network, prefers_base: False)
    options = [option.replace("{ancestor}", str(ancestor)) for option in options]
    if model in ("GHN3", "LoGAH", "TAL"):
        arch = WIDE if "--data.img_size=32" in options else "depth=3,embed_dim=48,num_heads=3,patch_size=4,img_size=16"
        options.append(one_of(tmp_path, arch))
    args = arguments("fit", model, images, tmp_path / "runs", "--name=run", *options)
    ok(lgx(*args))
    planned = plan(*args[1:])
    method = methods[-1]
    assert planned.memory.activations == pytest.approx(max(seen), rel=0.01)
    trained = [p for p in method.network.parameters() if p.requires_grad]
    assert planned.parameters.trained == sum(p.numel() for p in trained)
    assert planned.memory.gradients == sum(p.nbytes for p in trained)
    (optimizer,) = method.trainer.optimizers
    state = [v for values in optimizer.state.values() for v in values.values() if isinstance(v, torch.Tensor)]
    assert planned.memory.optimizer == sum(value.nbytes for value in state)
    tensors = {t.data_ptr(): t.nbytes for t in (*method.network.parameters(), *method.network.buffers())}
    assert planned.memory.weights == sum(tensors.values())
    folder = run_folder(tmp_path / "runs", "run")
    sizes = {"checkpoints/last.ckpt": planned.checkpoint_bytes, "final.learngene.safetensors": planned.learngene_bytes}
    for file, size in sizes.items():
        if size is not None:  # names and numbers are stored, too
            assert (folder / file).stat().st_size == pytest.approx(size, rel=0.1, abs=120_000), file


def test_predicted_memory_is_that_of_the_largest_slices(held, images, ancestor, tmp_path):
    seen, _ = held
    options = [f"--model.ancestor={ancestor}/final.learngene.safetensors", "--data.labels=false"]
    args = arguments("fit", "Nested", images, tmp_path / "runs", *options, "--trainer.max_epochs=6")
    ok(lgx(*args))
    assert min(seen) < 0.8 * max(seen)
    assert max(seen) <= plan(*args[1:]).memory.activations < 1.1 * max(seen)


def test_predicted_memory_of_a_text_model_is_what_a_step_takes(held, images, tmp_path):
    import_transformers()
    seen, _ = held
    root = write_sets(tmp_path / "texts")
    write_vocabulary(root / "gpt2_vocab")
    arch = f"hf:depth=2,embed_dim=48,num_heads=3,max_len=12,vocab_size={SIZE}"
    options = [
        f"--model.arch={arch}", "--data=CoLA", f"--data.root={root}", "--data.batch_size=4", "--data.max_len=12",
        f"--data.vocab_size={SIZE}",
    ]  # fmt: skip
    args = [a for a in arguments("fit", "Finetune", images, tmp_path / "runs", *options) if "img_size" not in str(a)]
    ok(lgx(*args))
    # The plan assumes the maximum length for every text; at least one batch has it.
    planned = plan(*args[1:], "--samples=40")
    assert max(seen) <= 1.01 * planned.memory.activations
    assert planned.memory.activations < 1.2 * max(seen)


@pytest.mark.parametrize("precision", [slowly("32-true"), "bf16-mixed"])
def test_predicted_memory_is_the_most_that_a_step_holds(precision):
    run = configure([*BASE, f"--model.arch={WIDE}", f"--trainer.precision={precision}"])
    memory = plan_of(run).memory
    peak = _peak_of_a_step(run.method.architecture, 64, precision, "cpu", lambda step: peak_mb(step) * 2**20)
    held_before = memory.weights + memory.gradients + memory.optimizer
    assert memory.total == pytest.approx(held_before + peak, rel=0.1)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_predicted_memory_is_the_most_that_a_gpu_holds(precision):
    def most(step):
        torch.cuda.reset_peak_memory_stats()
        step()
        return torch.cuda.max_memory_allocated() - before

    run = configure(["--model=Finetune", "--model.arch=12-Small", *BASE[2:3], *OFFLINE, "--data.img_size=224",
                     f"--trainer.precision={precision}"])  # fmt: skip
    memory, before = plan_of(run).memory, torch.cuda.memory_allocated()
    assert memory.total == pytest.approx(_peak_of_a_step(run.method.architecture, 64, precision, "cuda", most), rel=0.1)


def _peak_of_a_step(architecture, batch, precision, device, measure):
    """Memory of a step in the order of Lightning, which clears gradients after the forward pass."""
    network = architecture.build().to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    inputs = torch.randn(batch, 3, architecture.img_size, architecture.img_size, device=device)
    targets = torch.zeros(batch, dtype=torch.long, device=device)

    def step():
        with torch.autocast(device, torch.bfloat16, precision == "bf16-mixed", cache_enabled=False):
            loss = torch.nn.functional.cross_entropy(network(inputs).float(), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    step()
    return measure(step)


def test_ddp_copies_gradients_and_sharding_divides_the_state():
    alone, together = plan(*BASE).memory, plan(*BASE, "--gpus=2").memory
    assert alone.buckets == 0
    assert together.buckets == together.gradients == alone.gradients
    shared = plan(*BASE, "--gpus=2", "--trainer.strategy=sharded").memory
    assert (shared.weights, shared.optimizer) == (alone.weights // 2, alone.optimizer // 2)
    assert shared.buckets == 0


@pytest.mark.parametrize(
    ("optimizer", "per_parameter"),
    [("AdamW --model.optimizer.fused=true", 8), ("SGD", 0), ("SGD --model.optimizer.momentum=0.9", 4)],
)
def test_the_state_is_that_of_the_configured_optimizer(optimizer, per_parameter):
    planned = plan(*BASE, *f"--model.optimizer=torch.optim.{optimizer} --model.optimizer.lr=0.1".split())
    assert planned.memory.optimizer == pytest.approx(per_parameter * planned.parameters.trained, rel=0.001)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("Ancestor", ["--trainer.max_epochs=9", "--trainer.max_steps=4"]),
        ("Finetune", ["--trainer.limit_train_batches=0.7", "--trainer.max_epochs=2"]),
    ],
)
def test_predicted_steps_are_those_of_a_run(fit, images, tmp_path, model, options):
    ok(fit(model, "--name=run", *options))
    summary = json.loads((run_folder(tmp_path / "runs", "run") / "summary.json").read_text())
    planned = plan(*arguments("fit", model, images, tmp_path / "other", *options)[1:])
    assert planned.steps.total == summary["steps"]
    assert planned.steps.epochs == pytest.approx(summary["epochs"], abs=1)


def test_predicted_steps_of_several_tasks_are_those_of_a_run(images, tmp_path):
    options = [
        "--data=MultiTask", f"--data.tasks=[{images}]", "--model.set_size=4", *LOW_RANK,
        "--trainer.accumulate_grad_batches=2", "--trainer.max_epochs=2", "--name=run",
    ]  # fmt: skip
    args = [a for a in arguments("fit", "LoGAH", images, tmp_path / "runs", *options) if "data.root" not in str(a)]
    ok(lgx(*args))
    summary = json.loads((run_folder(tmp_path / "runs", "run") / "summary.json").read_text())
    assert steps_of(*args[1:]).total == summary["steps"] == 4


@pytest.mark.parametrize("processes", [1, 4, 32])
def test_a_batch_that_is_split_stays_that_of_the_recipe(images, tmp_path, processes):
    args = arguments("fit", "Ancestor", images, tmp_path, "--data.batch_size=32", "--split_batch")[1:]
    steps = plan(*args, f"--gpus={processes}").steps
    assert (steps.batch, steps.effective_batch, steps.total) == (32 // processes, 32, steps_of(*args).total)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [["--data.batch_size=5"], ["--data.batch_size=10", "--split_batch"]])
def test_two_processes_share_the_steps_of_an_epoch(images, tmp_path, batch):
    args = arguments(
        "fit", "Ancestor", images, tmp_path / "runs", "--name=run", *batch, "--trainer.max_epochs=2",
        "--trainer.accumulate_grad_batches=3", "--trainer.devices=2", "--trainer.strategy=ddp",
    )  # fmt: skip
    done = python("-m", "lgx", *args, timeout=150)
    assert done.returncode == 0, done.stderr[-3000:]
    summary = json.loads((run_folder(tmp_path / "runs", "run") / "summary.json").read_text())
    planned = plan(*args[1:])
    steps = planned.steps
    assert summary["flops"] == pytest.approx(planned.total_flops, rel=0.01)
    assert (steps.total, steps.processes) == (summary["steps"], summary["processes"]) == (4, 2)
    assert steps.effective_batch == 30
    # Four batches an epoch: three in one step and one in the next.
    assert summary["examples"] == steps.samples == 2 * 40


def test_gpus_and_nodes_multiply(tmp_path):
    steps = plan(*BASE, "--gpus=8", "--nodes=4", "--trainer.max_epochs=3", "--trainer.accumulate_grad_batches=2").steps
    assert steps.effective_batch == 64 * 2 * 32
    assert steps.batches_per_epoch == 45_000 // (64 * 32)
    assert steps.total == 3 * steps.per_epoch == 3 * 11
    assert plan(*BASE, "--trainer.devices=0,1").steps == plan(*BASE, "--trainer.devices=2").steps

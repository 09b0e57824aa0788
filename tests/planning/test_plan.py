"""``lgx plan``: what it predicts is what runs do, and it needs nothing that is not there yet."""

import gc
import json
import re
from pathlib import Path

import pytest
import torch
import yaml
from torch.autograd.graph import saved_tensors_hooks

from lgx.architectures import parse_architecture, read_architectures
from lgx.architectures.cost import cost_of
from lgx.benchmark.timing import peak_mb
from lgx.errors import UserError
from lgx.methods.base import Method
from lgx.methods.lsamd.super_ancestor import SuperAncestor
from lgx.planning import Plan, make_plan, sweep_hours
from lgx.planning.configured import configure
from lgx.planning.cost import mean_over, spread
from lgx.planning.options import Options
from lgx.planning.plan import plan_of
from lgx.planning.steps import Steps, count_steps
from tests.support.command_line import arguments, lgx, python
from tests.support.fake_text import SIZE, write_sets, write_vocabulary
from tests.support.paths import EXPERIMENTS

CONFIGS = sorted(
    path
    for path in EXPERIMENTS.rglob("*.yaml")
    if path.name not in ("paper_numbers.yaml", "index.yaml") and "model" in (yaml.safe_load(path.read_text()) or {})
)
QUICK = [
    "ghn/cifar10/logah", "lsamd/paper/descendant", "lsamd/paper/search", "sws/paper/learngene", "tal/demo/stage2",
    "text/mini/ancestor",
]  # fmt: skip

WIDE = "depth=6,embed_dim=96,num_heads=3,patch_size=4,img_size=32"
LARGE = ["--data.img_size=32", f"--model.arch={WIDE}"]
HYPER = [
    "--model.width=32", "--model.layers=2", "--model.heads=4", '--model.panel=["depth=2,embed_dim=16,num_heads=2"]',
    "--model.max_shape=[512,512,16,16]",
]  # fmt: skip
LOW_RANK = [*HYPER, "--model.rank=16", "--model.max_size=4096"]
OFFLINE = ["--data=CIFAR10", "--data.root=nowhere", "--data.batch_size=64", "--data.img_size=32"]
VIT = f"--model.arch={WIDE}"
BASE = ["--model=Finetune", VIT, "--model.optimizer=torch.optim.AdamW", *OFFLINE]


def plan(*options: object) -> Plan:
    """Plan in this process; mistakes are exceptions."""
    return make_plan([str(option) for option in options])


def steps_of(*options: object) -> Steps:
    """Count the steps of a run on one process, and nothing else."""
    run = configure([str(option) for option in options])
    return count_steps(run.method, run.data, run.trainer, run.options, processes=1)[0]


def one_of(tmp_path: Path, arch: str) -> str:
    """A set of one architecture."""
    file = tmp_path / "one.jsonl"
    values = {k: v for k, v in parse_architecture(arch).to_dict().items() if k in ("depth", "embed_dim", "num_heads")}
    file.write_text(json.dumps(values | {"patch_size": 4}) + "\n")
    return f"--model.set={file}"


def run_folder(runs: Path, name: str) -> Path:
    return runs / "test" / name / "seed0"


# -- steps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("Ancestor", ["--trainer.accumulate_grad_batches=2", "--trainer.max_epochs=2"]),
        ("Ancestor", ["--trainer.max_epochs=9", "--trainer.max_steps=4"]),
        ("Finetune", ["--data.limit_train=40", "--trainer.max_epochs=2"]),
        ("Finetune", ["--trainer.limit_train_batches=0.7", "--trainer.max_epochs=2"]),
    ],
)
def test_predicted_steps_are_those_of_a_run(fit, images, tmp_path, model, options):
    done = fit(model, "--name=run", *options)
    assert done.code == 0, done.err
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
    done = lgx(*args)
    assert done.code == 0, done.err
    summary = json.loads((run_folder(tmp_path / "runs", "run") / "summary.json").read_text())
    assert steps_of(*args[1:]).total == summary["steps"] == 4


@pytest.mark.slow
def test_two_processes_share_the_steps_of_an_epoch(images, tmp_path):
    args = arguments(
        "fit", "Ancestor", images, tmp_path / "runs", "--name=run", "--data.batch_size=5", "--trainer.max_epochs=2",
        "--trainer.accumulate_grad_batches=3", "--trainer.devices=2", "--trainer.strategy=ddp",
    )  # fmt: skip
    done = python("-m", "lgx", *args, timeout=150)
    assert done.returncode == 0, done.stderr[-3000:]
    summary = json.loads((run_folder(tmp_path / "runs", "run") / "summary.json").read_text())
    steps = plan(*args[1:]).steps
    assert (steps.total, steps.processes) == (summary["steps"], summary["processes"]) == (4, 2)
    assert steps.effective_batch == 30
    assert steps.samples == 2 * 40  # four batches an epoch: three in one step and one in the next


def test_gpus_and_nodes_multiply(tmp_path):
    steps = plan(*BASE, "--gpus=8", "--nodes=4", "--trainer.max_epochs=3", "--trainer.accumulate_grad_batches=2").steps
    assert steps.effective_batch == 64 * 2 * 32
    assert steps.batches_per_epoch == 45_000 // (64 * 32)
    assert steps.total == 3 * steps.per_epoch == 3 * 11


# -- memory and files --------------------------------------------------------------------------------------------------


@pytest.fixture
def held(monkeypatch):
    """Bytes that autograd saves in each training step, and the method that trains."""
    seen: list[int] = []
    methods: list[Method] = []
    training_step = Method.training_step

    def recorded(method, batch, batch_idx):
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


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("Ancestor", LARGE),
        ("Ancestor", [*LARGE, "--trainer.precision=bf16-mixed", "--model.mixup=0.8", "--model.drop_path_rate=0.1"]),
        pytest.param(
            "Finetune",
            [*LARGE, "--trainer.precision=bf16-true", "--model.optimizer=torch.optim.SGD"],
            marks=pytest.mark.slow,
        ),
        ("SWS", ["--model.stages=[2,2]", "--model.ancestor={ancestor}/best.learngene.safetensors"]),
        pytest.param("TLEG", LARGE, marks=pytest.mark.slow),
        pytest.param(
            "MiniDeiT", [*LARGE, "--model.stages=[3,3]", "--trainer.precision=bf16-mixed"], marks=pytest.mark.slow
        ),
        ("LSAMD", ["--model.ancestor={ancestor}/best.learngene.safetensors"]),
        pytest.param("GHN3", [*LARGE, *HYPER, "--model.max_shape=[64,64,16,16]"], marks=pytest.mark.slow),
        ("LoGAH", [*LARGE, *LOW_RANK, "--model.meta_batch=2"]),
        pytest.param(
            "LoGAH",
            [*LARGE, *LOW_RANK, "--model.layout=aligned", "--trainer.precision=bf16-mixed"],
            marks=pytest.mark.slow,
        ),
        ("TAL", [*LOW_RANK, "--model.ancestor={ancestor}/best.learngene.safetensors"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_predicted_memory_is_what_a_step_takes(held, images, ancestor, tmp_path, monkeypatch, model, options):
    seen, methods = held
    if model == "LSAMD":  # whose routing decides in a run; the plan counts what costs most
        monkeypatch.setattr(SuperAncestor, "_majority", lambda network, prefers_base: False)
    options = [option.replace("{ancestor}", str(ancestor)) for option in options]
    if model in ("GHN3", "LoGAH", "TAL"):
        arch = WIDE if "--data.img_size=32" in options else "depth=3,embed_dim=48,num_heads=3,patch_size=4,img_size=16"
        options.append(one_of(tmp_path, arch))
    args = arguments("fit", model, images, tmp_path / "runs", "--name=run", *options)
    done = lgx(*args)
    assert done.code == 0, done.err
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
    files = {
        folder / "checkpoints" / "last.ckpt": planned.checkpoint_bytes,
        folder / "best.learngene.safetensors": planned.learngene_bytes,
    }
    for file, size in files.items():
        if size is not None:
            assert file.stat().st_size == pytest.approx(size, rel=0.1, abs=120_000), file  # names and numbers beside


def test_predicted_memory_of_a_text_model_is_what_a_step_takes(held, images, tmp_path):
    pytest.importorskip("transformers", reason="needs the nlp extra: pip install 'lgx[nlp]'")
    seen, _ = held
    root = write_sets(tmp_path / "texts")
    write_vocabulary(root / "gpt2_vocab")
    arch = f"gpt2:depth=2,embed_dim=48,num_heads=3,max_len=12,vocab_size={SIZE}"
    options = [
        f"--model.arch={arch}", "--data=CoLA", f"--data.root={root}", "--data.batch_size=4", "--data.max_len=12",
        f"--data.vocab_size={SIZE}",
    ]  # fmt: skip
    args = [a for a in arguments("fit", "Finetune", images, tmp_path / "runs", *options) if "img_size" not in str(a)]
    done = lgx(*args)
    assert done.code == 0, done.err
    # Every text counts with the greatest length, which some batch has; most have less.
    planned = plan(*args[1:], "--samples=40")
    assert max(seen) <= 1.01 * planned.memory.activations
    assert planned.memory.activations < 1.2 * max(seen)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_predicted_memory_is_the_most_that_a_step_holds(precision):
    run = configure([*BASE, f"--trainer.precision={precision}"])
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
    """What a step takes in the order of Lightning, which forgets gradients after the forward pass."""
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


def test_processes_exchange_copies_of_gradients_or_share_everything():
    alone, together = plan(*BASE).memory, plan(*BASE, "--gpus=2").memory
    assert alone.buckets == 0
    assert together.buckets == together.gradients == alone.gradients
    shared = plan(*BASE, "--gpus=2", "--trainer.strategy=sharded").memory
    assert (shared.weights, shared.optimizer) == (alone.weights // 2, alone.optimizer // 2)
    assert shared.buckets == 0
    in_place = ["--trainer.strategy=DDPStrategy", "--trainer.strategy.gradient_as_bucket_view=true"]
    assert plan(*BASE, "--gpus=2", *in_place).memory.buckets == 0


@pytest.mark.parametrize(
    ("optimizer", "per_parameter"),
    [("AdamW", 8), ("AdamW --model.optimizer.fused=true", 8), ("SGD", 0), ("SGD --model.optimizer.momentum=0.9", 4)],
)
def test_the_state_is_that_of_the_configured_optimizer(optimizer, per_parameter):
    planned = plan(*BASE, *f"--model.optimizer=torch.optim.{optimizer} --model.optimizer.lr=0.1".split())
    assert planned.memory.optimizer == pytest.approx(per_parameter * planned.parameters.trained, rel=0.001)


# -- FLOPs and time ----------------------------------------------------------------------------------------------------


def test_flops_are_those_of_the_architecture_and_three_passes():
    planned = plan(*BASE, "--trainer.max_epochs=2")
    forward = 2 * cost_of(configure(BASE).method.architecture).macs
    assert planned.flops.forward == pytest.approx(forward, rel=1e-6)
    assert planned.flops.example == pytest.approx(3 * forward)
    assert planned.flops.total == pytest.approx(3 * forward * planned.steps.samples)


def test_an_ancestor_costs_its_forward_pass_alone():
    sws = ["--model=SWS", "--model.arch=12-Tiny", BASE[2], *OFFLINE, "--data.img_size=224"]
    with_ancestor = plan(*sws, "--model.ancestor=deit_small_patch16_224.fb_in1k")
    assert with_ancestor.flops.ancestor == pytest.approx(2 * cost_of(parse_architecture("12-Small")).macs, rel=1e-6)
    flops = with_ancestor.flops
    assert flops.example == pytest.approx(3 * flops.forward + flops.ancestor)
    assert with_ancestor.parameters.ancestor == cost_of(parse_architecture("12-Small")).parameters
    assert with_ancestor.memory.ancestor == pytest.approx(4 * with_ancestor.parameters.ancestor, rel=0.01)
    assert with_ancestor.parameters.trained == plan(*sws).parameters.trained


def test_the_expected_cost_over_a_set_is_its_mean():
    file, arch = EXPERIMENTS / "tal" / "vits_mini.jsonl", "depth=6,embed_dim=96,num_heads=3,img_size=32,patch_size=8"
    members = read_architectures(str(file))
    chosen = spread(members)
    assert len(chosen) < len(members)
    mean = sum(cost_of(member).macs for member in members) / len(members)
    assert mean_over(members, chosen, [cost_of(member).macs for member in chosen]) == pytest.approx(mean, rel=0.01)
    hyper = ["--model=LoGAH", *LOW_RANK, f"--model.set={file}", "--model.set_size=2"]
    options = [*hyper, f"--model.arch={arch}", BASE[2], *OFFLINE]
    once, twice = (plan(*options, f"--model.meta_batch={m}").flops for m in (1, 2))
    assert twice.forward == pytest.approx(2 * once.forward, rel=0.01)
    assert once.own > 0


def test_time_follows_from_the_speed_that_is_given():
    planned = plan(*BASE, "--gpus=2", "--trainer.max_epochs=4", "--throughput=500")
    assert planned.speed.hours == pytest.approx(planned.steps.samples / 1000 / 3600)
    assert planned.speed.gpu_hours == pytest.approx(2 * planned.speed.hours)
    by_flops = plan(*BASE, "--gpus=2", "--trainer.max_epochs=4", "--tflops=100", "--mfu=0.25").speed
    assert by_flops.gpu_hours == pytest.approx(planned.flops.total / 25e12 / 3600)
    assert plan(*BASE).speed is None


@pytest.mark.parametrize("model", ["Finetune", "LoGAH"])
def test_time_follows_from_a_speed_that_is_measured(model):
    options = [*LOW_RANK, "--model.set_size=2"] if model == "LoGAH" else []
    speed = plan(f"--model={model}", *BASE[1:], *options, "--measure=true", "--trainer.accelerator=cpu").speed
    assert 0 < speed.throughput < 1e6
    assert "measured here" in speed.source
    assert "step of 8 in 32-true" in speed.source


# -- what is not there yet ---------------------------------------------------------------------------------------------


def test_nothing_needs_to_be_there_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    missing = ["--model.start=no.learngene.safetensors", "--model.task_embeddings=no.safetensors"]
    tal = ["--model=TAL", *LOW_RANK, VIT, "--model.optimizer=torch.optim.AdamW", "--model.set_size=4", *OFFLINE]
    guided = [*missing, "--model.freeze_encoder=true", "--model.ancestor=no.ckpt"]
    done = lgx("plan", *tal, *guided, "--gpus=8")
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    wanted = "no.learngene.safetensors does not exist yet", "have 768 numbers", "Not counted: the ancestor no.ckpt"
    for text in wanted:
        assert text in said
    assert list(tmp_path.iterdir()) == []
    planned = plan(*tal, *guided)
    assert 0 < planned.parameters.frozen
    unconditioned = plan(*tal)
    film = 2 * 2 * (768 + 1) * 32  # two blocks, γ and β of width 32 from 768 numbers
    assert planned.parameters.trained + planned.parameters.frozen == unconditioned.parameters.trained + film


def test_files_that_are_there_are_read(images, ancestor, tmp_path):
    options = ["--model.stages=[2,2]", f"--model.ancestor={ancestor}/best.learngene.safetensors"]
    planned = plan(*arguments("fit", "SWS", images, tmp_path / "runs", *options)[1:])
    architecture = parse_architecture("depth=4,embed_dim=16,num_heads=2,patch_size=4,img_size=16", num_classes=3)
    assert planned.parameters.ancestor == cost_of(architecture).parameters
    assert planned.flops.ancestor == 2 * cost_of(architecture).macs
    assert planned.steps.training_examples == 48


def test_a_run_that_lies_there_is_left_alone(fit, images, tmp_path):
    assert fit("Ancestor", "--name=run").code == 0
    folder = run_folder(tmp_path / "runs", "run")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    options = ["--name=run", "--overwrite=true", "--ckpt_path=last"]
    plan(*arguments("fit", "Ancestor", images, tmp_path / "runs", *options)[1:])
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_training_examples_may_be_given():
    ham = ["--data=HAM10000", "--data.root=nowhere", "--data.batch_size=64", "--data.img_size=32"]
    options = [*BASE[:3], *ham]
    assert steps_of(*options, "--samples=6400").per_epoch == 100
    assert steps_of(*options, "--samples=ham10000=6400", "--data.limit_train=640").per_epoch == 10
    several = ["--data=MultiTask", "--data.tasks=[ham10000,cifar10]", "--data.root=nowhere", "--data.img_size=32"]
    hyper = ["--model=LoGAH", *BASE[1:3], *LOW_RANK, "--model.set_size=2", *several]
    assert steps_of(*hyper, "--samples=ham10000=5000").training_examples == 50_000


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([*BASE[:3], "--data=HAM10000", "--data.root=nowhere", "--data.img_size=32"],
         r"data ham10000: how many training examples .* give --samples ham10000=NUMBER, or bring the files"),
        ([*BASE, "--data.val_fraction=0.2"], "data cifar10: how many training examples .* --samples cifar10=NUMBER"),
        ([*BASE, "--gpus=0"], "--gpus: must be positive, got 0"),
        ([*BASE, "--trainer.precision=transformer-engine"], "trainer.precision: transformer-engine cannot be planned"),
        ([*BASE, "--trainer.max_epochs=-1"], "trainer.max_epochs or trainer.max_steps"),
        ([*BASE, "--gpus=8", "--nodes=500"], "data.batch_size: 64 x 4000 processes exceeds the 45000 training"),
        ([*BASE, "--model.arch=6-Small"], "model.arch: reads 3 channels of 224 px"),
        ([*BASE, "--model.initializer=x"], "'initializer' is no option of Finetune; did you mean initializer"),
        ([*BASE, "--model=os.system"], "importing os.system is not allowed"),
        ([*BASE, "--gpu=8"], "unknown option --gpu=8"),
        ([*BASE, "--gpus=many"], "gpus: expected .*got many"),
        ([*BASE, "--model.optimizer=torch.optim.Muon"], "model.optimizer: Muon only supports 2D parameters"),
        (["--model=Finetune", VIT], "--model.optimizer|optimizer"),
        (["--model=TLEG", *BASE[1:], "--trainer.strategy=sharded"], "the network of TLEG cannot be sharded; use ddp"),
        (BASE[:3], "required: fit.data"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence(options, sentence):
    done = lgx("plan", *options)
    assert done.code == 2, done.out + done.err
    assert re.search(sentence, done.sentence), done.sentence
    assert done.sentence.startswith("lgx plan: ")
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"nodes": -1}, "--nodes: must be positive, got -1"),
        ({"throughput": float("inf")}, "--throughput: must be positive, got inf"),
        ({"mfu": 1.5, "tflops": 100.0}, r"--mfu: a share in \(0, 1\], got 1.5"),
        ({"tflops": 100.0, "throughput": 5.0}, "three ways to say how fast it runs; give one of them"),
        ({"tflops": 100.0, "measure": True}, "three ways to say how fast it runs; give one of them"),
        ({"samples": "many"}, "--samples: a number, or NAME=NUMBER,NAME=NUMBER of several sets, got many"),
        ({"samples": "cifar10=100,200"}, "--samples: a number, or NAME=NUMBER"),
        ({"samples": 0}, "--samples: a number, or NAME=NUMBER"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options, sentence):
    with pytest.raises(UserError, match=sentence):
        Options(**options)


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_table_and_the_file_tell_the_same(tmp_path):
    done = lgx("plan", *BASE, "--gpus=8", "--nodes=2", "--tflops=300", "--json", tmp_path / "plan.json")
    assert done.code == 0, done.err
    written = json.loads((tmp_path / "plan.json").read_text())
    planned = plan(*BASE, "--gpus=8", "--nodes=2", "--tflops=300")
    assert written == json.loads(json.dumps(planned.to_dict()))
    assert written["steps"]["samples"] * written["example_bytes"] == written["data_bytes"]
    assert written["memory"]["total"] == sum(v for k, v in written["memory"].items() if k != "total")
    said = " ".join(done.out.split())
    assert "16 GPUs (2 nodes x 8), bf16-mixed" in said
    assert f"{planned.steps.total:,}" in said
    assert "1,024" in said


def test_help_names_every_option():
    done = lgx("plan", "--help")
    assert done.code == 0
    for option in ("--gpus", "--nodes", "--throughput", "--tflops", "--mfu", "--measure", "--samples", "--json"):
        assert option in done.out


def _plans(path: Path) -> None:
    planned = plan("--config", path, "--gpus=8", "--nodes=1", "--tflops=312")
    assert planned.steps.total > 0
    assert planned.memory.activations > 0
    assert planned.flops.total > 0
    assert planned.speed.hours > 0


@pytest.mark.parametrize("name", QUICK)
def test_configurations_plan(name, monkeypatch):
    monkeypatch.chdir(EXPERIMENTS.parent)
    _plans(EXPERIMENTS / f"{name}.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(EXPERIMENTS)))
def test_every_configuration_plans(path, monkeypatch):
    monkeypatch.chdir(EXPERIMENTS.parent)
    _plans(path)


def test_a_sweeps_hours_are_those_of_its_runs(tmp_path):
    (tmp_path / "run.yaml").write_text(Path("experiments/sws/demo/descendant.yaml").read_text())
    matrix = {
        "depth": [2, 4],
        "start": {"a": {"model.label_smoothing": 0.1}, "b": {"model.initializer": "RandomStart"}},
    }
    entry = {"name": "{depth}-{start}", "config": "run.yaml", "matrix": matrix}
    options = {"model.arch": "depth={depth},embed_dim=48,num_heads=3,patch_size=8,img_size=32"}
    tested = {
        "name": "t-{depth}",
        "config": "run.yaml",
        "command": "test",
        "matrix": {"depth": [2]},
        "options": options,
    }
    sweep = {"experiment": "e", "seeds": [0, 1], "runs": [{**entry, "options": options}, tested]}
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(sweep))
    alone = [
        make_plan(["--config", str(tmp_path / "run.yaml"), "--tflops=100", "--gpus=1",
                   f"--model.arch=depth={depth},embed_dim=48,num_heads=3,patch_size=8,img_size=32"])
        for depth in (2, 4)
    ]  # fmt: skip
    planned = sweep_hours(tmp_path / "sweep.yaml", 100, 0.4)
    assert planned.runs == 8
    assert planned.hours == pytest.approx(4 * sum(plan.speed.gpu_hours for plan in alone))
    told = sweep_hours(tmp_path / "sweep.yaml", 100, 0.4, f"pocket_digits={2 * alone[0].steps.training_examples}")
    assert told.hours == pytest.approx(2 * planned.hours, rel=0.1)  # whole batches


@pytest.mark.slow
def test_plans_do_not_pile_up():
    """A sweep has hundreds of plans, each with the activations of a whole step."""
    counts = []
    for _ in range(3):
        make_plan(["--config", str(EXPERIMENTS / "tal/demo/logah.yaml"), "--gpus=1"])
        gc.collect()
        counts.append(sum(type(thing).__name__ == "FakeTensor" for thing in gc.get_objects()))
    assert counts[1] == counts[2]

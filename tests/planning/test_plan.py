"""``lgx plan``: its inputs and its output, FLOPs and hours, and mistakes."""

import gc
import json
import re
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import Parameter

from experiments.reproduce.hours import sweep_hours
from lgx.architectures import parse_any_architecture, parse_architecture
from lgx.architectures.cost import cost_of
from lgx.core.flops import flop_counter
from lgx.errors import UserError
from lgx.planning import make_plan
from tests.planning.helpers import BASE, LOW_RANK, OFFLINE, VIT, one_of, plan, run_folder, steps_of
from tests.support.command_line import arguments, lgx, refusal
from tests.support.paths import EXPERIMENTS
from tests.support.sweeps import write_sweep

TIED = '{"model_type":"llama","tie_word_embeddings":true}'
PLANNED = [
    path if path.match("sws/demo/sws.yaml") else pytest.param(path, marks=pytest.mark.slow)
    for path in sorted(EXPERIMENTS.rglob("*.yaml"))
    if path.name not in ("paper_numbers.yaml", "index.yaml") and "\nmodel:" in f"\n{path.read_text()}"
]


def test_a_plan_needs_no_data_and_writes_no_files(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = one_of(tmp_path_factory.mktemp("set"), "depth=3,embed_dim=16,num_heads=2,patch_size=4,img_size=32")
    small = ["--model.optimizer=torch.optim.AdamW", one, "--model.meta_batch=1"]
    tal = ["--model=TAL", *LOW_RANK, VIT, *small, *OFFLINE]
    planned = plan(*tal)
    assert min(planned.flops.example, planned.memory.activations, planned.parameters.trained) > 0
    for option in ("start=no.learngene.safetensors", "task_embeddings=no.safetensors", "ancestor=no.ckpt"):
        assert f"{option.partition('=')[2]}: no such " in refusal(lgx("plan", *tal, f"--model.{option}"))
    assert list(tmp_path.iterdir()) == []


def test_an_existing_run_is_not_changed(fit, images, tmp_path):
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


def test_the_table_and_the_json_agree():
    options = [*BASE, "--gpus=8", "--nodes=2", "--tflops=300"]
    done, as_json = lgx("plan", *options), lgx("plan", *options, "--json")
    assert (done.code, as_json.code) == (0, 0), done.err
    written, planned = json.loads(as_json.out), plan(*options)
    assert written == json.loads(json.dumps(planned.to_dict()))
    assert written["memory"]["total"] == sum(v for k, v in written["memory"].items() if k != "total")
    printed = " ".join(done.out.split())
    assert "16 GPUs (2 nodes x 8), bf16-mixed" in printed
    assert f"{planned.steps.total:,}" in printed
    assert "1,024" in printed


@pytest.mark.parametrize("path", PLANNED, ids=lambda path: str(path.relative_to(EXPERIMENTS)))
def test_every_configuration_can_be_planned_once_the_run_that_it_names_exists(path, monkeypatch, images):
    monkeypatch.chdir(EXPERIMENTS.parent)
    name = str(path.relative_to(EXPERIMENTS.parent))
    options = ["--config", name]
    if before := re.search(rf"--config (\S+) --config {name}", path.read_text()):  # what the file changes
        options = ["--config", before[1], *options]
    if "root: my_images" in path.read_text():
        options += [f"--data.root={images}", "--data.batch_size=4"]
    if "root: runs/texts" in path.read_text():
        options += ["--samples=reviews=34911"]
    if "class_path: SST2" in path.read_text() and "runs/texts" in path.read_text():  # whose tokenizer is absent
        options += ["--model.arch=hf:depth=4,embed_dim=128,num_heads=2,max_len=64,vocab_size=8192"]
    try:
        planned = plan(*options, "--gpus=8", "--nodes=1", "--tflops=312")
    except UserError as error:
        if not re.search(r"runs/\S+(: no such file| does not exist)", str(error)):
            raise
        return
    assert min(planned.steps.total, planned.memory.activations, planned.total_flops, planned.hours) > 0


@pytest.mark.slow
def test_the_hours_of_a_sweep_are_those_of_its_runs(tmp_path):
    (tmp_path / "run.yaml").write_text(Path("experiments/sws/demo/descendant.yaml").read_text())
    starts = {"a": {"model.label_smoothing": 0.1}, "b": {"model.initializer": "RandomStart"}}
    matrix = {"depth": [2, 4], "start": starts}
    entry = {"name": "{depth}-{start}", "config": "run.yaml", "matrix": matrix}
    options = {"model.arch": "depth={depth},embed_dim=48,num_heads=3,patch_size=8,img_size=32"}
    tested = {**entry, "name": "t-{depth}", "command": "test", "matrix": {"depth": [2]}, "options": options}
    write_sweep(tmp_path, {**entry, "options": options}, tested, seeds=(0, 1))
    alone = [
        make_plan(["--config", str(tmp_path / "run.yaml"), "--tflops=100", "--gpus=1",
                   f"--model.arch=depth={depth},embed_dim=48,num_heads=3,patch_size=8,img_size=32",
                   "--model.initializer=RandomStart"])
        for depth in (2, 4)
    ]  # fmt: skip
    planned = sweep_hours(tmp_path / "sweep.yaml", 100, 0.4)
    assert planned.runs == 8
    assert planned.hours == pytest.approx(4 * sum(plan.hours for plan in alone))
    doubled = sweep_hours(tmp_path / "sweep.yaml", 100, 0.4, f"pocket_digits={2 * alone[0].steps.training_examples}")
    assert doubled.hours == pytest.approx(2 * planned.hours, rel=0.1)  # whole batches


@pytest.mark.parametrize("name", [pytest.param("LoGAH", marks=pytest.mark.slow), "LSAMD"])
def test_plans_do_not_accumulate_in_memory(name, images, ancestor, tmp_path):
    """A sweep has hundreds of plans, each with a network and the activations of a whole step."""
    options = LOW_RANK if name == "LoGAH" else [f"--model.ancestor={ancestor}/final.learngene.safetensors"]
    counts = []
    for _ in range(3):
        plan(*arguments("fit", name, images, tmp_path, "--name=run", *options)[1:])
        gc.collect()
        counts.append(Counter(type(thing) for thing in gc.get_objects() if type(thing) in (FakeTensor, Parameter)))
    assert counts[1] == counts[2]


def test_a_plan_counts_no_classes():
    assert plan(*BASE, "--model.class_weights=true").flops == plan(*BASE).flops


@pytest.mark.parametrize(
    ("data", "model", "config"), [("SST2", "Finetune", '{"model_type":"bert"}'), ("TextFiles", "Ancestor", TIED)]
)
def test_a_step_on_texts_is_counted_with_the_longest_text(data, model, config, text_root):
    arch = f"hf:depth=2,embed_dim=32,num_heads=4,mlp_ratio=2,max_len=16,vocab_size=260,config={config}"
    options = ["--data.root=nowhere", "--data.max_len=16", "--data.vocab_size=260", "--samples=80"]
    if data == "TextFiles":
        options += [f"--data.tokenizer={text_root}/gpt2_vocab"]
    planned = plan(f"--model={model}", f"--model.arch={arch}", BASE[2], f"--data={data}", *options)
    network = parse_any_architecture(arch, kind="language" if data == "TextFiles" else "text").build()
    with flop_counter() as counter:
        network(torch.ones(32, 3, 16, dtype=torch.long)).sum().backward()
    assert planned.flops.example == counter.get_total_flops() / 32
    assert planned.parameters.trained == sum(p.numel() for p in network.parameters())


def test_an_ancestor_costs_only_its_forward_pass():
    sws = ["--model=SWS", "--model.arch=2-Tiny", "--model.stages=[1,1]", BASE[2]]
    sws += ["--data=ImageNet", "--data.root=nowhere"]
    alone, taught = plan(*sws), plan(*sws, "--model.ancestor=deit_small_patch16_224.fb_in1k")
    assert taught.flops.teacher == pytest.approx(2 * cost_of(parse_architecture("12-Small")).macs, rel=1e-6)
    assert taught.flops.example == pytest.approx(alone.flops.example + taught.flops.teacher)
    assert taught.parameters.teacher == cost_of(parse_architecture("12-Small")).parameters
    assert taught.memory.teacher == pytest.approx(4 * taught.parameters.teacher, rel=0.01)
    assert taught.parameters.trained == alone.parameters.trained


def test_time_follows_from_the_speed_that_is_given():
    planned = plan(*BASE, "--gpus=2", "--trainer.max_epochs=4", "--throughput=500")
    assert planned.hours == pytest.approx(planned.steps.samples / 1000 / 3600)
    by_flops = plan(*BASE, "--gpus=2", "--trainer.max_epochs=4", "--tflops=100", "--mfu=0.25")
    assert 2 * by_flops.hours == pytest.approx(planned.total_flops / 25e12 / 3600)
    assert plan(*BASE).hours is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([*BASE[:3], "--data=HAM10000", "--data.root=nowhere", "--data.img_size=32"],
         r"data ham10000: only its files give the number .* give --samples ham10000=NUMBER, or provide the files"),
        ([*BASE, "--data.val_fraction=0.2"], "data cifar10: only its files give .* --samples cifar10=NUMBER"),
        ([*BASE, "--trainer.precision=transformer-engine"], "trainer.precision: transformer-engine cannot be planned"),
        ([*BASE, "--trainer.max_epochs=-1"], "trainer.max_epochs or trainer.max_steps"),
        ([*BASE, "--gpus=8", "--nodes=500"], "data.batch_size: 64 x 4000 processes exceeds the 45000 training"),
        ([*BASE, "--model.arch=6-Small"], "model.arch: reads 3 channels of 224 px"),
        (["--model=TLEG", *BASE[1:], "--trainer.strategy=sharded"], "the network of TLEG cannot be sharded; use ddp"),
        ([*BASE, "--gpus=0"], "gpus"),
        ([*BASE, "--samples=many"], "--samples: expected a number, or NAME=NUMBER"),
    ],
)  # fmt: skip
def test_a_mistake_ends_with_one_sentence(options, sentence):
    done = refusal(lgx("plan", *options))
    assert re.search(sentence, done), done
    assert done.startswith("lgx plan: ")

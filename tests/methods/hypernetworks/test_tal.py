"""TAL trains in two stages through the command line, and initializes descendants also for unseen tasks."""

import json
from statistics import fmean
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from data_modules.catalog import open_set
from lgx.architectures import parse_architecture
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.artifacts.task_embeddings import TaskEmbeddings
from lgx.components.losses import distillation_loss, multilabel_distillation_loss
from lgx.components.teacher import Teacher
from lgx.core.batch import Batch
from lgx.core.eval_transforms import eval_transform
from lgx.core.rows import read_rows
from lgx.core.task import Task
from lgx.hypernet import Hypernet, HypernetConfig, computational_graph
from lgx.hypernet.functional_forward import projection_graph
from lgx.methods import TAL
from tests.methods.hypernetworks.test_ghn3_logah import PANEL, TINY
from tests.support.command_line import arguments, lgx, ok, refusal
from tests.support.images import write_images

SMALL = HypernetConfig(width=16, layers=2, heads=2, max_shape=(64, 64, 4, 4), num_classes=5, rank=4, max_size=256)
VIT = parse_architecture("depth=2,embed_dim=16,num_heads=2,img_size=16,patch_size=4", num_classes=3)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """Folders of two tasks of different size, and of one task without training."""
    folder = tmp_path_factory.mktemp("tasks")
    sizes = {"first": 48, "second": 21, "unseen": 12}
    return {name: write_images(folder / name, {"train": n, "val": 6, "test": 9}) for name, n in sizes.items()}


@pytest.fixture(scope="module")
def embeddings(tasks, ancestor, tmp_path_factory):
    out = tmp_path_factory.mktemp("embeddings") / "tasks.safetensors"
    names = ",".join(str(tasks[name]) for name in ("first", "second"))
    ok(lgx("embed", "--ancestor", ancestor / "final.learngene.safetensors", "--data", names, "--out", out))
    return out


def stage2(tasks, runs, *options, command="fit"):
    """The command line of a tiny second stage; later options win."""
    several = json.dumps([str(tasks["first"]), str(tasks["second"])])
    base = arguments(command, "TAL", tasks["first"], runs, *TINY)
    base = [a for a in base if not a.startswith("--data")]
    data = ["--data=MultiTask", f"--data.tasks={several}", "--data.img_size=16", "--data.batch_size=8"]
    return [*base, *data, "--data.steps_per_epoch=6", *(str(o) for o in options)]


@pytest.fixture(scope="module")
def stage1(images, ancestor, tmp_path_factory):
    runs = tmp_path_factory.mktemp("stage1")
    guide = f"--model.ancestor={ancestor}/final.learngene.safetensors"
    ok(lgx(*arguments("fit", "TAL", images, runs, *TINY, guide, "--name=s")))
    return runs / "test/s/seed0"


@pytest.fixture(scope="module")
def tuned(tasks, stage1, embeddings, tmp_path_factory):
    runs = tmp_path_factory.mktemp("stage2")
    start = f"--model.start={stage1}/final.learngene.safetensors"
    task_option = f"--model.task_embeddings={embeddings}"
    ok(lgx(*stage2(tasks, runs, start, task_option, "--name=t", "--test_end=true", "--model.test_panel", PANEL[0:1])))
    return runs / "test/t/seed0"


def test_a_later_stage_knows_the_widths_of_both(tasks, stage1, tmp_path):
    own = tmp_path / "set.jsonl"
    own.write_text('{"depth": 1, "embed_dim": 40, "num_heads": 2}\n')
    start = f"--model.start={stage1}/final.learngene.safetensors"
    options = (start, f"--model.set={own}", "--name=w", "--checkpoint.monitor=val/first/acc")
    ok(lgx(*stage2(tasks, tmp_path / "runs", *options)))
    earlier = Learngene.load(stage1 / "final.learngene.safetensors").trained_widths
    later = Learngene.load(tmp_path / "runs/test/w/seed0/final.learngene.safetensors").trained_widths
    assert earlier
    assert 40 not in earlier
    assert later == tuple(sorted({40, *earlier}))


def test_predicting_the_projection_does_not_change_the_parameters():
    torch.manual_seed(0)
    hypernet, other = Hypernet(SMALL), parse_architecture("depth=3,embed_dim=24,num_heads=3,img_size=16,patch_size=4")
    graphs = [*map(computational_graph, (VIT, other)), *(projection_graph(a, 12) for a in (VIT, other))]
    predicted = hypernet.predict_graphs(graphs, inputs=0).by_name(len(graphs))
    parameters, projections = predicted[:2], [tensors["projection.weight"] for tensors in predicted[2:]]
    assert [tuple(m.shape) for m in projections] == [(12, 16), (12, 24)]
    for architecture, tensors in zip([VIT, other], parameters, strict=True):
        alone = hypernet.predict(architecture, dense=False)
        assert tensors.keys() == alone.keys() - {"cls_token"}
        for name, tensor in tensors.items():
            torch.testing.assert_close(tensor + 0, alone[name] + 0, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(parameters[0]["head.weight"] + 0, (projections[0] + 0)[:3])


def test_an_embedding_is_the_mean_class_token_over_the_training_images(tasks, ancestor, embeddings):
    module = open_set(str(tasks["second"]))
    module.img_size = 16
    transform, train = eval_transform(module.task), module.read("train")
    inputs = torch.stack([transform(train[i][0]) for i in range(len(train))])
    teacher = Teacher.of(load_pretrained(str(ancestor / "final.learngene.safetensors")), module.task)
    found = TaskEmbeddings.load(embeddings)
    torch.testing.assert_close(found.tensors["second"], teacher.features(inputs).mean(0), rtol=1e-5, atol=1e-6)
    assert found.images == {"first": 48, "second": 21}
    assert found.tasks["second"]["num_classes"] == 3
    assert found.width == 16


def test_stage_1_learns_from_the_ancestor(stage1, ancestor):
    learngene = Learngene.load(stage1 / "final.learngene.safetensors")
    assert learngene.method == "tal"
    assert learngene.ancestor.startswith(str(ancestor))
    assert learngene.hypernet["task_width"] is None
    assert not any("projection" in name for name in learngene.tensors)  # M is predicted, never stored


@pytest.mark.parametrize("guidance", ["official", "logits"])
def test_every_guidance_trains(fit, ancestor, guidance):
    guide = f"--model.ancestor={ancestor}/final.learngene.safetensors"
    ok(fit("TAL", *TINY, guide, f"--model.guidance={guidance}", "--name=g", "--model.meta_batch=2"))


def test_stage_2_evaluates_every_task_with_every_architecture_and_its_learngene_records_them(tuned, embeddings):
    rows = [r for r in read_rows(tuned / "results.csv") if r.metric == "acc"]
    assert [(r.task, r.n) for r in rows if r.split == "val"] == [("first", 6)] * 2 + [("second", 6)] * 2
    callbacks = load_checkpoint(tuned / "checkpoints/best.ckpt")["callbacks"]
    (state,) = (state for name, state in callbacks.items() if "val/acc" in name)
    assert state["examples"] == 12  # of both tasks; all architectures are tested on the same images
    assert state["best_model_score"] == pytest.approx(fmean(row.value for row in rows if row.split == "val"))
    assert [(r.task, r.n) for r in rows if r.split == "test"] == [("first", 9), ("second", 9)]
    assert {r.method for r in rows} == {"tal"}
    learngene = Learngene.load(tuned / "final.learngene.safetensors")
    assert learngene.hypernet["task_width"] == 16
    assert learngene.tasks["second"]["num_train"] == 21
    assert all(torch.equal(t, learngene.task_embeddings[name]) for name, t in load_file(embeddings).items())
    assert any(t.abs().max() > 0 for name, t in learngene.tensors.items() if ".film." in name)


def test_the_tuned_learngene_starts_descendants_of_any_size_for_seen_and_unseen_tasks(tasks, tuned, ancestor, tmp_path):
    file, written = tuned / "final.learngene.safetensors", {}
    seen = ["--task", "second"]
    assert lgx("embed", "--ancestor", ancestor / "final.learngene.safetensors", "--data", tasks["unseen"],
               "--out", tmp_path / "u.safetensors").code == 0  # fmt: skip
    unseen = ["--task", "unseen", "--task_embeddings", tmp_path / "u.safetensors"]
    for name, options in (("seen", seen), ("first", ["--task", "first"]), ("unseen", unseen)):
        arch = "depth=5,embed_dim=40,num_heads=2,patch_size=4,img_size=16"
        result = ok(lgx("init", "--source", file, "--arch", arch, "--out", tmp_path / name, *options))
        assert "3 classes" in result.out
        written[name] = load_file(tmp_path / name / "model.safetensors")
    assert not torch.equal(written["seen"]["head.weight"], written["first"]["head.weight"])
    assert not torch.equal(written["seen"]["head.weight"], written["unseen"]["head.weight"])


def test_a_descendant_starts_from_the_prediction_for_its_task_also_with_averaged_weights(tasks, tuned, tmp_path):
    source = f"--model.initializer.source={tuned}/final.learngene.safetensors"
    start = [
        "--model.initializer=HypernetPrediction",
        source,
        "--trainer.callbacks+=EMAWeightAveraging",
        "--test_start=true",
    ]
    ok(lgx(*arguments("fit", "Finetune", tasks["second"], tmp_path, *start, "--name=d")))
    assert {r.method for r in read_rows(tmp_path / "test/d/seed0/results.csv")} == {"tal"}


@pytest.mark.slow
def test_variants_train_under_their_own_names(tasks, stage1, embeddings, tmp_path):
    start = f"--model.start={stage1}/final.learngene.safetensors"
    task_option = f"--model.task_embeddings={embeddings}"
    variants = {
        "tal_no_task": [start],
        "ghn3_task": ["--model.decoder=conv", task_option],
        "frozen": [start, task_option, "--model.freeze_encoder=true"],
    }
    for label, options in variants.items():
        ok(lgx(*stage2(tasks, tmp_path, f"--model.label={label}", f"--name={label}", *options)))
        assert {r.method for r in read_rows(tmp_path / f"test/{label}/seed0/results.csv")} == {label}
    first = Learngene.load(stage1 / "final.learngene.safetensors").tensors
    frozen = Learngene.load(tmp_path / "test/frozen/seed0/final.learngene.safetensors").tensors
    changed = {name for name, tensor in frozen.items() if name in first and not torch.equal(tensor, first[name])}
    assert changed
    assert not any(name.startswith("encoder") for name in changed)
    assert any(".film." in name and tensor.abs().max() > 0 for name, tensor in frozen.items())


def test_the_loss_of_a_step_is_the_weighted_sum_of_its_parts():
    torch.manual_seed(0)
    method = TAL(arch="depth=1,embed_dim=16,num_heads=2,img_size=16,patch_size=4", optimizer=None, ancestor="a",
                 alpha=0.25, gamma=0.5, guidance="logits", set_size=2, panel=tuple(PANEL), width=16, layers=1, heads=2,
                 max_shape=(32, 32, 4, 4), rank=4, max_size=128)  # fmt: skip
    method.network, method.tasks = method.build_network(), {"a": Task("a", 3)}
    images, labels, answers = torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 2, 1]), torch.randn(4, 3)
    method.teacher = SimpleNamespace(for_task=lambda task: lambda inputs: answers)
    batch = Batch(images, labels, "a")
    assert method.tag("val", "a") == "val"
    found, (drawn,) = method.training_losses(batch), method.draw_for(batch)
    predicted = method.hypernet.predict(drawn)
    logits = torch.func.functional_call(drawn.build(), predicted, images)
    norms = 0.5 * sum(tensor.norm() for tensor in predicted.values())
    guidance = distillation_loss(logits, answers, method.temperature)
    expected = 0.75 * torch.nn.functional.cross_entropy(logits, labels) + 0.25 * guidance + norms
    torch.testing.assert_close((found["loss"], found["loss_norms"]), (expected, norms), rtol=1e-3, atol=1e-4)
    several = torch.tensor([[1, 0, 1], [0, 0, 1], [1, 1, 1], [0, 0, 0]])
    method.tasks = {"a": Task("a", 3, "multilabel")}
    guidance = multilabel_distillation_loss(logits, answers, method.temperature)
    own = torch.nn.functional.binary_cross_entropy_with_logits(logits, several.float())
    found = method.training_losses(Batch(images, several, "a"))["loss"]
    torch.testing.assert_close(found, 0.75 * own + 0.25 * guidance + norms, rtol=1e-3, atol=1e-4)
    method.teacher, expected = None, torch.nn.functional.cross_entropy(logits, labels) + norms
    torch.testing.assert_close(method.training_losses(batch)["loss"], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model.task_embeddings={lacking}"], ("no embedding of task second", "lgx embed")),
        (["--model.task_embeddings=none.safetensors"], ("none.safetensors", "no such file")),
        (["--model.start={embeddings}"], ("model.start", "learngene")),
        (["--model.freeze_encoder=true"], ("model.freeze_encoder", "model.start")),
        (["--model.label=a b"], ("model.label", "letters")),
        (["--model.guidance=logits", "--model.ancestor={ancestor}"], ("model.guidance", "one task")),
        (
            ["--model.mixup=0.2", "--data.tasks=[{first},pocket_digits]"],
            ("need tasks with the same", "tasks have 3 and 10"),
        ),
    ],
    ids=["lacking", "missing", "start", "freeze", "label", "logits", "mixed"],
)
def test_mistakes_end_with_one_sentence(tasks, embeddings, ancestor, tmp_path, options, words):
    known = TaskEmbeddings.load(embeddings)
    lacking = tmp_path / "lacking.safetensors"
    TaskEmbeddings({"first": known.tensors["first"]}, known.ancestor).save(lacking)
    fill = {"lacking": lacking, "embeddings": embeddings, "ancestor": ancestor / "final.learngene.safetensors"}
    fill["first"] = tasks["first"]
    sentence = refusal(lgx(*stage2(tasks, tmp_path, "--name=m", *(option.format(**fill) for option in options))))
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize(
    ("stage", "options", "words"),
    [
        ("tuned", [], ("name the task", "first, second")),
        ("tuned", ["--task", "third"], ("no embedding of task third", "first, second")),
        ("stage1", ["--task", "first"], ("does not read task embedding",)),
    ],
)
def test_init_requires_a_task_of_the_hypernetwork(request, tmp_path, stage, options, words):
    source = request.getfixturevalue(stage) / "final.learngene.safetensors"
    given = ["--source", source, "--arch", "3-Tiny", "--out", tmp_path / "o"]
    sentence = refusal(lgx("init", *given, *options))
    assert all(word in sentence for word in words), sentence

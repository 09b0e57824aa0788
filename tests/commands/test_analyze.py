"""``lgx analyze`` and the task map of a run, compared with hand computations and known geometry."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
import torch
from safetensors.torch import save_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lgx.architectures import parse_architecture
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import EMBEDDING_PREFIX, Learngene
from lgx.artifacts.task_embeddings import TaskEmbeddings
from lgx.components.figures import to_svg
from lgx.core.rows import read_rows
from lgx.errors import UserError
from lgx.hypernet import Hypernet, HypernetConfig
from lgx.methods.hypernetworks.task_figure import task_figure
from lgx.methods.hypernetworks.task_map import embed_graphs, project, task_map
from lgx.results.parameters import change_magnitude, check_alike, diversity, read_parameters, sparsity
from tests.support.command_line import ARCH, arguments, lgx
from tests.support.images import write_images

CONFIG = {
    "width": 16, "layers": 2, "heads": 2, "max_shape": (32, 32, 4, 4), "rank": 4, "max_size": 128, "num_classes": 3,
}  # fmt: skip
BASE = parse_architecture(ARCH, num_classes=3)
FOUR = [BASE.replace(depth=depth) for depth in (1, 2, 3, 4)]
EMBEDDINGS = dict(zip(("circles", "dots", "dunes"), 3 * torch.eye(3), strict=True))
CLASSES = {"circles": 3, "dots": 5, "dunes": 30}


def hypernet_of(tells_tasks: bool) -> Hypernet:
    torch.manual_seed(0)
    hypernet = Hypernet(HypernetConfig(**CONFIG, task_width=3)).eval()
    if tells_tasks:
        for block in hypernet.encoder.blocks:
            torch.nn.init.normal_(block.film.beta.weight, std=2.0)
    return hypernet


def save_learngene(folder, hypernet, tasks=CLASSES):
    tensors = {**hypernet.state_dict(), **{f"{EMBEDDING_PREFIX}{task}": EMBEDDINGS[task] for task in tasks}}
    known = {task: {"name": task, "num_classes": classes} for task, classes in tasks.items()}
    path = folder / "tal.learngene.safetensors"
    Learngene("tal", BASE, tensors, hypernet=hypernet.config.to_dict(), tasks=known).save(path)
    return path


@pytest.fixture
def learngene(tmp_path):
    return save_learngene(tmp_path, hypernet_of(tells_tasks=True))


def points_and_words(svg):
    """How many points the figure has, and its text."""
    root = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    clouds = [g for g in root.iter(f"{space}g") if "PathCollection" in g.get("id", "")]
    points = [p for cloud in clouds for p in cloud.iter() if p.tag in (f"{space}path", f"{space}use")]
    return len(points), [text.text for text in root.iter(f"{space}text")]


# -- the map ----------------------------------------------------------------------------------------------------------


def test_the_silhouette_is_one_for_tasks_far_apart_and_zero_for_shuffled_ones():
    torch.manual_seed(0)
    many = [BASE.replace(depth=depth) for depth in range(1, 31)]
    apart = {task: 100 * torch.eye(8)[k] + 0.1 * torch.randn(30, 8) for k, task in enumerate(EMBEDDINGS)}
    found = project(apart, many)
    assert found.silhouette > 0.99
    assert found.plane_silhouette > 0.99
    assert sum(found.explained) == pytest.approx(1, abs=1e-3)  # three clusters lie in a plane
    mixed = torch.cat(list(apart.values()))[torch.randperm(90)].split(30)
    shuffled = project(dict(zip(apart, mixed, strict=True)), many)
    assert abs(shuffled.silhouette) < 0.1
    assert abs(shuffled.plane_silhouette) < 0.1


def test_the_axes_are_those_of_the_largest_variance():
    x = torch.tensor([[-2.0, 0, 0], [2.0, 0, 0], [0, 1.0, 0], [0, -1.0, 0]])
    found = project({"a": x[:2], "b": x[2:]}, FOUR[:2])
    assert found.explained == pytest.approx((0.8, 0.2))
    assert [abs(point.x) for point in found.points] == pytest.approx([2, 2, 0, 0])
    assert [abs(point.y) for point in found.points] == pytest.approx([0, 0, 1, 1])


def test_an_encoder_that_ignores_the_task_has_no_positive_silhouette():
    ignorant = hypernet_of(tells_tasks=False)
    same = task_map(ignorant, EMBEDDINGS, FOUR)
    assert same.silhouette == pytest.approx(-1 / len(FOUR), abs=1e-3)  # every other task has a point at the same place
    one = task_map(ignorant, EMBEDDINGS, FOUR[:1])
    assert (one.silhouette, one.explained) == (None, (0.0, 0.0))
    own = task_map(ignorant, EMBEDDINGS, FOUR[:1], CLASSES)
    assert own.points[0].x != pytest.approx(own.points[2].x)  # only the shape of the head differs
    assert task_map(hypernet_of(tells_tasks=True), EMBEDDINGS, FOUR).silhouette > 0.5


def test_padding_does_not_change_an_embedding():
    hypernet = hypernet_of(tells_tasks=True)
    together = embed_graphs(hypernet, FOUR, EMBEDDINGS["dots"])
    alone = torch.cat([embed_graphs(hypernet, [architecture], EMBEDDINGS["dots"]) for architecture in FOUR])
    torch.testing.assert_close(together, alone)
    assert not together.requires_grad


def test_the_figure_has_every_point_and_every_task():
    hostile = dict(zip(("_$x$", "<b>", "dots"), EMBEDDINGS.values(), strict=True))
    found = task_map(hypernet_of(tells_tasks=True), hostile, FOUR)
    count, words = points_and_words(to_svg(task_figure(found), "tasks"))
    assert count == 12
    assert {word.strip() for word in words} >= {"_$x$", "<b>", "dots", f"silhouette by task {found.silhouette:.2f}"}
    sizes = [point.parameters for point in found.points[:4]]
    assert sizes == sorted(set(sizes))


# -- lgx analyze tasks ------------------------------------------------------------------------------------------------


def analyze(learngene, *options):
    return lgx("analyze", "tasks", "--learngene", learngene, *options)


def test_the_command_draws_the_papers_ten_descendants(learngene, tmp_path):
    result = analyze(learngene, "--out", tmp_path / "map.svg")
    assert result.code == 0, result.err
    assert "same, 3 classes" in result.out
    assert "each task's own" in result.out
    count, words = points_and_words((tmp_path / "map.svg").read_text())
    assert count == 3 * 10
    assert {"circles", "dots", "dunes"} <= {word.strip() for word in words}


def test_json_has_all_points_of_the_tasks_and_architectures_asked_for(learngene, tmp_path):
    archs = "depth=1,embed_dim=16,num_heads=2;2-Tiny;3-Tiny,patch_size=8"
    result = analyze(
        learngene, "--archs", archs, "--tasks=dunes,dots", "--json", "--heads=own", "--out", tmp_path / "m.svg"
    )
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert report["figure"] == "own"
    assert [p["task"] for p in report["same"]["points"]] == ["dunes"] * 3 + ["dots"] * 3
    assert "patch_size=4,img_size=16" in report["same"]["points"][0]["architecture"]
    assert "patch_size=8,img_size=16" in report["same"]["points"][2]["architecture"]
    assert report["same"]["silhouette"] != report["own"]["silhouette"]


def test_a_hypernetwork_that_ignores_the_task_is_reported(tmp_path):
    ignorant = save_learngene(tmp_path, hypernet_of(tells_tasks=False))
    options = ("--archs=1-Tiny,2-Tiny", "--out", tmp_path / "m.svg")
    assert "does not separate the tasks" in analyze(ignorant, *options).out
    single = analyze(ignorant, "--archs=1-Tiny", "--out", tmp_path / "m.svg")
    assert single.code == 0
    assert "is undefined for one architecture" in single.out


def test_embeddings_without_class_names_cannot_have_own_heads(learngene, tmp_path):
    TaskEmbeddings(EMBEDDINGS).save(tmp_path / "e.safetensors")
    given = ("--task_embeddings", tmp_path / "e.safetensors", "--archs=1-Tiny,2-Tiny", "--out", tmp_path / "m.svg")
    result = analyze(learngene, *given)
    assert result.code == 0, result.err
    assert "own" not in result.out
    own = analyze(learngene, *given, "--heads=own")
    assert "does not state the number of classes of circles, dots, dunes" in own.sentence


def test_mistakes_of_analyze_tasks_end_with_one_sentence(learngene, tmp_path):
    plain = tmp_path / "plain.learngene.safetensors"
    untold = Hypernet(HypernetConfig(**CONFIG))
    Learngene("logah", BASE, untold.state_dict(), hypernet=untold.config.to_dict()).save(plain)
    TaskEmbeddings({"a": torch.ones(5), "b": torch.ones(5)}).save(tmp_path / "wide.safetensors")
    for arguments_, words in (
        ((plain,), "does not read task embeddings; give a learngene that TAL tuned"),
        ((learngene, "--tasks=dots"), "at least two tasks, got dots"),
        ((learngene, "--tasks=dots,flowers"), "no embedding of task flowers"),
        ((learngene, "--task_embeddings", tmp_path / "wide.safetensors"), "was tuned with 3"),
        ((learngene, "--out=map.png"), "ending in .svg"),
        ((learngene, "--archs=,"), "name at least one architecture"),
    ):
        result = analyze(*arguments_)
        assert result.code == 2, arguments_
        assert words in result.sentence


# -- lgx analyze parameters -------------------------------------------------------------------------------------------


def test_characteristics_are_those_computed_by_hand():
    start = {"a": torch.tensor([3.0, 0.0]), "b": torch.tensor([[0.0], [4.0]])}
    trained = {"b": torch.tensor([[0.0], [4.0]]), "a": torch.tensor([0.0, 0.005])}
    assert sparsity(start, 0.01) == 0.5
    assert sparsity(trained, 0.01) == 0.75
    assert sparsity(trained, 0.001) == 0.5
    assert change_magnitude(start, trained) == pytest.approx((3**2 + 0.005**2) ** 0.5 / 5)
    one, other = {"a": torch.tensor([1.0, 0.0])}, {"a": torch.tensor([0.0, 2.0])}
    assert diversity([one, other]) == pytest.approx(1)
    assert diversity([one, one]) == pytest.approx(0)
    assert diversity([one, one, other]) == pytest.approx(2 / 3)


def network(path, seed, architecture=BASE):
    torch.manual_seed(seed)
    save_file(dict(architecture.build().state_dict()), path)
    return path


def test_networks_of_every_file_form_can_be_compared(ancestor, tmp_path):
    trained, form = ancestor / "checkpoints/last.ckpt", ancestor / "best.learngene.safetensors"
    start = network(tmp_path / "start.safetensors", 0)
    assert lgx("init", "--arch", ARCH, "--num_classes=3", "--seed=1", "--out", tmp_path / "folder").code == 0
    others = f"{form},{tmp_path / 'folder'}"
    command = ["analyze", "parameters", "--start", start, "--trained", trained, "--other", others]
    result = lgx(*command, "--json")
    assert result.code == 0, result.err
    report = json.loads(result.out)
    state = load_checkpoint(trained)["state_dict"]
    assert report["sparsity_trained"] == pytest.approx(
        sum(int((t.abs() < 0.01).sum()) for t in state.values()) / sum(t.numel() for t in state.values())
    )
    assert report["change_magnitude"] > 0
    assert len(report["trained"]) == 3
    assert 0 < report["diversity"] < 1.2
    table = lgx(*command, "--threshold=0.1").out
    assert re.search(r"\|w\| < 0\.1 \(%\)", table)
    assert f"{report['change_magnitude']:.4f}" in table
    assert "diversity of 3" in table


def test_mistakes_of_analyze_parameters_end_with_one_sentence(learngene, tmp_path):
    start = network(tmp_path / "a.safetensors", 0)
    deeper = network(tmp_path / "b.safetensors", 0, BASE.replace(depth=5))
    zeros = tmp_path / "zeros.safetensors"
    save_file({"w": torch.zeros(3)}, zeros)
    for trained, words in (
        (deeper, "blocks.4.attn.proj.bias is missing in the first and (16,) in the second"),
        (learngene, "holds a hypernetwork"),
        (zeros, "all its parameters are zero"),
        (tmp_path / "none.safetensors", "no such file"),
    ):
        result = lgx("analyze", "parameters", "--start", start, "--trained", trained)
        assert result.code == 2
        assert words in result.sentence
    assert "--threshold" in lgx("analyze", "parameters", "--start", start, "--trained", start, "--threshold=0").sentence


def test_batch_norm_statistics_are_not_counted_as_parameters(tmp_path):
    norm = torch.nn.BatchNorm2d(3)
    save_file(norm.state_dict(), tmp_path / "norm.safetensors")
    assert set(read_parameters(str(tmp_path / "norm.safetensors"))) == {"weight", "bias"}
    with pytest.raises(UserError, match=r"b is missing in the first and \(3,\) in the second"):
        check_alike({"x": {"a": torch.ones(2)}, "y": {"a": torch.ones(2), "b": torch.ones(3)}})


# -- while training ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Two tasks of three classes each, and their embeddings."""
    root = tmp_path_factory.mktemp("tasks")
    for task in ("circles", "dots"):
        write_images(root / task, {"train": 18, "val": 6, "test": 6})
    TaskEmbeddings({task: EMBEDDINGS[task] for task in ("circles", "dots")}).save(root / "e.safetensors")
    return root


def train(places, runs, tasks, *options):
    args = [a for a in arguments("fit", "TAL", places, runs) if not a.startswith("--data")]
    return lgx(
        *args, "--data=MultiTask", f"--data.tasks=[{','.join(str(places / task) for task in tasks)}]",
        f"--data.root={places}", "--data.img_size=16", "--data.batch_size=6", "--data.steps_per_epoch=2",
        "--model.width=16", "--model.layers=1", "--model.heads=2", "--model.max_shape=[32,32,4,4]", "--model.rank=4",
        "--model.max_size=128", "--model.set_size=5", '--model.panel=["depth=2,embed_dim=16,num_heads=2"]',
        "--name=tal", *options,
    )  # fmt: skip


def test_a_run_maps_its_tasks_after_every_validation(places, tmp_path):
    task_option = f"--model.task_embeddings={places / 'e.safetensors'}"
    result = train(places, tmp_path, ("circles", "dots"), task_option, "--trainer.max_epochs=2")
    assert result.code == 0, result.err
    run = tmp_path / "test/tal/seed0"
    count, words = points_and_words((run / "task_map.svg").read_text())
    assert count == 2 * 10
    assert {"circles", "dots"} <= {word.strip() for word in words}
    events = EventAccumulator(str(run), size_guidance={"images": 0}).Reload()
    assert [event.step for event in events.Images("task_map")] == [2, 4]
    assert all(-1 <= event.value <= 1 for event in events.Scalars("val/silhouette"))
    assert {row.split for row in read_rows(run / "results.csv")} == {
        "val"
    }  # the loss of a hypernetwork is not that of a descendant
    drawn = analyze(run / "best.learngene.safetensors", "--archs=1-Tiny,2-Tiny", "--out", tmp_path / "m.svg")
    assert drawn.code == 0, drawn.err


def test_no_map_is_drawn_for_one_task_or_without_embeddings(places, tmp_path):
    task_option = f"--model.task_embeddings={places / 'e.safetensors'}"
    assert train(places, tmp_path / "one", ("dots",), task_option).code == 0
    assert train(places, tmp_path / "untold", ("circles", "dots")).code == 0
    assert train(places, tmp_path / "dry", ("circles", "dots"), task_option, "--trainer.fast_dev_run=true").code == 0
    assert not list(tmp_path.rglob("task_map.svg"))

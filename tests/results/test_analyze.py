"""``python -m experiments.analyze``: tasks, parameters and length."""

import csv
import re

import pytest
import timm
import torch
from safetensors.torch import load_file, save_file

from experiments.analyze.__main__ import main
from experiments.analyze.length import in_words, leads_of, length_table, means_of
from experiments.analyze.parameters import compare_parameters, statistics_of
from experiments.analyze.task_maps import map_learngene
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.task_embeddings import TaskEmbeddings
from lgx.core.rows import write_rows
from lgx.errors import UserError
from tests.results.helpers import row as some_row
from tests.support.command_line import ARCH, analyze, lgx, ok, refusal
from tests.support.fake_data import class_tree
from tests.support.task_maps import BASE, EMBEDDINGS, hypernet_of, points_and_words, save_learngene


@pytest.fixture
def learngene(tmp_path):
    return save_learngene(tmp_path, hypernet_of(tells_tasks=True))


def mapped(learngene, *options):
    return analyze("tasks", "--source", learngene, *options)


def test_the_command_draws_the_papers_ten_descendants(learngene, tmp_path):
    result = ok(mapped(learngene, "--out", tmp_path / "map.svg"))
    assert "silhouette by task 0." in result.out
    count, words = points_and_words((tmp_path / "map.svg").read_text())
    assert count == 3 * 10
    assert {"circles", "dots", "dunes"} <= {word.strip() for word in words}


def test_the_tasks_and_architectures_asked_for_are_mapped(learngene, tmp_path):
    archs = "depth=1,embed_dim=16,num_heads=2;2-Tiny;3-Tiny,patch_size=8"
    result = mapped(learngene, "--archs", archs, "--tasks=dunes,dots", "--out", tmp_path / "m.svg")
    assert "2 tasks x 3 architectures" in result.out, result.err
    points = map_learngene(str(learngene), None, ["dunes", "dots"], archs.split(";")).points
    assert [point.task for point in points] == ["dunes"] * 3 + ["dots"] * 3
    assert "patch_size=4,img_size=16" in points[0].architecture
    assert "patch_size=8,img_size=16" in points[2].architecture


def test_tasks_of_another_file_are_mapped(learngene, tmp_path):
    TaskEmbeddings({"a": EMBEDDINGS["dots"], "b": EMBEDDINGS["dunes"]}).save(tmp_path / "e.safetensors")
    given = ("--task_embeddings", tmp_path / "e.safetensors", "--archs=1-Tiny", "--out", tmp_path / "m.svg")
    out = ok(mapped(learngene, *given)).out
    assert "silhouette by task undefined" in out
    assert "2 tasks x 1 architectures" in out


def network(path, seed, architecture=BASE):
    torch.manual_seed(seed)
    Learngene("ancestor", architecture, dict(architecture.build().state_dict())).save(path)
    return path


def test_networks_of_every_file_form_can_be_compared(ancestor, tmp_path):
    trained, form = ancestor / "checkpoints/last.ckpt", ancestor / "final.learngene.safetensors"
    start = network(tmp_path / "start.learngene.safetensors", 0)
    assert lgx("init", "--arch", ARCH, "--num_classes=3", "--seed=1", "--out", tmp_path / "folder").code == 0
    others = f"{form},{tmp_path / 'folder'}"
    command = ["parameters", "--start", start, "--trained", trained, "--other", others]
    found = compare_parameters(str(start), [str(trained), *others.split(",")], 0.01)
    state = load_checkpoint(trained)["state_dict"]
    assert found.sparsity_trained == pytest.approx(
        sum(int((t.abs() < 0.01).sum()) for t in state.values()) / sum(t.numel() for t in state.values())
    )
    assert found.change_magnitude > 0
    assert 0 < found.diversity < 1.2
    table = analyze(*command, "--threshold=0.1", "--out", tmp_path / "p.csv").out
    assert list(csv.reader((tmp_path / "p.csv").open()))[2] == ["change magnitude", "", f"{found.change_magnitude:.4f}"]
    (tmp_path / "mine.csv").write_text("mine")
    assert "mine.csv" in analyze(*command, "--out", tmp_path / "mine.csv").sentence
    assert re.search(r"\|w\| < 0\.1 \(%\)", table)
    assert f"{found.change_magnitude:.4f}" in table
    assert "diversity of 3" in table


OF_DESCENDANT = "runs/t/a-aligned-1600-tal/seed0"


def row(method, value, **changes):
    return some_row(method, "x", value, **{"task": "a", "run": f"runs/t/{method.split('_')[0]}-x/seed0", **changes})


ROWS = [
    *(row("random", 0.1, seed=seed, task=task) for seed in (0, 1) for task in "ab"),
    *(row("random", 0.5, seed=seed, task=task, epochs=5) for seed in (0, 1) for task in "ab"),
    *(row("tal_aligned_1600", value, seed=seed) for seed, value in enumerate((0.4, 0.5))),
    *(row("tal_aligned_1600", value, seed=seed, task="b") for seed, value in enumerate((0.6, 0.7))),
    *(row("logah_aligned_1600", 0.3, seed=seed, task=task) for seed in (0, 1) for task in "ab"),
    *(row("tal_aligned_6400", value, task=task) for task, value in (("a", 0.9), ("b", 0.7))),
    *(row("logah_aligned_6400", 0.2, task=task) for task in "ab"),
    row("tal_official_1600", 0.9),  # lacks a task
    *(
        row("tal_aligned_1600", value, task=task, epochs=5, run=OF_DESCENDANT)
        for task, value in (("a", 0.8), ("b", 0.6))
    ),
    row("tal_aligned_1600", 0.99, run=OF_DESCENDANT),  # untrained, in one size; the hypernetwork's run has all
    row("tal_aligned_1600", 0.99, task="never trained"),
]


def test_leads_are_means_over_tasks_paired_by_seed():
    untrained = leads_of(ROWS, False)
    assert in_words(untrained["aligned", 1600]).startswith("+25.0 ± ")
    assert {place: in_words(lead) for place, lead in leads_of(ROWS, True, "random").items()} == {
        ("aligned", 1600): "+20.0"
    }
    assert leads_of(ROWS, False, "random")["aligned", 6400].mean == pytest.approx(70)
    assert "| aligned, 1,600 | 2 | 55.0 | +25.0 ± " in length_table(ROWS)


def test_a_seed_whose_rows_are_not_all_there_yet_is_left_out():
    points, _ = means_of([*ROWS, row("tal_aligned_1600", 0.1, seed=2, task="a")])
    assert {key.steps: set(values) for key, values in points.items() if key.method == "tal" and not key.is_trained} == {
        1600: {0, 1}, 6400: {0},
    }  # fmt: skip


def test_rows_of_another_sweep_are_refused(tmp_path, capsys):
    with pytest.raises(UserError, match="no rows of experiments/tal/length"):
        means_of([row("tal", 0.5)])
    write_rows(tmp_path / "rows.csv", ROWS)
    main(["length", "--rows", str(tmp_path / "rows.csv"), "--out", str(tmp_path / "length.svg")])
    assert "+25.0" in capsys.readouterr().out
    assert "<svg" in (tmp_path / "length.svg").read_text()


def vector(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_characteristics_are_those_computed_by_hand():
    start, trained = vector(3, 0, 0, 4), vector(0, 0.005, 0, 4)
    found = statistics_of(start, [trained], 0.01)
    assert found == (0.5, 0.75, pytest.approx((3**2 + 0.005**2) ** 0.5 / 5), None)
    assert statistics_of(start, [trained], 0.001).sparsity_trained == 0.5
    one, other = vector(1, 0), vector(0, 2)
    assert statistics_of(one, [one, other], 0.01).diversity == pytest.approx(1)
    assert statistics_of(one, [one, one], 0.01).diversity == pytest.approx(0)
    assert statistics_of(one, [one, one, other], 0.01).diversity == pytest.approx(2 / 3)


def test_a_rotated_ancestor_computes_the_same_with_most_of_it_in_its_first_dimensions(tmp_path):
    class_tree(tmp_path / "images", ["a", "b"], 8)
    ok(lgx("init", "--arch", ARCH, "--num_classes", 3, "--out", tmp_path / "vit"))
    weights = load_file(tmp_path / "vit/model.safetensors")
    generator = torch.Generator().manual_seed(0)
    noisy = {name: tensor + 0.2 * torch.randn(tensor.shape, generator=generator) for name, tensor in weights.items()}
    save_file(noisy, tmp_path / "vit/model.safetensors")
    words = ("rotate", "--source", tmp_path / "vit", "--data", tmp_path / "images", "--out", tmp_path / "rotated")
    ok(analyze(*words))
    assert "exists" in refusal(analyze(*words))
    models = [timm.create_model(f"local-dir:{tmp_path / name}", pretrained=True).eval() for name in ("vit", "rotated")]
    images = torch.randn(4, 3, *models[0].patch_embed.img_size, generator=generator)
    with torch.no_grad():
        before, after = (model(images) for model in models)
        kept = [model.norm(model.forward_features(images)).square().mean((0, 1)) for model in models]
    torch.testing.assert_close(after, before, rtol=1e-3, atol=1e-4)
    half = len(kept[0]) // 2
    first, others = kept[1][:half].sum(), kept[1][half:].sum()
    assert first > 2 * others
    assert first / others > 2 * kept[0][:half].sum() / kept[0][half:].sum()

"""The task map: projection, silhouette and figure, compared with known geometry."""

import pytest
import torch

from experiments.analyze.task_maps import embed_graphs, project, task_figure, task_map
from lgx.components.figures import to_svg
from lgx.hypernet.graph import computational_graph
from tests.support.task_maps import BASE, EMBEDDINGS, FOUR, hypernet_of, points_and_words


def test_the_silhouette_is_one_for_tasks_far_apart_and_zero_for_shuffled_ones():
    torch.manual_seed(0)
    many = [BASE.replace(depth=depth) for depth in range(1, 31)]
    apart = {task: 100 * torch.eye(8)[k] + 0.1 * torch.randn(30, 8) for k, task in enumerate(EMBEDDINGS)}
    found = project(apart, many)
    assert found.silhouette > 0.99
    assert sum(found.explained) == pytest.approx(1, abs=1e-3)  # three clusters lie in a plane
    mixed = torch.cat(list(apart.values()))[torch.randperm(90)].split(30)
    shuffled = project(dict(zip(apart, mixed, strict=True)), many)
    assert abs(shuffled.silhouette) < 0.1


def test_the_axes_are_those_of_the_largest_variance():
    x = torch.tensor([[-2.0, 0, 0], [2.0, 0, 0], [0, 1.0, 0], [0, -1.0, 0]])
    found = project({"a": x[:2], "b": x[2:]}, FOUR[:2])
    assert found.explained == pytest.approx((0.8, 0.2))
    assert [abs(point.x) for point in found.points] == pytest.approx([2, 2, 0, 0])
    assert [abs(point.y) for point in found.points] == pytest.approx([0, 0, 1, 1])
    assert all(point.parameters > 0 for point in found.points)


def test_a_graph_is_the_mean_of_its_nodes_whatever_is_embedded_with_it():
    hypernet, task = hypernet_of(tells_tasks=True), next(iter(EMBEDDINGS.values()))
    found = embed_graphs(hypernet, FOUR, task)
    assert not found.requires_grad
    with torch.no_grad():
        for architecture, mean in zip(FOUR, found, strict=True):
            nodes = hypernet.encode([computational_graph(architecture, hypernet.config.convention)], task)[:, 0]
            torch.testing.assert_close(mean, nodes.mean(0), rtol=1e-3, atol=1e-5)


def test_an_encoder_that_ignores_the_task_has_no_positive_silhouette():
    ignorant = hypernet_of(tells_tasks=False)
    same = task_map(ignorant, EMBEDDINGS, FOUR)
    assert same.silhouette == pytest.approx(-1 / len(FOUR), abs=1e-3)  # every other task has a point at the same place
    one = task_map(ignorant, EMBEDDINGS, FOUR[:1])
    assert (one.silhouette, one.explained) == (None, (0.0, 0.0))
    assert task_map(hypernet_of(tells_tasks=True), EMBEDDINGS, FOUR).silhouette > 0.5


def test_the_figure_has_every_point_and_every_task():
    hostile = dict(zip(("_$x$", "<b>", "dots"), EMBEDDINGS.values(), strict=True))
    found = task_map(hypernet_of(tells_tasks=True), hostile, FOUR)
    count, words = points_and_words(to_svg(task_figure(found), "tasks"))
    assert count == 12
    assert {word.strip() for word in words} >= {"_$x$", "<b>", "dots", f"silhouette by task {found.silhouette:.2f}"}
    sizes = [point.parameters for point in found.points[:4]]
    assert sizes == sorted(set(sizes))

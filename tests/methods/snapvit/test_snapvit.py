"""SnapViT: scores without labels, a search over layers, and the start."""

import pytest
import torch

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.methods.snapvit.evolution import maximize
from lgx.methods.snapvit.initializer import SnapViT
from lgx.methods.snapvit.scores import features, kept_of, score, without
from tests.support.command_line import lgx
from tests.support.images import write_images

VIT = ViTArchitecture(3, 16, 4, patch_size=4, img_size=16, num_classes=3)
IMAGES = torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def network():
    torch.manual_seed(0)
    return VIT.build().eval()


def scores_of(network):
    return score(network, VIT, IMAGES, torch.Generator().manual_seed(0))


def test_what_nobody_reads_has_no_score(network):
    block = network.blocks[1]
    with torch.no_grad():
        block.mlp.fc2.weight[:, :40] = 0
        block.attn.proj.weight[:, 4:8] = 0  # the second head
    scores = scores_of(network)
    neurons, heads = scores["hidden", "blocks.1.mlp"], scores["heads", "blocks.1.attn"]
    assert (neurons[:40] == 0).all()
    assert (neurons[40:] > 0).all()
    assert heads.shape == (4, 4)
    assert (heads.mean(1) == 0).tolist() == [False, True, False, False]


def test_scores_do_not_depend_on_what_was_computed_before(network):
    first, _, second = scores_of(network), network(IMAGES), scores_of(network)
    assert all(torch.equal(values, second[key]) for key, values in first.items())


def test_a_share_of_all_goes_and_a_part_of_each_layer_stays(network):
    scores = scores_of(network)
    for kind, total in (("hidden", 3 * 64), ("heads", 12)):
        kept = kept_of(scores, kind, 0.5, 0.25)
        width = 4 if kind == "heads" else 1
        assert sum(mask.sum() for mask in kept.values()) == width * total / 2
        assert all(mask.sum() >= len(mask) / 4 for mask in kept.values())


def test_a_network_without_neurons_and_heads_is_the_narrower_one(network):
    masks = {("hidden", "blocks.0.mlp"): torch.ones(64), ("heads", "blocks.2.attn"): torch.ones(16)}
    masks["hidden", "blocks.0.mlp"][10:] = 0
    masks["heads", "blocks.2.attn"][:8] = 0
    whole = features(network, IMAGES)
    with without(network, VIT, masks):
        cut = features(network, IMAGES)
    assert torch.equal(features(network, IMAGES), whole)
    with torch.no_grad():
        network.blocks[0].mlp.fc2.weight[:, 10:] = 0
        network.blocks[2].attn.proj.weight[:, :8] = 0
    torch.testing.assert_close(features(network, IMAGES), cut)


def test_the_search_finds_the_maximum_of_a_quadratic():
    goal = torch.linspace(0.5, 1.5, 6, dtype=torch.float64)
    scale = torch.tensor([1.0, 4.0, 1.0, 9.0, 1.0, 1.0], dtype=torch.float64)
    found = maximize(lambda x: -float((scale * (x - goal).square()).sum()), torch.ones(6), 2000, torch.Generator())
    torch.testing.assert_close(found, goal, atol=1e-2, rtol=0)


def test_the_search_finds_the_maximum_of_a_rotated_ellipsoid():
    axes = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))[0]
    scale = torch.logspace(0, 4, 5, dtype=torch.float64)
    value = lambda x: -float((scale * (axes @ (x - 0.5)).square()).sum())  # noqa: E731
    assert value(maximize(value, torch.ones(5), 2000, torch.Generator().manual_seed(0))) > -1e-6


def test_a_start_has_the_heads_and_neurons_with_the_largest_scores(network, tmp_path):
    source = tmp_path / f"a{SUFFIX}"
    Learngene("ancestor", VIT, network.state_dict()).save(source)
    photos = write_images(tmp_path / "photos", {"train": 3})
    start = SnapViT(str(source), str(photos), images=3, evaluations=20)
    tensors = start(VIT.replace(num_heads=2, embed_dim=8, depth=2))
    values = start.ranked.elements["hidden", f"blocks.{start.layers(2)[0]}.mlp"]
    kept = sorted(values.argsort(descending=True)[:32].tolist())
    stream = sorted(start.ranked.elements["embed", ""].argsort(descending=True)[:8].tolist())
    expected = network.state_dict()[f"blocks.{start.layers(2)[0]}.mlp.fc1.weight"][kept][:, stream]
    assert torch.equal(tensors["blocks.0.mlp.fc1.weight"], expected)
    assert start.layers(2) == sorted(start.ranked.layers.argsort(descending=True)[:2].tolist())


def test_without_images_one_sentence_says_what_is_needed(network, tmp_path):
    source = tmp_path / f"a{SUFFIX}"
    Learngene("ancestor", VIT, network.state_dict()).save(source)
    done = lgx("init", "--source", source, "--method", "snapvit", "--arch", VIT.spec(), "--out", tmp_path / "x")
    assert done.code == 2
    assert "data: SnapViT scores heads and neurons on images" in done.sentence
    assert not (tmp_path / "x").exists()

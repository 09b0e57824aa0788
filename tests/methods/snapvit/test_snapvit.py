"""SnapViT: scores without labels, a search over layers, and the start."""

import math
import re

import pytest
import torch

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.components.features import before_head as features
from lgx.methods.snapvit.initializer import SnapViT, _views, kept_of, maximize, score, without
from lgx.methods.weight_subcloning.importance import STREAM
from tests.support.families import tiny
from tests.support.images import write_images

VIT = ViTArchitecture(3, 16, 4, patch_size=4, img_size=16, num_classes=3)
IMAGES = torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def network():
    torch.manual_seed(0)
    return VIT.build().eval()


@pytest.fixture
def source(network, tmp_path):
    Learngene("ancestor", VIT, network.state_dict()).save(tmp_path / f"a{SUFFIX}")
    return tmp_path / f"a{SUFFIX}"


def scores_of(network, images=IMAGES):
    return score(network, VIT, images, torch.Generator().manual_seed(0))


def test_scores_can_be_repeated_a_share_of_all_goes_and_a_part_of_each_layer_stays(network):
    first, _, second = scores_of(network), network(IMAGES), scores_of(network)
    assert all(torch.equal(values, second[key]) for key, values in first.items())
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


def test_a_start_has_the_heads_and_neurons_with_the_largest_scores(network, source, tmp_path, monkeypatch):
    monkeypatch.setattr("lgx.methods.snapvit.initializer.EVALUATIONS", 20)
    photos = write_images(tmp_path / "photos", {"train": 3})
    start = SnapViT(str(source), str(photos), images=3)
    tensors = start(VIT.replace(num_heads=2, embed_dim=8, depth=2))
    values = start.ranked.elements["hidden", f"blocks.{start.layers(2)[0]}.mlp"]
    kept = sorted(values.argsort(descending=True)[:32].tolist())
    stream = sorted(start.ranked.elements["embed", ""].argsort(descending=True)[:8].tolist())
    expected = network.state_dict()[f"blocks.{start.layers(2)[0]}.mlp.fc1.weight"][kept][:, stream]
    assert torch.equal(tensors["blocks.0.mlp.fc1.weight"], expected)
    assert start.ranked.layers.sum() == pytest.approx(2 * VIT.depth)  # means of 1, of the MLPs and of the attentions
    assert start.layers(2) == sorted(start.ranked.layers.argsort(descending=True)[:2].tolist())


@pytest.mark.parametrize("family", ["plain", "eva02"])  # fused parts, and matrices of their own
def test_scores_are_mean_squared_gradients_of_the_papers_loss(family, monkeypatch):
    network, shown = tiny(family).build().eval(), torch.randn(2, 4, 3, 16, 16)
    remaining = iter(shown)
    monkeypatch.setattr("lgx.methods.snapvit.initializer._views", lambda image, generator: next(remaining))
    found, squares = score(network, tiny(family), IMAGES[:2], torch.Generator()), {}
    for views in shown:
        network.zero_grad()
        outputs = [z / z.norm() for z in network.forward_head(network.forward_features(views), pre_logits=True)]
        pairs = [(g, v) for g in (0, 1) for v in range(4) if g != v]
        sum(-(outputs[g].detach().softmax(0) * outputs[v].softmax(0).log()).sum() for g, v in pairs).backward()
        for name, parameter in network.named_parameters():
            squares[name] = squares.get(name, 0) + parameter.grad.square() / 2 if parameter.grad is not None else 0
    read = [name for name in squares if re.fullmatch(r"blocks\..*(fc1|fc1_[gx]|qkv|[qkv]_proj)\.weight", name)]
    for key in (("hidden", "blocks.1.mlp"), ("heads", "blocks.0.attn")):
        rows = sum(squares[name][-len(found[key].flatten()) :].mean(1) for name in read if name.startswith(key[1]))
        torch.testing.assert_close(found[key].flatten(), rows)  # of fused heads the values, which are the last rows
    torch.testing.assert_close(found[STREAM][:, 0], sum(squares[name].mean(0) for name in read))


def test_views_show_the_drawn_share_of_an_image_at_the_drawn_place(monkeypatch):
    image = torch.stack(torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij"))  # row and column
    for place, wide, narrow in ((0.0, 6.0, 2.5), (1 - 1e-7, 9.0, 12.5)):  # 13 and 6 of 16 rows
        drawn = torch.tensor([0.5, place, place])
        monkeypatch.setattr("lgx.methods.snapvit.initializer.torch.rand", lambda *_, drawn=drawn, **__: drawn)
        views = _views(image, torch.Generator())
        assert views.shape == (12, 2, 16, 16)
        torch.testing.assert_close(views.mean((2, 3)), torch.tensor([[wide] * 2] * 2 + [[narrow] * 2] * 10))


def test_the_search_compares_features_and_starts_with_falling_factors(network, source, tmp_path, monkeypatch):
    values, photos = [], write_images(tmp_path / "photos", {"train": 5})

    def first(value, start, evaluations, generator):
        values.append(value(start))
        return start

    monkeypatch.setattr("lgx.methods.snapvit.initializer.maximize", first)
    start = SnapViT(str(source), str(photos), images=5)
    images, ranked, scores = start.sample, start.ranked, {}
    for kind in ("hidden", "heads"):
        of_kind = [(key, found) for key, found in scores_of(network, images).items() if key[0] == kind]
        scores |= {key: found * factor for (key, found), factor in zip(of_kind, (1.2, 1.0, 0.8), strict=True)}
    for key, expected in scores.items():
        torch.testing.assert_close(ranked.elements[key], expected.flatten())
    whole, likeness = features(network, images).detach(), 0.0
    axes = torch.linalg.svd(whole - whole.mean(0), full_matrices=False).Vh.T  # principal components
    for neurons, heads in ((0.25, 0.1), (0.45, 0.3), (0.65, 0.5)):
        with without(network, VIT, kept_of(scores, "hidden", neurons, 0.2) | kept_of(scores, "heads", heads, 0.2)):
            both = [(found - whole.mean(0)) @ axes for found in (features(network, images).detach(), whole)]
        likeness += torch.cosine_similarity(*both).mean().item()
    assert values == pytest.approx([likeness], rel=1e-4)


def test_the_search_is_algorithm_1_of_its_paper():
    """Glasmachers et al., 2010, with columns: x = m + s B z, and B becomes B exp(M / 2)."""
    scale, tried = torch.tensor([[1.0, 0.6, 0], [0, 5, 1.5], [0, 0, 2]]).double(), []

    def value(x):
        return -float(((x - 1.2) @ scale).square().sum())

    found = maximize(lambda x: tried.append(x) or value(x), torch.ones(3), 1 + 7 * 12, torch.Generator().manual_seed(5))
    assert len(tried) == 1 + 7 * 12
    maximize(lambda x: tried.append(x) or value(x), torch.ones(3), 7, torch.Generator())
    assert len(tried) == 1 + 7 * 12 + 1  # 7 more evaluations would be too many
    random, n, draws = torch.Generator().manual_seed(5), 3, 7
    logs = [max(0.0, math.log(draws / 2 + 1) - math.log(k)) for k in range(1, draws + 1)]
    utilities, rate = [u / sum(logs) - 1 / draws for u in logs], 0.6 * (3 + math.log(n)) / (n * math.sqrt(n))
    m, s, b = torch.ones(3).double(), 0.1, torch.eye(3).double()
    seen = [m]
    for _ in range(12):
        z = torch.randn(draws, n, dtype=torch.float64, generator=random)
        points = [m + s * b @ each for each in z]
        order = sorted(range(draws), key=lambda k: -value(points[k]))
        step = sum(u * z[k] for u, k in zip(utilities, order, strict=True))
        spread = sum(u * (torch.outer(z[k], z[k]) - torch.eye(n)) for u, k in zip(utilities, order, strict=True))
        m, wider = m + s * b @ step, spread.trace() / n
        s, b = s * math.exp(rate / 2 * wider), b @ torch.matrix_exp(rate / 2 * (spread - wider * torch.eye(n)))
        seen += points
    torch.testing.assert_close(found, max(seen, key=value))

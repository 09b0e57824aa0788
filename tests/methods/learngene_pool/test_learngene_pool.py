"""Learngene Pool: instances that learn from the ancestor's tensors, and networks stitched from two of them."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.components.teacher import Teacher
from lgx.core.batch import Batch
from lgx.core.rows import read_rows
from lgx.core.task import Task
from lgx.initialization.sizing import parse_budgets
from lgx.methods.learngene_pool.initializer import PoolMembers
from lgx.methods.learngene_pool.method import LearngenePool
from lgx.methods.learngene_pool.pool import (
    PoolNetwork,
    instances_of,
    least_squares_stitches,
    members,
    places,
    with_stitches,
)
from tests.support.command_line import arguments, lgx, ok

WHOLE = ViTArchitecture(4, 16, 2, patch_size=4, img_size=16, num_classes=3)
IMAGES = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
RATE = partial(torch.optim.AdamW, lr=1e-3)


def test_six_layers_have_the_eighteen_networks_of_the_released_code():
    released = [
        (0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0), (1, 2, 1), (2, 1, 1), (2, 2, 1), (2, 3, 2), (3, 2, 2), (3, 3, 2),
        (3, 4, 3), (4, 3, 3), (4, 4, 3), (4, 5, 4), (5, 4, 4), (5, 5, 4),
    ]  # fmt: skip
    pair = instances_of(WHOLE.replace(depth=12), 8, 6)
    listed = members(pair)
    assert [each.number for each in listed] == list(range(18))
    assert [each.place for each in listed] == [None, None, *released]  # its numbers 0, 2 and 19 to 34
    assert [each.name for each in listed[:4]] == ["6x8", "6x16", "stitch2_1x8_6x16", "stitch3_1x8_5x16"]
    assert listed[17].name == "stitch17_6x8_1x16"
    assert len(places(9)) + 2 == 27
    assert len(PoolNetwork(pair).stitches) == 5


def test_a_stitched_network_is_the_first_blocks_of_one_a_map_and_the_last_blocks_of_the_other():
    pair = instances_of(WHOLE, 8, 3)
    pool = PoolNetwork(pair).eval()
    member = next(each for each in members(pair) if each.place == (1, 2, 1))
    narrow, wide = pool.narrow, pool.wide
    tokens = narrow.blocks[:2](narrow._pos_embed(narrow.patch_embed(IMAGES)))
    tokens = wide.blocks[2](pool.stitches[1](tokens))
    expected = wide.head(wide.norm(tokens)[:, 0])
    assert_close(pool(IMAGES, member), expected)
    alone = member.build(tensors=pool.state_dict()).eval()
    assert_close(alone(IMAGES), expected)
    assert sum(p.numel() for p in alone.parameters()) == member.count_parameters()
    counted = [pair[0].replace(depth=2).count_macs(), pair[1].replace(depth=1).count_macs()]
    maps = 17 * 8 * 16  # of 16 patches and the class token
    outside = 8 * 3 + 16 * 16 * 48  # the head of the narrow instance, and the patches of the wide one
    assert member.count_macs() == sum(counted) + maps - outside


def method_of(pool: str | None = None, **options: object) -> tuple[LearngenePool, Teacher]:
    """A method without a trainer, and its teacher."""
    method = LearngenePool("ancestor", pool, arch=WHOLE.spec(), depth=3, optimizer=RATE, num_classes=3, **options)
    method.tasks = {"shapes": Task("shapes", 3, img_size=16)}
    method.task = method.tasks["shapes"]
    teacher = WHOLE.build().eval()
    method.teacher = SimpleNamespace(model=teacher, for_task=lambda task: _Callable(teacher))  # type: ignore[assignment]
    method.configure_model()
    return method, method.teacher  # type: ignore[return-value]


class _Callable:
    """A teacher without normalization."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model

    @torch.no_grad()
    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        return self.model(images)


def test_the_first_loss_is_that_of_the_formula():
    method, teacher = method_of()
    targets = torch.tensor([2, 0])
    with torch.no_grad():
        losses = method.training_losses(Batch(IMAGES, targets, "shapes"))
    expected = torch.zeros(())
    for name, compared in (("narrow", [(0, 1), (1, 2), (2, 3)]), ("wide", [(2, 3)])):
        network, maps = getattr(method.network, name), method.network.maps[name]
        ours, theirs = _tensors(network), _tensors(teacher.model)
        logits, wanted = network(IMAGES), teacher.model(IMAGES).softmax(dim=1)
        soft = -(wanted * logits.log_softmax(dim=1)).sum(dim=1).mean()
        distances = [
            ((ours[part][i] - theirs[part][j] @ linear.weight.T - linear.bias) ** 2).mean()
            for part in ("blocks", "attention")
            for (i, j), linear in zip(compared, maps[part], strict=True)
        ]
        expected = expected + 0.1 * F.cross_entropy(logits, targets) + 0.9 * (soft + sum(distances))
    assert_close(losses["loss"], expected)


def _tensors(network: torch.nn.Module) -> dict[str, list[torch.Tensor]]:
    """Outputs of all blocks, and of their attentions before the residual sum."""
    tokens = network._pos_embed(network.patch_embed(IMAGES))
    tensors: dict[str, list[torch.Tensor]] = {"blocks": [], "attention": []}
    for block in network.blocks:
        tensors["attention"].append(block.attn(block.norm1(tokens)))
        tokens = block(tokens)
        tensors["blocks"].append(tokens)
    return {name: [tensor.detach() for tensor in listed] for name, listed in tensors.items()}


def test_the_second_loss_is_that_of_the_formula_for_the_drawn_network():
    method, teacher = method_of(pool="pool")
    targets = torch.tensor([2, 0])
    method.drawn = [method.members[5]]
    with torch.no_grad():
        losses = method.training_losses(Batch(IMAGES, targets, "shapes"))
        logits, wanted = method.network(IMAGES, method.members[5]), teacher.model(IMAGES).softmax(dim=1)
    divergence = F.kl_div(logits.log_softmax(dim=1), wanted, reduction="batchmean")
    entropy = -(wanted * wanted.log()).sum(dim=1).mean()  # constant: soft cross-entropy has the gradient of the KL
    assert_close(losses["loss"], 0.5 * F.cross_entropy(logits, targets) + 0.5 * (divergence + entropy))


def test_a_stitch_starts_as_the_mean_of_the_maps_of_blocks_transposed():
    method, _ = method_of()
    state = method.network.state_dict()
    tensors = with_stitches(state, 3)
    maps = [state[f"maps.narrow.blocks.{k}.weight"] for k in range(3)]
    for window in range(2):
        assert_close(tensors[f"stitches.{window}.weight"], (maps[0] + maps[1] + maps[2]).T / 3)
        assert not tensors[f"stitches.{window}.bias"].any()
    assert tensors.keys() == PoolNetwork(method.pair, "meta").state_dict().keys()


def test_least_squares_maps_the_tokens_before_a_stitch_to_those_behind_it():
    pool = PoolNetwork(instances_of(WHOLE, 8, 3)).eval()
    with torch.no_grad():
        before, behind = (network._pos_embed(network.patch_embed(IMAGES)) for network in (pool.narrow, pool.wide))
        ours, theirs = [], [behind]  # outputs of narrow blocks, inputs of wide blocks
        for narrow, wide in zip(pool.narrow.blocks, pool.wide.blocks, strict=True):
            before, behind = narrow(before), wide(behind)
            ours.append(before)
            theirs.append(behind)
    stitches = least_squares_stitches(pool, IMAGES)
    for window, compared in enumerate([[(0, 0), (0, 1), (1, 0), (1, 1)], [(1, 2), (2, 1), (2, 2)]]):
        x = torch.cat([F.pad(ours[last], (0, 1), value=1.0) for last, _ in compared]).flatten(0, 1)
        y = torch.cat([theirs[first] for _, first in compared]).flatten(0, 1)
        wanted = torch.linalg.lstsq(x, y).solution
        assert_close(stitches[f"stitches.{window}.weight"], wanted[:-1].T, atol=1e-4, rtol=1e-3)
        assert_close(stitches[f"stitches.{window}.bias"], wanted[-1], atol=1e-4, rtol=1e-3)


@pytest.fixture(scope="module")
def stages(images, ancestor, tmp_path_factory):
    """Folders of the runs of both stages."""
    runs = tmp_path_factory.mktemp("pool")
    teacher = f"--model.ancestor={ancestor}/final{SUFFIX}"
    ok(lgx(*arguments("fit", "LearngenePool", images, runs, teacher, "--name=one")))
    first = runs / "test/one/seed0"
    ok(lgx(*arguments("fit", "LearngenePool", images, runs, teacher, f"--model.pool={first}", "--name=two")))
    return first, runs / "test/two/seed0"


def test_both_stages_train_and_measure_all_their_networks(stages):
    names = [{row.architecture for row in read_rows(stage / "results.csv")} for stage in stages]
    assert names[0] == {"2x8", "2x16"}
    assert names[1] == names[0] | {"stitch2_1x8_2x16", "stitch3_1x8_1x16", "stitch4_2x8_2x16", "stitch5_2x8_1x16"}
    started, trained = (Learngene.load(stage / f"final{SUFFIX}").tensors for stage in stages)
    assert started.keys() == trained.keys()
    assert all(not torch.equal(started[name], trained[name]) for name in started if name.endswith("proj.weight"))
    biases = [name for name in started if name.startswith("stitches.") and name.endswith("bias")]
    assert not any(started[name].any() for name in biases)
    assert all(trained[name].any() for name in biases)


def test_stitches_of_a_run_start_by_least_squares(stages, images, ancestor, tmp_path):
    options = [f"--model.ancestor={ancestor}/final{SUFFIX}", "--model.stitch_start=least_squares", "--name=fitted"]
    refused = lgx(*arguments("fit", "LearngenePool", images, tmp_path, *options))
    assert "least_squares is for the second stage" in refused.sentence
    short = [f"--model.pool={stages[0]}", "--trainer.max_steps=1", "--model.optimizer.lr=0"]
    ok(lgx(*arguments("fit", "LearngenePool", images, tmp_path, *options), *short))
    started, fitted = (
        Learngene.load(folder / f"final{SUFFIX}").tensors for folder in (stages[0], tmp_path / "test/fitted/seed0")
    )
    differing = {name.partition(".")[0] for name in started if not torch.equal(started[name], fitted[name])}
    assert differing == {"stitches"}


@pytest.mark.parametrize("suffix", ["", ".pt2", ".onnx"])
def test_a_stitched_network_is_written_finished(stages, tmp_path, suffix):
    if suffix == ".onnx":
        pytest.importorskip("onnxruntime")
    out = tmp_path / f"small{suffix}"
    done = ok(lgx("init", "--source", stages[1], "--stitch", 3, "--out", out))
    assert "stitch3_1x8_1x16 has blocks of two widths, and is no plain ViT of timm" in done.out
    member = members(instances_of(WHOLE, 8, 2))[3]
    wanted = member.build(tensors=Learngene.load(stages[1] / f"final{SUFFIX}").tensors).eval()(IMAGES)
    if suffix == ".onnx":
        assert "logits differ by at most" in done.out
        return
    if not suffix:
        assert "is no plain ViT of timm" in (out / "README.md").read_text()
        out = out / "model.pt2"
    assert_close(torch.export.load(out).module()(IMAGES), wanted, atol=1e-5, rtol=1e-4)


def test_a_budget_chooses_the_largest_network_and_an_instance_is_a_plain_start(stages, fit, tmp_path):
    start = PoolMembers(str(stages[1] / f"final{SUFFIX}"))
    listed = members(start.loaded[1])
    sizes = sorted(each.count_parameters() for each in listed)
    chosen = start.finished(None, parse_budgets(params=str(sizes[3])))
    assert sum(p.numel() for p in chosen.model.parameters()) == sizes[3]
    ok(lgx("init", "--source", stages[1], "--stitch", 1, "--out", tmp_path / "wide"))
    assert load_pretrained(str(tmp_path / "wide")).architecture == listed[1].instance
    options = "--model.initializer=PoolMembers", f"--model.initializer.source={start.source}"
    ok(fit("Finetune", "--model.arch=depth=2,embed_dim=8,num_heads=1,patch_size=4,img_size=16", *options))


@pytest.mark.parametrize(("options", "words"), [
    (["--stitch", 6], "the pool has the networks 0 to 5"), (["--params", 10], "the smallest network of the pool takes"),
    (["--stitch", 2, "--params", "1M"], "give one of them"), (["--stitch", 2, "--head", "3"], "leave them out"),
    (["--arch", "depth=3"], "its instances are 2x8 and 2x16"),
])  # fmt: skip
def test_wrong_choices_are_refused(stages, tmp_path, options, words):
    done = lgx("init", "--source", stages[1], *options, "--out", tmp_path / "x")
    assert (done.code, words in done.sentence) == (2, True), done.sentence
    assert not (tmp_path / "x").exists()

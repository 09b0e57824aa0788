"""LeTs: a narrow learngene whose matrices add neurons and layers."""

import pytest
import torch

from lgx.architectures import parse_architecture
from lgx.artifacts.learngene import Learngene
from lgx.core.rows import read_rows
from lgx.methods.layer_choice.initializer import even_layers
from lgx.methods.lets.initializer import LearnedTransformation, expand, random_matrices
from tests.support.command_line import arguments, lgx, ok

WHOLE = "depth=4,embed_dim=32,num_heads=4,patch_size=4,img_size=16"
OPTIONS = ["--model.narrow_heads=2", "--model.narrow_depth=2", f"--model.arch={WHOLE}", "--name=lets", "--test_end"]


@pytest.fixture(scope="module")
def run(images, ancestor, tmp_path_factory):
    """The folder of a training, guided by an ancestor's predictions."""
    runs = tmp_path_factory.mktemp("lets")
    guided = f"--model.ancestor={ancestor}/final.learngene.safetensors"
    ok(lgx(*arguments("fit", "LeTs", images, runs, *OPTIONS, guided)))
    return runs / "test/lets/seed0"


def test_a_descendant_of_the_whole_size_is_the_auxiliary_net(run, images):
    start = LearnedTransformation(str(run / "final.learngene.safetensors"))
    assert (start.whole.depth, start.whole.embed_dim, start.whole.num_heads) == (4, 32, 4)
    assert start.loaded.num_layers == 2
    options = ["--model.initializer=LearnedTransformation", f"--model.initializer.source={start.source}"]
    test = arguments("test", "Finetune", images, run.parents[2], f"--model.arch={WHOLE}", *options, "--name=d")
    ok(lgx(*test, "--untrained"))
    scores = [
        {row.metric: row.value for row in read_rows(folder / "results.csv") if row.split == "test"}
        for folder in (run, run.parents[1] / "d/seed0")
    ]
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)


@pytest.mark.parametrize(("depth", "heads"), [(4, 4), (3, 3), (1, 2), (2, 2)])
def test_every_size_between_is_made_of_parts_of_the_matrices(run, depth, heads):
    start = LearnedTransformation(str(run / "final.learngene.safetensors"))
    size = parse_architecture(WHOLE, num_classes=3).replace(depth=depth, embed_dim=8 * heads, num_heads=heads)
    tensors, wide = start(size), start(size.replace(depth=4, embed_dim=32, num_heads=4))
    assert {k: v.shape for k, v in tensors.items()} == {k: v.shape for k, v in size.build("meta").state_dict().items()}
    narrow = start.loaded.tensors
    torch.testing.assert_close(tensors["patch_embed.proj.weight"][:16], narrow["patch_embed.proj.weight"])
    last = even_layers(4, depth)[-1]
    ours, theirs = tensors[f"blocks.{depth - 1}.mlp.fc1.weight"], wide[f"blocks.{last}.mlp.fc1.weight"]
    torch.testing.assert_close(ours[:64, : 8 * heads], theirs[:64, : 8 * heads])


@pytest.mark.parametrize("change", [{"depth": 5}, {"embed_dim": 40, "num_heads": 5}, {"embed_dim": 8, "num_heads": 1},
                                    {"num_heads": 2}, {"mlp_ratio": 2}])  # fmt: skip
def test_other_sizes_are_refused(run, tmp_path, change):
    size = ",".join(f"{k}={v}" for k, v in {"depth": 4, "embed_dim": 32, "num_heads": 4, **change}.items())
    source = run / "final.learngene.safetensors"
    done = lgx("init", "--source", source, "--arch", f"{size},patch_size=4,img_size=16", "--out", tmp_path / "x")
    assert (done.code, "Traceback" in done.err) == (2, False)
    assert not (tmp_path / "x").exists()


def test_gradients_reach_all_matrices_and_both_layers(run):
    learngene = Learngene.load(run / "final.learngene.safetensors")
    whole = LearnedTransformation(str(run / "final.learngene.safetensors")).whole
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in learngene.tensors.items()}
    made = expand(leaves, learngene.architecture, whole, whole.depth)
    sum(tensor.square().sum() for tensor in made.values()).backward()
    assert [name for name, leaf in leaves.items() if leaf.grad is None or not leaf.grad.any()] == []


def test_matrices_start_with_rows_that_sum_to_1_and_layers_as_one_of_two():
    whole = parse_architecture(WHOLE, num_classes=3)
    found = random_matrices(whole.replace(depth=2, embed_dim=16, num_heads=2), whole, noise=0.0)
    assert {"queries", "keys", "values"} <= {name.rpartition(".")[2] for name in found}
    for name, matrix in found.items():
        if "mix." in name:
            chosen = int(name.split("mix.")[1][0]) % 2
            assert torch.equal(matrix, torch.eye(2)[chosen][:, None].expand_as(matrix))
        else:
            assert matrix.shape == ((64, 64) if name.endswith("hidden") else (16, 16))
            torch.testing.assert_close(matrix.sum(1), torch.ones(len(matrix)))
    noisy = random_matrices(whole.replace(depth=2, embed_dim=16, num_heads=2), whole, noise=0.5)
    mixes = [mix for name, mix in noisy.items() if "mix." in name]
    assert all((mix.sum(0) - 1).abs().max() < 1e-6 for mix in mixes)
    assert all(0 < mix.min() <= 0.5 / 1.5 for mix in mixes)


def test_layers_are_mixes_of_two_layers_of_the_learngene():
    narrow = parse_architecture(WHOLE, num_classes=3).replace(depth=2, embed_dim=16, num_heads=2)
    tensors = {name: torch.randn(t.shape) for name, t in narrow.build().state_dict().items()}
    matrices = {k: torch.randn(m.shape) for k, m in random_matrices(narrow, narrow.replace(depth=4)).items()}
    found = expand(tensors | matrices, narrow, narrow.replace(depth=4), 4)
    for layer in range(4):
        for part, parts in (("attn.qkv.weight", 3), ("mlp.fc2.bias", 1)):
            pair = f"mix.{layer // 2}.{part}"  # a pair of layers has one
            mix = next(m for k, m in matrices.items() if k.endswith(pair))
            both = [tensors[f"blocks.{j}.{part}"].chunk(parts) for j in (0, 1)]
            expected = torch.cat([mix[0, p] * both[0][p] + mix[1, p] * both[1][p] for p in range(parts)])
            torch.testing.assert_close(found[f"blocks.{layer}.{part}"], expected)

"""Mini-DeiT: shared weights, transformations per layer, and descendants."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from lgx.architectures import NAMES, ViTArchitecture
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.initialization import initialize
from lgx.methods import StagewiseExpansion
from lgx.methods.initializers import initializer_for
from lgx.methods.mini_deit.method import MiniDeiT, MultiplexedAttention, MultiplexedMlp
from tests.support.command_line import ARCH, lgx, ok

AUX = ViTArchitecture(4, 24, 3, patch_size=4, img_size=16, num_classes=5, stages=(2, 2))


def multiplexed(architecture: ViTArchitecture, device: str = "cpu") -> nn.Module:
    """The network that the method trains."""
    method = MiniDeiT(
        stages=architecture.stages, arch=architecture.spec(), num_classes=architecture.num_classes,
        optimizer=torch.optim.AdamW,
    )  # fmt: skip
    with torch.device(device):
        return method.build_network()


@pytest.fixture
def network():
    torch.manual_seed(0)
    return multiplexed(AUX)


@pytest.fixture
def batch():
    return torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def test_aux_b_has_the_parameters_of_the_papers_mini_deit():
    base = NAMES["12-Base"].replace(stages=(2,) * 6)
    parameters = sum(p.numel() for p in multiplexed(base, "meta").parameters())
    assert round(parameters / 1e6, 1) == 44.1  # SWS, Table 5; 44.0 without the transformations
    own = 12 * (9 * 768 + 2 * 12 * 12) + 6 * 4 * 768  # transformations of all layers, norms of the second ones
    assert parameters - base.count_parameters() == own


def test_heads_are_mixed_before_and_after_the_softmax_as_in_a_loop(network):
    torch.manual_seed(2)
    attention, x = network.blocks[0].attn, torch.randn(2, 5, 24)
    nn.init.normal_(attention.before)
    nn.init.normal_(attention.after)
    q, k, v = attention.qkv(x).reshape(2, 5, 3, 3, 8).permute(2, 0, 3, 1, 4)
    logits = [q[:, h] @ k[:, h].transpose(1, 2) / 8**0.5 for h in range(3)]
    mixed = [logits[o] + sum(attention.before[o, h] * logits[h] for h in range(3)) for o in range(3)]
    shares = [m.softmax(-1) for m in mixed]
    heads = [(shares[o] + sum(attention.after[o, h] * shares[h] for h in range(3))) @ v[:, o] for o in range(3)]
    assert isinstance(attention, MultiplexedAttention)
    assert_close(attention(x), attention.proj(torch.cat(heads, dim=-1)))


def test_the_convolution_sees_neighbors_of_one_channel_and_no_class_token(network):
    mlp = network.blocks[0].mlp
    assert isinstance(mlp, MultiplexedMlp)
    before = mlp.fc1.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    seen: list[torch.Tensor] = []
    mlp.local.weight.data[7, 0, 1, 2] = 2.0  # channel 7: twice the right neighbor
    x = torch.zeros(1, 17, 24)
    x[0, 0, 7], x[0, 1 + 4 * 1 + 2, 7], x[0, 1 + 4 * 1 + 2, 8] = 5.0, 1.0, 1.0
    mlp(x)
    before.remove()
    difference = seen[0] - x
    assert difference.nonzero().tolist() == [[0, 1 + 4 * 1 + 1, 7]]
    assert difference.max() == 2.0


def test_every_parameter_gets_a_gradient(network, batch):
    network(batch).square().sum().backward()
    without = [name for name, p in network.named_parameters() if not p.grad.abs().sum() > 0]
    assert without == ["blocks.3.mlp.local.weight"]  # the image tokens of the last layer are unused


def test_a_run_leaves_a_learngene_of_plain_layers(fit, ancestor, tmp_path):
    teacher = f"--model.ancestor={ancestor}/final.learngene.safetensors"
    ok(fit("MiniDeiT", "--name=m", teacher, "--model.stages=[2,2]", "--trainer.max_epochs=2"))
    run = tmp_path / "runs/test/m/seed0"
    path = str(run / "final.learngene.safetensors")
    learngene, state = Learngene.load(path), load_checkpoint(run / "checkpoints/best.ckpt")["state_dict"]
    assert (learngene.method, learngene.num_layers, learngene.architecture.stages) == ("mini_deit", 2, (2, 2))
    assert torch.equal(learngene.tensors["blocks.1.norm1.weight"], state["network.blocks.2.norm1.weight"])
    assert state["network.blocks.3.attn.before"].abs().sum() > 0
    six = learngene.architecture.replace(depth=6, stages=None)
    start = initialize(six, initializer_for(path))
    assert isinstance(initializer_for(path), StagewiseExpansion)
    assert (start.random, initializer_for(path).method) == ((), "mini_deit")
    ok(lgx("test", "--config", run / "config.yaml", "--ckpt_path", "best"))
    assert ARCH.replace("depth=4", "depth=6") == six.spec()

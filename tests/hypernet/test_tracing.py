"""Tracing gives the computational graph of a model, or names the parameters that it does not support."""

from collections import Counter

import pytest
import timm
import torch
from torch import nn

from lgx.architectures import ViTArchitecture, parse_architecture
from lgx.architectures.library_models import LibraryModel
from lgx.errors import UserError
from lgx.hypernet import computational_graph, trace
from lgx.hypernet.graph import PRIMITIVES

VIT = "depth=3,embed_dim=24,num_heads=3,patch_size=4,img_size=16"


def of(model: nn.Module, size: int = 64):
    return trace(model, (3, size, size))


def on_meta(zoo: str, name: str) -> nn.Module:
    return LibraryModel(zoo, name, num_classes=7).build("meta")


def count_ops(graph) -> Counter[str]:
    return Counter(PRIMITIVES[op] for op in graph.ops)


def before(graph, index: int) -> list[str]:
    """The parameters, or else the operations, of the nodes with an edge to a node."""
    return [graph.nodes[i].parameter or graph.nodes[i].op for i in (graph.distances[:, index] == 1).nonzero().flatten()]


def index_of(graph, parameter: str) -> int:
    return next(i for i, node in enumerate(graph.nodes) if node.parameter == parameter)


@pytest.mark.parametrize("convention", ["msa", "plain"])
@pytest.mark.parametrize("fused", [True, False])
def test_a_traced_vit_has_the_graph_of_its_architecture(convention, fused):
    architecture = parse_architecture(VIT, num_classes=7)
    model = architecture.build("meta")
    for block in model.blocks:
        block.attn.fused_attn = fused
    traced, analytic = trace(model, (3, 16, 16), convention), computational_graph(architecture, convention)
    assert traced.nodes == analytic.nodes
    assert torch.equal(traced.distances, analytic.distances)


MODELS = [
    ("timm", "resnet34"), ("torchvision", "resnet18"), ("timm", "resnet10t"), ("timm", "mobilenetv3_small_050"),
    ("torchvision", "squeezenet1_1"), ("torchvision", "vit_b_32"), ("timm", "vovnet39a"),
]  # fmt: skip
FAST = [("torchvision", "resnet18"), ("timm", "mobilenetv3_small_050"), ("torchvision", "vit_b_32")]


@pytest.mark.parametrize(
    ("zoo", "name"),
    [model if model in FAST else pytest.param(*model, marks=pytest.mark.slow) for model in MODELS],
    ids=[name for _, name in MODELS],
)
def test_every_parameter_has_one_node_with_its_shape(zoo, name):
    model = on_meta(zoo, name)
    graph = of(model, 224 if "vit" in name else 64)
    shapes = {name: p.shape for name, p in model.named_parameters()}
    names = [node.parameter for node in graph.nodes if node.parameter]
    norm_biases = [node.parameter.replace("weight", "bias") for node in graph.nodes if node.op in ("bn", "ln")]
    assert sorted([*names, *norm_biases]) == sorted(shapes.keys() - {"class_token"})
    for node in graph.nodes:
        if node.parameter and node.op != "pos_enc":
            assert shapes[node.parameter][: len(node.shape)] == node.shape
    assert [node.shape[0] for node in graph.nodes if node.head] == [7, 7]
    assert graph.nodes[0].op == "input"
    assert (graph.distances[0, 1:] > 0).sum() >= len(graph.nodes) - 2  # all but a position embedding
    assert torch.equal(graph.distances, graph.distances.triu(1))


def test_residual_branches_meet_in_a_sum():
    graph = of(on_meta("torchvision", "resnet18"))
    assert count_ops(graph) == {"input": 1, "conv": 21, "bn": 20, "max_pool": 1, "sum": 8, "glob_avg": 1, "bias": 1}
    sums = [before(graph, i) for i, node in enumerate(graph.nodes) if node.op == "sum"]
    assert sums[:3] == [
        ["max_pool", "layer1.0.bn2.weight"],
        ["sum", "layer1.1.bn2.weight"],
        ["layer2.0.bn2.weight", "layer2.0.downsample.1.weight"],
    ]
    assert before(graph, index_of(graph, "fc.weight")) == ["glob_avg"]


def test_grouped_convolutions_and_gates_have_operations_of_their_own():
    model = on_meta("timm", "mobilenetv3_small_050")
    graph = of(model)
    grouped = [m for m in model.modules() if isinstance(m, nn.Conv2d) and m.groups > 1]
    gates = [name for name, m in model.named_modules() if type(m).__name__ == "SqueezeExcite"]
    count = count_ops(graph)
    assert (count["sep_conv"], count["cse"]) == (len(grouped), len(gates))
    gate = next(i for i, node in enumerate(graph.nodes) if node.op == "cse")
    assert before(graph, gate) == ["blocks.0.0.bn1.weight", f"{gates[0]}.conv_expand.bias"]
    atrous = nn.Sequential(nn.Conv2d(3, 3, 3, dilation=2, groups=3), nn.Conv2d(3, 3, 3, dilation=2), nn.Conv2d(3, 5, 1))
    assert [PRIMITIVES[op] for op in of(atrous, 16).ops if PRIMITIVES[op] != "bias"] == [
        "input", "dil_conv", "conv", "conv",
    ]  # fmt: skip


@pytest.mark.slow
def test_dense_connections_are_concatenations():
    graph = of(on_meta("timm", "densenet121"))
    first = "features.denseblock1.denselayer"
    third = before(graph, index_of(graph, f"{first}3.norm1.weight"))
    assert third == ["concat"]
    meeting = next(i for i in range(len(graph.nodes)) if len(before(graph, i)) == 3)
    assert before(graph, meeting) == ["max_pool", f"{first}1.conv2.weight", f"{first}2.conv2.weight"]


def test_tracing_does_not_change_the_model():
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4).eval(), nn.Flatten(), nn.Linear(1024, 2))
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    of(model, 16)
    assert [module.training for module in model] == [True, False, True, True]
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())


class Case(nn.Module):
    """Two convolutions, a free parameter, and a given forward pass."""

    def __init__(self, forward, shape: tuple[int, ...] = (4, 1, 1)) -> None:
        super().__init__()
        self.a, self.b, self.run = nn.Conv2d(3, 4, 1, bias=False), nn.Conv2d(4, 4, 1, bias=False), forward
        if shape:
            self.free = nn.Parameter(torch.zeros(shape))
        self.register_buffer("constant", torch.ones(4, 1, 1))

    def forward(self, x):
        return self.run(self, x)


def write_into_a_view(m, x):
    x = m.a(x)
    x[:, :2] = m.b(x)[:, :2]
    return x.relu()


def add_in_place(m, x):
    x = m.a(x)
    x.add_(m.b(x))
    return x.relu()


KEPT = {
    "constants neither add nor gate": (lambda m, x: m.b(m.a(x) * m.constant + m.constant.exp() + 1), []),
    "a product of branches is a gate": (lambda m, x: (y := m.a(x)) * m.b(y), ["cse"]),
    "every implementation of swish is an activation": (lambda m, x: m.b((y := m.a(x)) * y.sigmoid()), []),
    "in place": (add_in_place, ["sum"]),
}


@pytest.mark.parametrize("case", KEPT)
def test_only_operations_that_join_branches_get_nodes(case):
    forward, expected = KEPT[case]
    graph = of(Case(forward, ()), 8)
    assert [node.op for node in graph.nodes] == ["input", "conv", "conv", *expected]
    assert graph.distances[1, 2] == 1


def test_edges_follow_writes_into_a_view():
    graph = of(nn.Sequential(Case(write_into_a_view, ()), nn.Conv2d(4, 2, 1, bias=False)), 8)
    assert before(graph, index_of(graph, "1.weight")) == ["0.a.weight", "0.b.weight"]


def test_only_a_token_before_all_others_is_a_class_token():
    def case(order):
        return Case(lambda m, x: torch.cat([m.free, m.b(m.a(x)).flatten(2)][::order], dim=1), (1, 1, 64))

    assert [node.parameter for node in of(case(1), 8).nodes] == [None, "a.weight", "b.weight"]
    with pytest.raises(UserError, match=r"free \(cat\)"):
        of(case(-1), 8)


REFUSED = {
    "scale": (lambda m, x: m.b(m.a(x)) * m.free, r"free \(mul\)"),
    "shift": (lambda m, x: m.b(m.a(x)) + m.free, r"free \(add\)"),
    "prompt": (lambda m, x: torch.cat([m.b(m.a(x)), m.free.expand(1, 4, 8, 8)]), r"free \(cat\)"),
    "unused": (lambda m, x: m.b(m.a(x)), r"free \(unused in the forward pass\)"),
    "scaled weight": (
        lambda m, x: nn.functional.conv2d(m.a(x), m.b.weight * m.free.view(4, 1, 1, 1)),
        r"b\.weight \(conv2d with a computed tensor\), free \(conv2d with a computed tensor\)",
    ),
    "twice": (lambda m, x: m.b(m.b(m.a(x) * m.free)), r"b\.weight \(conv2d, used twice\)"),
    "data": (lambda m, x: m.b(m.a(x)) if x.sum() > 0 else m.a(x), "depend on the image's values"),
    "failure": (lambda m, x: m.b(x), "at 3x8x8: .*channels"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_unsupported_operations_are_named(case, capfd, caplog):
    forward, message = REFUSED[case]
    with pytest.raises(UserError, match=f"(?s)Case: cannot be traced.*{message}") as caught:
        of(Case(forward), 8)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.records if record.levelname != "DEBUG"] == []


def of_timm(name, **options):
    return lambda: timm.create_model(name, **options), 224


UNTRACEABLE = {
    "scales": (*of_timm("convnext_atto"), r"stages\.0\.blocks\.0\.gamma \(mul\).* and 9 more"),
    "group norm": (*of_timm("resnet50_gn"), r"bn1\.weight \(group_norm\), bn1\.bias \(group_norm\)"),
    "tables": (*of_timm("swin_tiny_patch4_window7_224", depths=(1, 1, 1, 1)), r"relative_position_bias_table \(\w+\)"),
    "norm over several dimensions": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.LayerNorm([4, 8, 8]), nn.Flatten(), nn.Linear(256, 3)),
        8,
        r"1\.weight \(ln over several dimensions\), 1\.bias",
    ),
    "shared weights": (
        lambda: ViTArchitecture(4, 24, 3, img_size=16, patch_size=4, stages=(2, 2)).build(),
        16,
        r"several layers share blocks\.1\.norm1\.weight",
    ),
}


@pytest.mark.parametrize("case", UNTRACEABLE)
def test_models_with_other_parameters_are_refused(case):
    make, size, message = UNTRACEABLE[case]
    with torch.device("meta"):
        model = make()
    with pytest.raises(UserError, match=message):
        of(model, size)

"""The computational graph of any image model, read off what ``torch.export`` records of a forward pass.

What GHN-3's tracer (Knyazev et al., 2023) calls which word is kept: every weight matrix is a ``conv``, a grouped one
``sep_conv``, a grouped and dilated one ``dil_conv``; means over positions and adaptive average pools are ``glob_avg``;
the product of two tensors is ``cse``, squeeze-and-excite's gate. Unlike there, attention is one ``msa`` node however it
is computed, and an addition or product with a constant is none. A norm's bias has no node of its own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any

import torch
from torch import fx, nn

from lgx.errors import UserError
from lgx.hypernet.graph import Convention, Graph, Node, shortest_paths
from lgx.hypernet.recording import record

TRACEABLE = "convolutions, linear layers, batch and layer norms, position embeddings and class tokens"
_POOLS = {
    "max_pool": "max_pool",
    "adaptive_max_pool": "max_pool",
    "avg_pool": "avg_pool",
    "adaptive_avg_pool": "glob_avg",
}


def trace(
    model: nn.Module,
    image: tuple[int, int, int],
    convention: Convention = "msa",
    name: str | None = None,
    cutoff: int = 50,
) -> Graph:
    """The graph of a model, in eval mode.

    Operations without a word and without a parameter (activations, reshapes, dropout, ...) are left out and their edges
    bridged. Class tokens get no node. The head is the last linear layer or 1 x 1 convolution.

    Args:
        model: Takes images (B, C, H, W); on any device, ``meta`` included. It is not changed.
        image: (C, H, W) of its images.
        convention: ``plain`` leaves out attention nodes.
        name: What messages call the model; by default its class.
        cutoff: Longest path that gets an edge value; see :func:`~lgx.hypernet.graph.computational_graph`.

    Returns:
        The graph; every parameter but norm biases and class tokens is at one node.

    Raises:
        UserError: If the forward pass depends on data or fails, or if parameters feed operations that the vocabulary
            has no word for; the sentence names them.
    """
    name = name or type(model).__name__
    repeated = _repeated(model)
    if repeated:
        raise UserError(f"{name}: cannot be traced: several layers share {_listing(repeated)}")
    builder = _Builder(convention)
    builder.read(record(model, image, name))
    known = {node.parameter for node in builder.nodes} | builder.quiet
    unused = [p for p, _ in model.named_parameters() if p not in known and p not in builder.refused]
    builder.refused.update(dict.fromkeys(unused, "unused in the forward pass"))
    if builder.refused:
        places = _listing([f"{parameter} ({op})" for parameter, op in builder.refused.items()])
        raise UserError(
            f"{name}: cannot be traced: hypernetworks have no word for what is done with {places}; "
            f"they know {TRACEABLE}"
        )
    return Graph(tuple(_with_head(builder)), torch.from_numpy(shortest_paths(builder.predecessors, cutoff)))


@dataclass(frozen=True)
class _Value:
    """What a tensor comes from.

    Attributes:
        sources: Nodes of our graph; none for constants and what is made of parameters alone.
        parameters: Parameters that it is made of, where it has no sources.
        attention: Whether it is attention's weights.
    """

    sources: tuple[int, ...] = ()
    parameters: tuple[str, ...] = ()
    attention: bool = False


class _Builder:
    """Walks over recorded operations and collects nodes, predecessors, and parameters that have no place.

    Args:
        convention: Whether attention gets nodes.
    """

    def __init__(self, convention: Convention) -> None:
        self.convention = convention
        self.nodes: list[Node] = []
        self.predecessors: list[tuple[int, ...]] = []
        self.refused: dict[str, str] = {}
        self.quiet: set[str] = set()
        """Parameters without a node that is theirs: norm biases and class tokens."""
        self._values: dict[fx.Node, _Value] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}

    def read(self, program: torch.export.ExportedProgram) -> None:
        """Build nodes for a whole recorded forward pass."""
        parameters = program.graph_signature.inputs_to_parameters
        inputs = program.graph_signature.user_inputs
        for node in program.graph.nodes:
            if node.op == "placeholder" and node.name in parameters:
                self._shapes[parameters[node.name]] = tuple(node.meta["val"].shape)
                self._values[node] = _Value(parameters=(parameters[node.name],))
            elif node.op == "placeholder" and node.name in inputs:
                self._values[node] = self._add("input", [])
            elif node.op == "call_function":
                self._values[node] = self._operation(node)

    def _operation(self, node: fx.Node) -> _Value:
        op, arguments = _read_call(node)
        values = {k: self._values[v] for k, v in arguments.items() if isinstance(v, fx.Node) and v in self._values}
        inputs = [self._values[part] for part in node.all_input_nodes if part in self._values]
        moving, still = ([v for v in inputs if bool(v.sources) == wanted] for wanted in (True, False))
        if not moving:
            return _joined(inputs)
        if op in ("conv1d", "conv2d", "linear") and "weight" in values and values["weight"].parameters:
            return self._layer(op, arguments, values, moving)
        if op in ("batch_norm", "layer_norm", "_native_batch_norm_legit_no_training"):
            return self._norm("ln" if op == "layer_norm" else "bn", values, moving)
        if op == "add" and len(values) == 2:
            return self._sum(moving, still)
        if op in ("cat", "concat"):
            return self._concat(arguments["tensors"])
        if op == "mul" and len(moving) == 2 and moving[0].sources != moving[1].sources:
            return self._add("cse", moving)
        self._refuse(op, still)
        attends = op in ("matmul", "bmm", "einsum") and any(value.attention for value in moving)
        if (attends or op == "scaled_dot_product_attention") and self.convention == "msa":
            return self._add("msa", moving)
        pool = _POOLS.get(op.removesuffix("_with_indices").rstrip("123d"))
        if pool or (op == "mean" and _over_positions(arguments)):
            return self._add(pool or "glob_avg", moving)
        return _joined(moving, attention=op in ("softmax", "_softmax"))

    def _layer(self, op: str, arguments: dict[str, Any], values: dict[str, _Value], moving: list[_Value]) -> _Value:
        groups, dilation = arguments.get("groups", 1), arguments.get("dilation", 1)
        dilated = min(dilation if isinstance(dilation, list | tuple) else [dilation]) > 1
        word = "conv" if groups == 1 else "dil_conv" if dilated else "sep_conv"
        weight, value = self._only(op, values["weight"]), _joined(moving)
        if weight is not None:
            value = self._add(word, [value], weight, self._shapes[weight])
        bias = values.get("bias", _Value())
        if bias.parameters and (name := self._only(f"{op}'s bias", bias)):
            value = self._add("bias", [value], name, self._shapes[name])
        return value

    def _norm(self, word: str, values: dict[str, _Value], moving: list[_Value]) -> _Value:
        weight, bias = values.get("weight", _Value()), values.get("bias", _Value())
        name = self._only(word, weight) if weight.parameters else None
        stem = name.removesuffix("weight") if name else ""
        if name is None or not name.endswith(".weight") or bias.parameters not in ((), (f"{stem}bias",)):
            self._refuse(f"{word} with other names than weight and bias", [weight, bias])
            return _joined(moving)
        if len(self._shapes[name]) > 1:
            self._refuse(f"{word} over several dimensions", [weight, bias])
            return _joined(moving)
        self.quiet.update(bias.parameters)
        return self._add(word, moving, name, self._shapes[name])

    def _sum(self, moving: list[_Value], still: list[_Value]) -> _Value:
        """A ``sum``, behind a ``pos_enc`` where one of the two is a position embedding, (1, tokens, channels)."""
        parameters = [parameter for value in still for parameter in value.parameters]
        if not parameters:
            return _joined(moving) if still else self._add("sum", moving)
        shape = self._shapes[parameters[0]] if len(parameters) == 1 else ()
        tokens = shape[1] if len(shape) == 3 and shape[0] == 1 else 0
        side = isqrt(tokens)
        if tokens < 2 or tokens not in (side**2, side**2 + 1):
            self._refuse("add", still)
            return _joined(moving)
        name = self._only("add", still[0])
        return self._add("sum", [self._add("pos_enc", [], name, (1, shape[2], side, side)), *moving])

    def _concat(self, tensors: Iterable[fx.Node]) -> _Value:
        """A ``concat``, unless it but puts class tokens, (1, 1, channels), before others."""
        moving: list[_Value] = []
        for value in (self._values[tensor] for tensor in tensors if tensor in self._values):
            shapes = [self._shapes[parameter] for parameter in value.parameters]
            if value.sources:
                moving.append(value)
            elif not moving and all(len(shape) == 3 and shape[:2] == (1, 1) for shape in shapes):
                self.quiet.update(value.parameters)
            else:
                self._refuse("cat", [value])
        return self._add("concat", moving) if len(moving) > 1 else moving[0]

    def _add(
        self,
        op: str,
        before: Iterable[_Value],
        parameter: str | None = None,
        shape: tuple[int, ...] = (),
    ) -> _Value:
        # What timm and torch call queries, keys and values in one matrix.
        fused = parameter is not None and (".qkv." in parameter or ".in_proj_" in parameter)
        self.nodes.append(Node(op, parameter, shape, parts=3 if fused else 1))
        self.predecessors.append(_joined(before).sources)
        return _Value((len(self.nodes) - 1,))

    def _only(self, op: str, value: _Value) -> str | None:
        """The one parameter that a value is made of; of several, or of one that has a node, none gets a node."""
        first = value.parameters[0]
        if len(value.parameters) == 1 and all(node.parameter != first for node in self.nodes):
            return first
        self._refuse(f"{op}, used twice" if len(value.parameters) == 1 else f"{op} of a mixture", [value])
        return None

    def _refuse(self, op: str, values: Iterable[_Value]) -> None:
        for value in values:
            for parameter in value.parameters:
                self.refused.setdefault(parameter, op)


def _joined(values: Iterable[_Value], attention: bool = False) -> _Value:
    """What is made of several values by an operation that is left out."""
    values = list(values)
    return _Value(
        tuple(sorted({source for value in values for source in value.sources})),
        tuple(dict.fromkeys(parameter for value in values for parameter in value.parameters)),
        attention or any(value.attention for value in values),
    )


def _read_call(node: fx.Node) -> tuple[str, dict[str, Any]]:
    """Name of an operation without the in-place underscore, and its arguments by name."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return getattr(target, "__name__", str(target)), {}
    names = [argument.name for argument in target._schema.arguments]
    arguments = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    if "self" in arguments:
        arguments["input"] = arguments.pop("self")
    return target._schema.name.split("::")[1].rstrip("_"), arguments


def _over_positions(arguments: dict[str, Any]) -> bool:
    """Whether a mean leaves the batch and one more dimension, the channels."""
    source = arguments["input"]
    dimensions = source.meta["val"].dim()
    over = arguments.get("dim") or []
    over = {d % dimensions for d in (over if isinstance(over, list | tuple) else [over])}
    return 0 not in over and len(over) == dimensions - 2 > 0


def _with_head(builder: _Builder) -> Iterator[Node]:
    """Mark the last linear layer or 1 x 1 convolution, and its bias, as the head.

    As a head, a 1 x 1 convolution is a matrix: that is how decoders predict class weights.
    """
    nodes = builder.nodes
    weights = (n for n, node in enumerate(nodes) if node.op == "conv" and set(node.shape[2:]) <= {1})
    last = max(weights, default=None)
    for n, node in enumerate(nodes):
        if n == last:
            yield replace(node, head=True, shape=node.shape[:2])
        else:
            yield replace(node, head=node.op == "bias" and builder.predecessors[n] == (last,))


def _repeated(model: nn.Module) -> list[str]:
    once = {name for name, _ in model.named_parameters()}
    return [name for name, _ in model.named_parameters(remove_duplicate=False) if name not in once]


def _listing(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more

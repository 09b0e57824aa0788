"""Computational graphs of image models, traced from the operations that ``torch.export`` records.

Operations get the same names as in GHN-3's tracer (Knyazev et al., 2023): every weight matrix is a ``conv``, a grouped
one a ``sep_conv``, a grouped and dilated one a ``dil_conv``; means over positions and adaptive average pools are
``glob_avg``; the product of two tensors is ``cse``, the gate of squeeze-and-excite. Two rules differ from that tracer:
attention is always one ``msa`` node, no matter how the model computes it, and a sum or product with a constant is no
node. The bias of a norm has no node of its own.
"""

import logging
import operator
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, replace
from io import StringIO
from itertools import permutations
from math import isqrt
from typing import Any

import torch
from torch import fx, nn

from lgx.errors import UserError
from lgx.hypernet.graph import Convention, Graph, Node, shortest_paths

TRACEABLE = "convolutions, linear layers, batch and layer norms, position embeddings and class tokens"
_POOLS = {
    "max_pool": "max_pool",
    "adaptive_max_pool": "max_pool",
    "avg_pool": "avg_pool",
    "adaptive_avg_pool": "glob_avg",
}


def trace(
    model: nn.Module, image: tuple[int, int, int], convention: Convention = "msa", name: str | None = None
) -> Graph:
    """Trace the graph of a model in eval mode.

    Operations outside :data:`~lgx.hypernet.graph.PRIMITIVES` that have no parameter (activations, reshapes, dropout and
    others) get no node; their inputs are connected to their outputs. Class tokens get no node. The head is the last
    linear layer or 1 x 1 convolution.

    Args:
        model: Takes images (B, C, H, W); it may be on any device, ``meta`` included. It is not changed.
        image: (C, H, W) of its images.
        convention: ``msa`` gives attention a node, ``plain`` does not.
        name: The model's name for error messages; by default its class.

    Returns:
        The graph. Each parameter belongs to one node, except norm biases and class tokens, which have none.
    """
    name = name or type(model).__name__
    once = {own for own, _ in model.named_parameters()}
    if repeated := [own for own, _ in model.named_parameters(remove_duplicate=False) if own not in once]:
        raise UserError(f"{name}: cannot be traced: several layers share {_listing(repeated)}")
    builder = _Builder(convention, image)
    builder.read(_exported(model, image, name))
    known = {node.parameter for node in builder.nodes} | builder.without_node
    unused = [p for p, _ in model.named_parameters() if p not in known and p not in builder.refused]
    builder.refused.update(dict.fromkeys(unused, "unused in the forward pass"))
    if builder.refused:
        uses = _listing([f"{parameter} ({op})" for parameter, op in builder.refused.items()])
        raise UserError(f"{name}: cannot be traced: unsupported use of {uses}; supported are {TRACEABLE}")
    return Graph(tuple(_with_head(builder)), shortest_paths(builder.predecessors))


@dataclass(frozen=True)
class _Value:
    """Origin of a tensor.

    Attributes:
        sources: The graph's nodes that it is computed from; empty for constants and for functions of parameters alone.
        parameters: Parameters that it is computed from, if it has no sources.
        attention: Whether it holds attention weights.
    """

    sources: tuple[int, ...] = ()
    parameters: tuple[str, ...] = ()
    attention: bool = False


class _Builder:
    """Builds the graph from the recorded operations.

    Args:
        convention: Whether attention gets nodes.
        image: (C, H, W) of the images.

    Attributes:
        nodes: The graph's nodes.
        predecessors: For each node the nodes with an edge to it.
        refused: Parameters in unsupported operations, with the operation.
        without_node: Parameters that need no node of their own: norm biases and class tokens.
    """

    def __init__(self, convention: Convention, image: tuple[int, int, int]) -> None:
        self.convention, (_, self.height, self.width) = convention, image
        self.nodes: list[Node] = []
        self.predecessors: list[tuple[int, ...]] = []
        self.refused: dict[str, str] = {}
        self.without_node: set[str] = set()
        self._values: dict[fx.Node, _Value] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}

    def read(self, program: torch.export.ExportedProgram) -> None:
        """Add the nodes of a recorded forward pass."""
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
        activations, constants = ([v for v in inputs if bool(v.sources) == wanted] for wanted in (True, False))
        if not activations:
            return _joined(inputs)
        if op in ("conv1d", "conv2d", "linear") and "weight" in values and values["weight"].parameters:
            return self._layer(op, arguments, values, activations)
        if op in ("batch_norm", "layer_norm", "_native_batch_norm_legit_no_training"):
            return self._norm("ln" if op == "layer_norm" else "bn", values, activations)
        if op == "add" and len(values) == 2:
            return self._sum(activations, constants)
        if op in ("cat", "concat"):
            return self._concat(arguments["tensors"])
        if op == "mul" and len(activations) == 2 and activations[0].sources != activations[1].sources:
            return self._add("cse", activations)
        self._refuse(op, constants)
        attends = op in ("matmul", "bmm", "einsum") and any(value.attention for value in activations)
        if (attends or op == "scaled_dot_product_attention") and self.convention == "msa":
            return self._add("msa", activations)
        pool = _POOLS.get(op.removesuffix("_with_indices").rstrip("123d"))
        if pool or (op == "mean" and _over_positions(arguments)):
            return self._add(pool or "glob_avg", activations)
        return _joined(activations, attention=op in ("softmax", "_softmax"))

    def _layer(
        self, op: str, arguments: dict[str, Any], values: dict[str, _Value], activations: list[_Value]
    ) -> _Value:
        groups, dilation = arguments.get("groups", 1), arguments.get("dilation", 1)
        dilated = min(dilation if isinstance(dilation, list | tuple) else [dilation]) > 1
        primitive = "conv" if groups == 1 else "dil_conv" if dilated else "sep_conv"
        weight, value = self._only(op, values["weight"]), _joined(activations)
        if weight is not None:
            value = self._add(primitive, [value], weight, self._shapes[weight])
        bias = values.get("bias", _Value())
        if bias.parameters and (name := self._only(f"{op}'s bias", bias)):
            value = self._add("bias", [value], name, self._shapes[name])
        return value

    def _norm(self, primitive: str, values: dict[str, _Value], activations: list[_Value]) -> _Value:
        weight, bias = values.get("weight", _Value()), values.get("bias", _Value())
        name = self._only(primitive, weight) if weight.parameters else None
        stem = name.removesuffix("weight") if name else ""
        if name is None or not name.endswith(".weight") or bias.parameters not in ((), (f"{stem}bias",)):
            self._refuse(f"{primitive} with other names than weight and bias", [weight, bias])
            return _joined(activations)
        if len(self._shapes[name]) > 1:
            self._refuse(f"{primitive} over several dimensions", [weight, bias])
            return _joined(activations)
        self.without_node.update(bias.parameters)
        return self._add(primitive, activations, name, self._shapes[name])

    def _sum(self, activations: list[_Value], constants: list[_Value]) -> _Value:
        """A ``sum``; a position embedding, (1, tokens, channels), becomes a ``pos_enc`` node before it."""
        parameters = [parameter for value in constants for parameter in value.parameters]
        if not parameters:
            return _joined(activations) if constants else self._add("sum", activations)
        shape = self._shapes[parameters[0]] if len(parameters) == 1 else ()
        tokens = shape[1] if len(shape) == 3 and shape[0] == 1 else 0
        rows, columns = (isqrt(tokens * one // other) for one, other in permutations((self.height, self.width)))
        is_grid = rows * self.width == columns * self.height  # as patches of a square cut the image
        if tokens < 2 or not is_grid or tokens - rows * columns not in (0, 1):
            self._refuse("add", constants)
            return _joined(activations)
        name = self._only("add", constants[0])
        return self._add("sum", [self._add("pos_enc", [], name, (1, shape[2], rows, columns)), *activations])

    def _concat(self, tensors: Iterable[fx.Node]) -> _Value:
        """A ``concat``, or no node if it only prepends class tokens, (1, 1, channels)."""
        activations: list[_Value] = []
        for value in (self._values[tensor] for tensor in tensors if tensor in self._values):
            shapes = [self._shapes[parameter] for parameter in value.parameters]
            if value.sources:
                activations.append(value)
            elif not activations and all(len(shape) == 3 and shape[:2] == (1, 1) for shape in shapes):
                self.without_node.update(value.parameters)
            else:
                self._refuse("cat", [value])
        return self._add("concat", activations) if len(activations) > 1 else activations[0]

    def _add(
        self, op: str, before: Iterable[_Value], parameter: str | None = None, shape: tuple[int, ...] = ()
    ) -> _Value:
        # Names that timm and torch give to a matrix of queries, keys and values.
        fused = parameter is not None and (".qkv." in parameter or ".in_proj_" in parameter)
        self.nodes.append(Node(op, parameter, shape, fused=3 if fused else 1))
        self.predecessors.append(_joined(before).sources)
        return _Value((len(self.nodes) - 1,))

    def _only(self, op: str, value: _Value) -> str | None:
        """The only parameter of a value; None, and refused, if there are several or if it already has a node."""
        first = value.parameters[0]
        if len(value.parameters) == 1 and all(node.parameter != first for node in self.nodes):
            return first
        self._refuse(f"{op}, used twice" if len(value.parameters) == 1 else f"{op} with a computed tensor", [value])
        return None

    def _refuse(self, op: str, values: Iterable[_Value]) -> None:
        for value in values:
            for parameter in value.parameters:
                self.refused.setdefault(parameter, op)


def _joined(values: Iterable[_Value], attention: bool = False) -> _Value:
    """The output of an operation without a node."""
    values = list(values)
    return _Value(
        tuple(sorted({source for value in values for source in value.sources})),
        tuple(dict.fromkeys(parameter for value in values for parameter in value.parameters)),
        attention or any(value.attention for value in values),
    )


def _read_call(node: fx.Node) -> tuple[str, dict[str, Any]]:
    """An operation's name without the underscore of in-place operations, and its arguments by name."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return getattr(target, "__name__", str(target)), {}
    names = [argument.name for argument in target._schema.arguments]
    arguments = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    if "self" in arguments:
        arguments["input"] = arguments.pop("self")
    return target._schema.name.split("::")[1].rstrip("_"), arguments


def _over_positions(arguments: dict[str, Any]) -> bool:
    """Whether a mean is over all dimensions except the batch and one more, the channels."""
    dimensions = arguments["input"].meta["val"].dim()
    over = arguments.get("dim") or []
    over = {d % dimensions for d in (over if isinstance(over, list | tuple) else [over])}
    return 0 not in over and len(over) == dimensions - 2 > 0


def _with_head(builder: _Builder) -> Iterator[Node]:
    """Mark the last linear layer or 1 x 1 convolution, and its bias, as the head.

    A 1 x 1 convolution becomes a matrix there, because decoders predict the head's weight as a matrix.
    """
    nodes = builder.nodes
    weights = (n for n, node in enumerate(nodes) if node.op == "conv" and set(node.shape[2:]) <= {1})
    last = max(weights, default=None)
    for n, node in enumerate(nodes):
        if n == last:
            yield replace(node, head=True, shape=node.shape[:2])
        else:
            yield replace(node, head=node.op == "bias" and builder.predecessors[n] == (last,))


def _listing(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _exported(model: nn.Module, image: tuple[int, int, int], name: str) -> torch.export.ExportedProgram:
    """Record a forward pass in eval mode, without computing it.

    Args:
        model: Takes images (B, C, H, W); it may be on any device, ``meta`` included. It is not changed.
        image: (C, H, W) of its images.
        name: The model's name for error messages.

    Returns:
        The recorded program for one image.
    """
    first = next(model.parameters(), None)
    example = torch.empty(1, *image, device=None if first is None else first.device)
    training = {module: module.training for module in model.modules()}
    try:
        with torch.enable_grad(), _silence():  # without gradients some layers take opaque fast paths
            program = torch.export.export(model.eval(), (example,), strict=False)
            if any(_writes_in_place(node) for node in program.graph.nodes):
                program = program.run_decompositions({})
    except Exception as error:  # any error of the model or of the exporter means that the model cannot be traced
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        reason = "its operations depend on the image's values" if "data-dependent" in lines[0] else lines[0][:200]
        raise UserError(f"{name}: cannot be traced at {'x'.join(map(str, image))}: {reason}") from error
    finally:
        for module, mode in training.items():
            module.training = mode
    return program


def _writes_in_place(node: fx.Node) -> bool:
    """Whether a call only writes into a view of another tensor. The graph has no edge to readers of that tensor."""
    return node.op == "call_function" and not node.users and node.target is not operator.getitem


@contextmanager
def _silence() -> Iterator[None]:
    """Suppress the exporter's log lines, warnings and listings; a failure is raised as an error anyway."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)

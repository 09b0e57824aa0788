"""What a small network of a form shows: its layers, its kind of attention, and which dimensions belong together.

No rule names a type. Networks of several sizes are built on the meta device: dimensions that grow with
the width, with the heads, with their groups and with the neurons belong together. A small network with random values
then shows whether this is right: to exchange dimensions of the residual stream, whole heads, or neurons must not
change its logits. A type that fails is refused.
"""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from copy import deepcopy
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lgx.architectures.axes import Axes, Axis, gathered
from lgx.architectures.hf_config import default_values, hidden_key, key_of
from lgx.architectures.hf_trials import HEAD, LENGTH, NEURONS, PAD, TOKENS, Shapes, Trials, ids_of
from lgx.errors import UserError
from lgx.host.failures import foreign_errors


class Template(NamedTuple):
    """An axis without its size, see :class:`~lgx.architectures.axes.Axis`; ``groups``: heads of keys and values."""

    kind: str
    parts: int
    owner: str = ""
    is_by_head: bool = False
    shared: int = 0


Templates = dict[str, tuple[Template | None, ...]]


class Structure(NamedTuple):
    """What networks of a form have in common.

    Attributes:
        layers: Prefix of the names of a layer's parameters, before its number.
        axes: Axes of the parameters of a layer, under the names of layer 0, and of those outside of layers.
        lacking: Parameters that layer 0 lacks, though all other layers have them.
        head: Prefix of the parameters that give the logits.
        head_prefixes: Prefixes of all parameters that belong to the task; :attr:`head` is the first.
        is_causal: Whether a token sees only earlier tokens.
        has_rotary_positions: Whether positions are rotations of queries and keys.
        has_reserved_positions: Whether the first positions, up to the padding token's number, belong to no token.
        positions: Parameters with a row for each position.
        has_free_head_dim: Whether the width of a head does not depend on the width.
        after_tokens: Parameters that the features of tokens do not depend on: heads, and poolers before them.
        called: Modules of layer 0 that hold parameters, in the order of their calls.
        has_plain_norms: Whether the weights of norms are the factors themselves, not what is added to one.
    """

    layers: str
    axes: Templates
    lacking: tuple[str, ...]
    head: str
    head_prefixes: tuple[str, ...]
    is_causal: bool
    has_rotary_positions: bool
    has_reserved_positions: bool
    positions: tuple[str, ...]
    has_free_head_dim: bool
    after_tokens: tuple[str, ...]
    called: tuple[str, ...]
    has_plain_norms: bool


@cache
def structure(config: str, kind: str, heads_per_group: int) -> Structure:
    """Determine the structure of a type of network.

    Args:
        config: See :func:`~lgx.architectures.hf_config.structural_text`.
        kind: ``language`` or ``text``.
        heads_per_group: Query heads that share one head of keys and values.

    Raises:
        UserError: If its parts cannot be told apart; the sentence says why.
    """
    reader = _Reader(config, kind, heads_per_group)
    with foreign_errors(f"architecture of type {reader.name}", "is not supported", "choose another type"):
        with ThreadPoolExecutor(1) as thread:  # which the modes of a plan, whose tensors have no values, do not reach
            return thread.submit(reader.read).result()


class _Reader(Trials):
    def read(self) -> Structure:
        values = default_values(self.name) | json.loads(self.config)
        rope = values.get("rope_parameters") or {}
        if any(isinstance(value, list) for value in rope.values()) or (values.get("rotary_dim") or 0) > HEAD:
            fixed = rope.get("rope_type") or f"rotary_dim {values['rotary_dim']}"
            raise UserError(
                f"architecture: this {self.name} has rotary positions for heads of one width ({fixed}), so lgx cannot "
                f"cut it"
            )
        if key_of(self.name, "num_attention_heads") is None:
            raise UserError(f"architecture: {self.name} has no attention heads, so lgx cannot cut it")
        if self.configuration(self.base).is_encoder_decoder:
            raise UserError(f"architecture: {self.name} is an encoder-decoder; choose a decoder or an encoder")
        if self.base["heads_per_group"] > 1 and key_of(self.name, "num_key_value_heads") is None:
            raise UserError(f"architecture: {self.name} has no groups of heads; leave out heads_per_group")
        prefix = self.layers()
        self.is_free = self.shapes(head_dim=HEAD) != self.shapes(head_dim=2 * HEAD)
        if self.is_free:
            width = 2 * self.base["embed_dim"]
            self.base |= {"embed_dim": width, "head_dim": HEAD, "mlp_ratio": NEURONS / width}
        shapes = self.shapes()
        lacking = self.check_layers(shapes, prefix)
        network = self.network(None, prefix)
        stored = network.state_dict().keys() & {name for name, _ in network.named_buffers()}
        if stored:
            raise UserError(
                f"architecture: {self.name} stores {min(stored)}, which is no parameter; choose another type"
            )
        hypotheses = self.hypotheses(shapes, prefix, network)
        axes = next((each for each in hypotheses if self.fits(each, shapes) and self.holds(each, network)), None)
        if axes is None or not {"embed", "heads", "hidden"} <= {t.kind for t in chain(*axes.values()) if t}:
            raise UserError(
                f"architecture: dimensions, heads or neurons of {self.name} do not all do the same (to exchange them "
                f"changes its output), so lgx cannot cut it; choose another type"
            )
        is_causal = self.is_causal(network)
        if self.kind == "language" and not is_causal:
            raise UserError(f"architecture: {self.name} is an encoder, which sees the tokens it would have to predict")
        head, heads = self.head(network)
        first, second = f"{prefix}0.", f"{prefix}1."  # the first layer of ModernBERT lacks a norm that the others have
        of_one_layer: Templates = {}
        for name, axes_of_one in axes.items():
            if not name.startswith(first):
                renamed = [t and t._replace(owner=t.owner.replace(second, first)) for t in axes_of_one]
                of_one_layer[name.replace(second, first)] = tuple(renamed)
        return Structure(
            prefix, of_one_layer, lacking, head, heads, is_causal, self.is_rotary(network), self.reserves(network),
            tuple(n for n, shape in self.shapes(max_len=2 * LENGTH).items() if shape != shapes[n]), self.is_free,
            self.after_tokens(network), tuple(self.called(network, first)), self.has_plain_norms(network),
        )  # fmt: skip

    def check_layers(self, shapes: Shapes, prefix: str) -> tuple[str, ...]:
        """Refuse layers that differ from each other; return the names that only layer 0 lacks."""
        first, second = _of_layer(shapes, f"{prefix}0."), _of_layer(shapes, f"{prefix}1.")
        if not first.items() <= second.items():
            raise UserError(f"architecture: the layers of {self.name} differ from each other")
        return tuple(f"{prefix}0.{name}" for name in second.keys() - first.keys())

    # -- axes -----------------------------------------------------------------------------------------------------

    def hypotheses(self, shapes: Shapes, prefix: str, network: Any) -> list[Templates]:
        """The axes, with each layout that fused queries, keys and values may have."""
        templates = self.templates(shapes, prefix, network)
        by_head = {name: tuple(map(_by_head, axes)) for name, axes in templates.items()}
        return [templates] if by_head == templates else [templates, by_head]

    def templates(self, shapes: Shapes, prefix: str, network: Any) -> Templates:
        """The axes of all parameters, from networks in which one size is another."""
        base = self.base
        has_key = hidden_key(self.name) is not None
        width = base["embed_dim"]
        heads = base["num_heads"]
        per_group = 2 * base["heads_per_group"]
        neurons = self.shapes(mlp_ratio=2 * base["mlp_ratio"]) if has_key else shapes
        groups = self.shapes(heads_per_group=per_group) if key_of(self.name, "num_key_value_heads") else shapes
        twice = {"embed_dim": 2 * width, "mlp_ratio": base["mlp_ratio"] / 2 if has_key else base["mlp_ratio"]}
        wider = self.shapes(**twice)
        kept_groups = {"num_heads": 2 * heads, "heads_per_group": per_group}
        more = self.shapes(**kept_groups) if self.is_free else self.shapes(**twice, num_heads=2 * heads)
        broad = self.shapes(head_dim=2 * HEAD) if self.is_free else wider
        outputs = {} if self.is_free else self.attention_sides(prefix, network)
        sizes = {"embed": width, "heads": heads * HEAD, "head": HEAD, "hidden": NEURONS if has_key else 4 * width}
        sizes["groups"] = sizes["heads"] // base["heads_per_group"]
        templates: Templates = {}
        for name, shape in shapes.items():
            layer = f"{prefix}{name.removeprefix(prefix).partition('.')[0]}." if name.startswith(prefix) else ""
            axes: list[Template | None] = []
            for dim, size in enumerate(shape):
                others = [each[name][dim] for each in (neurons, groups, wider, more, broad)]
                kind = self.kind_of(name, size, *others, is_heads=(name, dim) in outputs)
                owner = "" if kind in ("", "embed") else f"{layer}{'mlp' if kind == 'hidden' else 'attention'}"
                if kind == "joined":
                    shared = (size - sizes["heads"]) // sizes["groups"]
                    is_shared = base["heads_per_group"] > 1
                    axes.append(
                        Template("heads", 1, owner, shared=shared) if is_shared else Template("heads", 3, owner)
                    )
                    continue
                if kind and size % sizes[kind]:
                    raise UserError(f"architecture: {name} of {self.name} joins dimensions of several kinds")
                axes.append(Template(kind, size // sizes[kind], owner) if kind else None)
            templates[name] = tuple(axes)
        return templates

    def kind_of(
        self, name: str, size: int, neurons: int, groups: int, wider: int, more: int, broad: int, *, is_heads: bool
    ) -> str:
        """The kind of a dimension, from its size in each of the networks; empty if it depends on none.

        ``joined``: queries, and behind them keys and values of groups.
        """
        if neurons != size:
            return "hidden"
        if groups != size:
            if self.is_free and more != size:
                return "joined"
            return "groups"
        if self.is_free:
            return ("heads" if more != size else "head") if broad != size else "embed" if wider != size else ""
        if wider == size:
            return ""
        if size == 4 * self.base["embed_dim"] and hidden_key(self.name) is None:
            return "hidden"
        return "head" if more != wider else "heads" if is_heads else "embed"

    def attention_sides(self, prefix: str, network: Any) -> set[tuple[str, int]]:
        """The dimensions of an attention's projections that are its heads, where they are as wide as the stream.

        The projection that is called last reads the heads; all others write them.
        """
        width = self.base["embed_dim"]
        sides = set()
        for number in range(self.base["depth"]):
            called = [(name, network.get_submodule(name)) for name in self.called(network, f"{prefix}{number}.")]
            square = [(name, module) for name, module in called if _is_square(module, width)]
            for name, module in square:
                is_output = name == square[-1][0]
                is_linear = isinstance(module, nn.Linear)  # Conv1D of GPT-2 is transposed
                sides.add((f"{name}.weight", int(is_output == is_linear)))
                if not is_output:
                    sides.add((f"{name}.bias", 0))
        return sides

    def fits(self, templates: Templates, shapes: Shapes) -> bool:
        """Whether the axes give the shapes of a network of twice the width, with twice the heads."""
        twice = {"embed_dim": 2 * self.base["embed_dim"], "num_heads": 2 * self.base["num_heads"]}
        wider = self.shapes(**twice)
        for name, axes_of_one in templates.items():
            axes = axes_with_sizes(axes_of_one, self.base | twice)
            sizes = zip(shapes[name], axes, strict=True)
            if wider[name] != tuple(axis.length if axis else size for size, axis in sizes):
                return False
        return True

    def holds(self, templates: Templates, network: Any) -> bool:
        """Whether exchanges of dimensions, heads and neurons leave the logits as they are."""
        axes = {name: axes_with_sizes(axes_of_one, self.base) for name, axes_of_one in templates.items()}
        tensors = dict(network.named_parameters())
        ids = ids_of()
        with torch.no_grad():
            before = network(ids)
            for kinds in (("embed",), ("heads", "groups"), ("hidden",)):
                exchanged = {name: _exchanged(tensor, axes[name], kinds) for name, tensor in tensors.items()}
                after = torch.func.functional_call(network, exchanged, (ids,))
                if not torch.allclose(before, after, rtol=1e-3, atol=1e-3 * float(before.std())):
                    return False
        return True

    # -- facts ----------------------------------------------------------------------------------------------------

    def head(self, network: Any) -> tuple[str, tuple[str, ...]]:
        base = f"{network.base_model_prefix}."
        shapes = self.shapes()
        if self.kind == "language":
            last = next((n for n, m in network.named_modules() if m is network.get_output_embeddings()), "lm_head")
        else:
            other = self.shapes(num_classes=5)
            last = next(name for name, shape in other.items() if shape != shapes[name]).rpartition(".")[0]
        others = {f"{name.partition('.')[0]}." for name in shapes if not name.startswith(base)} - {f"{last}."}
        return f"{last}.", (f"{last}.", *sorted(others))

    def after_tokens(self, network: Any) -> tuple[str, ...]:
        tensors = dict(network.named_parameters())
        with torch.enable_grad():
            total = network.tokens(ids_of()).square().sum()
        gradients = torch.autograd.grad(total, [*tensors.values()], allow_unused=True)
        return tuple(name for name, each in zip(tensors, gradients, strict=True) if each is None)

    @torch.no_grad()
    def called(self, network: Any, layer: str) -> list[str]:
        """Modules of a layer that hold parameters, in the order of their calls."""
        names: list[str] = []
        modules = {name: module for name, module in network.named_modules() if name.startswith(layer)}
        with ExitStack() as hooks:
            for name, module in modules.items():
                if next(module.parameters(recurse=False), None) is not None:
                    hooks.enter_context(module.register_forward_hook(lambda *_, name=name: names.append(name)))
            network(ids_of())
        return names

    @torch.no_grad()
    def has_plain_norms(self, network: Any) -> bool:
        silent = deepcopy(network)
        for parameter in silent.parameters():
            if parameter.ndim == 1:
                parameter.zero_()
        return not silent.tokens(ids_of()).any()

    @torch.no_grad()
    def is_causal(self, network: Any) -> bool:
        ids = ids_of()[:1]
        other = ids.clone()
        other[0, 0, -1] = ids[0, 0, -1] % (TOKENS - 3) + 2
        one, two = network.tokens(ids), network.tokens(other)
        return bool(torch.allclose(one[0, 0], two[0, 0], atol=1e-5))

    def is_rotary(self, network: Any) -> bool:
        return any("inv_freq" in name for name, _ in network.named_buffers()) or any(
            key.startswith(("rope", "rotary")) for key in network.config.to_dict()
        )

    @torch.no_grad()
    def reserves(self, network: Any) -> bool:
        try:
            network(ids_of(LENGTH))
        except (IndexError, RuntimeError):
            network(ids_of(LENGTH - PAD - 1))
            return True
        return False


def _is_square(module: nn.Module, width: int) -> bool:
    """Whether a module is a projection between a residual stream and heads of its width, perhaps fused."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or isinstance(module, nn.Embedding):
        return False
    return weight.ndim == 2 and {*weight.shape} <= {width, 3 * width}


def _of_layer(shapes: Shapes, prefix: str) -> Shapes:
    return {name.removeprefix(prefix): shape for name, shape in shapes.items() if name.startswith(prefix)}


def _by_head(template: Template | None) -> Template | None:
    """The axis of fused queries, keys and values, if these lie side by side for each head; other axes as they are."""
    is_fused = template is not None and template.kind == "heads" and template.parts > 1
    return template._replace(is_by_head=True) if template and is_fused else template


def axes_with_sizes(templates: tuple[Template | None, ...], sizes: Mapping[str, Any]) -> Axes:
    """The axes of a parameter of a network of these sizes."""
    heads = sizes["num_heads"]
    groups = heads // sizes["heads_per_group"]
    head = sizes["head_dim"] or sizes["embed_dim"] // heads
    width = sizes["embed_dim"]
    neurons = round(width * sizes["mlp_ratio"])

    def axis(template: Template) -> Axis:
        kind, parts, owner, is_by_head, shared = template
        if kind == "heads":
            return Axis("heads", heads * head, parts, owner, heads, groups, is_by_head, shared)
        if kind == "groups":
            return Axis("heads", groups * head, parts, owner, groups, groups, is_by_head)
        if kind == "embed":
            return Axis("embed", width, parts)
        return Axis("head", head, parts, owner) if kind == "head" else Axis("hidden", neurons, parts, owner)

    return tuple(template and axis(template) for template in templates)


def _exchanged(tensor: Tensor, axes: Axes, kinds: tuple[str, ...]) -> Tensor:
    """A parameter whose elements along the axes of these kinds have changed places: heads and groups stay whole."""

    def order(axis: Axis, _: Axis) -> list[int]:
        if axis.kind != "heads":
            return list(reversed(range(axis.size)))
        heads = torch.arange(axis.size).view(axis.heads, -1)
        return heads.flip(0).flatten().tolist()

    for dim, axis in enumerate(axes):
        if axis is not None and axis.kind in kinds and axis.kind != "head":
            tensor = gathered(tensor, dim, axis, axis, order)
    return tensor

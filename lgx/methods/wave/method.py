"""WAVE: templates that networks of all widths and depths share.

Matrices are sums of Kronecker products of scalers and templates. T: templates of a kind, h × w: size of a template, a ×
b: blocks of a matrix.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn.utils import parametrize

from lgx.architectures import ViTArchitecture, vit_only
from lgx.artifacts.learngene import TEMPLATES, Learngene
from lgx.core.schema import check_option
from lgx.errors import UserError
from lgx.methods.distillation.method import Distill
from lgx.methods.wave import SPEC

KINDS = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
"""Kinds of matrices of a layer that are made of templates; each has its templates."""


class FromTemplates(nn.Module):
    """Computes a matrix from its scalers: ``W = Σ_t S_t ⊗ T_t``, (T, a, b) -> (a·h, b·w).

    Args:
        templates: The templates, (T, h, w): a parameter that several matrices share, or a tensor that stays as it is.
    """

    templates: Tensor

    def __init__(self, templates: Tensor) -> None:
        super().__init__()
        if isinstance(templates, nn.Parameter):
            self.templates = templates
        else:
            self.register_buffer("templates", templates)

    def forward(self, scalers: Tensor) -> Tensor:
        """The matrix: (T, a, b) -> (a·h, b·w)."""
        blocks = torch.einsum("tab,thw->ahbw", scalers, self.templates)
        matrix: Tensor = rearrange(blocks, "a h b w -> (a h) (b w)")
        return matrix

    def right_inverse(self, matrix: Tensor) -> Tensor:
        """The scalers (T, a, b) whose matrix is nearest to another one (a·h, b·w), in the Frobenius norm."""
        height, width = self.templates.shape[1:]
        blocks = rearrange(matrix, "(a h) (b w) -> (h w) (a b)", h=height, w=width)
        basis = rearrange(self.templates.detach(), "t h w -> (h w) t")
        solution = torch.linalg.pinv(basis.double()) @ blocks.detach().double()
        scalers: Tensor = rearrange(solution, "t (a b) -> t a b", a=matrix.shape[0] // height)
        return scalers.to(matrix.dtype)


def templates_of(network: nn.Module, number: int, size: int) -> dict[str, Tensor]:
    """The templates with which a network's matrices are represented best, kind by kind.

    They are the principal directions of all blocks of the kind (Van Loan and Pitsianis, 1993: the nearest sum of
    Kronecker products is a truncated singular value decomposition of the rearranged matrix), scaled so that scalers of
    1 give entries as large as the network's.

    Returns:
        Kind -> templates, (T, size, size).
    """
    templates = {}
    for kind, matrices in _matrices(network).items():
        parts = [rearrange(m.weight.detach(), "(a h) (b w) -> (a b) (h w)", h=size, w=size) for m in matrices]
        blocks = torch.cat(parts).double()
        directions = torch.linalg.svd(blocks, full_matrices=False).Vh[:number]
        scaled = directions * blocks.square().mean().sqrt() * size  # a direction has the norm 1 over size² entries
        templates[kind] = rearrange(scaled, "t (h w) -> t h w", h=size).to(matrices[0].weight.dtype)
    return templates


def use_templates(network: nn.Module, templates: Mapping[str, Tensor], learned: bool) -> nn.Module:
    """Let all layers of a network compute their matrices from templates, as near to the present ones as these allow.

    Args:
        network: A plain ViT; its biases, norms and all parameters outside of the layers stay as they are.
        templates: Kind -> templates, (T, h, w).
        learned: Whether the templates are trained too.

    Returns:
        The network.
    """
    for kind, matrices in _matrices(network).items():
        stored = templates[kind].to(matrices[0].weight, copy=True)
        shared = nn.Parameter(stored) if learned else stored
        for matrix in matrices:
            parametrize.register_parametrization(matrix, "weight", FromTemplates(shared), unsafe=True)
    return network


def plain_parameters(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters of a plain ViT that computes the same, from a state dict of a network with templates."""
    tensors = {name: tensor for name, tensor in state.items() if ".parametrizations." not in name}
    for name, scalers in state.items():
        owner, separator, _ = name.partition(".parametrizations.weight.original")
        if separator:
            templates = state[f"{owner}.parametrizations.weight.0.templates"]
            tensors[f"{owner}.weight"] = FromTemplates(templates)(scalers)
    return tensors


def _matrices(network: nn.Module) -> dict[str, list[Any]]:
    """The linear layers of each kind, front to back."""
    layers: Any = network.blocks
    matrices: dict[str, list[Any]] = {}
    try:
        for kind in KINDS:
            matrices[kind] = [layer.get_submodule(kind) for layer in layers]
    except AttributeError as error:
        raise UserError(f"model.arch: WAVE supports layers with {', '.join(KINDS)}; choose a plain ViT") from error
    return matrices


class WAVE(Distill):
    """Learn weight templates from an ancestor, or, with stored templates, only how a network of any size uses them.

    Every matrix of a layer is ``W = Σ_t S_t ⊗ T_t``: all layers share the templates T_t, each has its own scalers S_t
    ([0], Fig. 2). Without ``templates`` an auxiliary net learns both by distillation; the learngene is the templates.
    With ``templates`` these are frozen, and a network of any width and depth learns scalers for them in few steps; its
    learngene is then a whole network, from which ``Pretrained`` starts descendants.

    This follows the paper's abstract and Fig. 2. Ours are what these do not say: the number and size of the templates,
    one set for each of the four matrices of a layer, the loss (:class:`Distill`), and that biases, norms and all
    parameters outside of the layers are trained in both steps. The templates start as the principal directions of the
    auxiliary net's own start, and scalers as the nearest ones to the network's start: with ``start: middle`` templates
    are fitted to the ancestor's layers before the first step.

    [0]: Feng et al., "WAVE: Weight Templates for Adaptive Initialization of Variable-sized Models", CVPR 2025,
    https://arxiv.org/abs/2406.17503

    Args:
        templates: Learngene file of WAVE whose templates are used unchanged; by default templates are learned.
        number: Number of learned templates of each kind.
        size: Height and width of the learned templates. Widths and hidden widths of all networks must be multiples of
            it.
        kwargs: Arguments of ``Distill`` and of every method.
    """

    spec = SPEC
    plain_network = False

    def __init__(self, templates: str | None = None, number: int = 16, size: int = 64, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_option("number", number, number > 0, "a positive number")
        check_option("size", size, size > 0, "a positive number")
        self.templates, self.number, self.size = templates, number, size

    @cached_property
    def loaded_templates(self) -> dict[str, Tensor] | None:
        """Kind -> templates of the file ``templates``; None where they are learned."""
        if self.templates is None:
            return None
        if self.is_restored and not Path(self.templates).exists():  # the checkpoint has them
            return {kind: torch.zeros(self.number, self.size, self.size) for kind in KINDS}
        tensors = Learngene.load(self.templates).tensors
        missing = [kind for kind in KINDS if f"{TEMPLATES}{kind}" not in tensors]
        if missing:
            raise UserError(
                f"model.templates: {self.templates} has no templates for {missing[0]}; give a learngene of WAVE"
            )
        return {kind: tensors[f"{TEMPLATES}{kind}"] for kind in KINDS}

    @cached_property
    def architecture(self) -> ViTArchitecture:
        """The network."""
        architecture = vit_only(self.task_architecture, f"model {type(self).__name__}")
        if architecture.stages is not None:
            raise UserError("model.arch: WAVE does not support shared stages; leave out stages")
        hidden = int(architecture.embed_dim * architecture.mlp_ratio)
        size = self.size if self.loaded_templates is None else len(self.loaded_templates[KINDS[0]][0])
        if architecture.embed_dim % size or hidden % size:
            raise UserError(
                f"model.size: templates of {size} x {size} do not tile a network of width {architecture.embed_dim} "
                f"with hidden width {hidden}; choose a size that divides both"
            )
        return architecture

    def build_network(self) -> nn.Module:
        """The network at its start, with matrices from templates."""
        network = super().build_network()
        templates = self.loaded_templates or templates_of(network, self.number, self.size)
        return use_templates(network, templates, learned=self.templates is None)

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """The templates and all parameters outside of the layers; with stored templates the whole network."""
        tensors = plain_parameters(self.without_projection(state))
        if self.templates is not None:
            return Learngene(self.method, self.architecture, tensors, ancestor=self.ancestor or "", content="network")
        outside = {name: tensor for name, tensor in tensors.items() if not name.startswith("blocks.")}
        place = "blocks.0.{}.parametrizations.weight.0.templates"
        stored = outside | {f"{TEMPLATES}{kind}": state[place.format(kind)].clone() for kind in KINDS}
        return Learngene(self.method, self.architecture, stored, ancestor=self.ancestor or "", content="templates")

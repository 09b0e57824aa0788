"""A ViT whose matrices are sums of Kronecker products of scalers and templates.

T: templates of a kind, h × w: size of a template, a × b: blocks of a matrix.
"""

from collections.abc import Mapping
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn.utils import parametrize

from lgx.artifacts.learngene import TEMPLATES
from lgx.errors import UserError

KINDS = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
"""Matrices of a layer that are made of templates; each kind has templates of its own."""


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
        """The scalers (T, a, b) whose matrix is nearest to the given one (a·h, b·w), in the Frobenius norm."""
        height, width = self.templates.shape[1:]
        blocks = rearrange(matrix, "(a h) (b w) -> (h w) (a b)", h=height, w=width)
        basis = rearrange(self.templates.detach(), "t h w -> (h w) t")
        # Not lstsq: it has no form for the tensors without values of which plans count the cost.
        found = torch.linalg.pinv(basis.double()) @ blocks.detach().double()
        scalers: Tensor = rearrange(found, "t (a b) -> t a b", a=matrix.shape[0] // height)
        return scalers.to(matrix.dtype)


def templates_of(network: nn.Module, number: int, size: int) -> dict[str, Tensor]:
    """The templates with which a network's own matrices are represented best, kind by kind.

    They are the principal directions of all blocks of the kind (Van Loan and Pitsianis, 1993: the nearest sum of
    Kronecker products is a truncated singular value decomposition of the rearranged matrix), scaled so that scalers of
    1 give entries as large as the network's.

    Returns:
        Kind -> templates, (T, size, size).
    """
    found = {}
    for kind, matrices in _matrices(network).items():
        parts = [rearrange(m.weight.detach(), "(a h) (b w) -> (a b) (h w)", h=size, w=size) for m in matrices]
        blocks = torch.cat(parts).double()
        directions = torch.linalg.svd(blocks, full_matrices=False).Vh[:number]
        scaled = directions * blocks.square().mean().sqrt() * size  # a direction has the norm 1 over size² entries
        found[kind] = rearrange(scaled, "t (h w) -> t h w", h=size).to(matrices[0].weight.dtype)
    return found


def use_templates(network: nn.Module, templates: Mapping[str, Tensor], learned: bool) -> nn.Module:
    """Let all layers of a network compute their matrices from templates, as near to their own ones as these allow.

    Args:
        network: A plain ViT; its biases, norms and all parameters outside of the layers stay as they are.
        templates: Kind -> templates, (T, h, w).
        learned: Whether the templates are trained too.

    Returns:
        The network.
    """
    for kind, matrices in _matrices(network).items():
        own = templates[kind].to(matrices[0].weight, copy=True)  # plans build networks without values
        shared = nn.Parameter(own) if learned else own
        for matrix in matrices:
            parametrize.register_parametrization(matrix, "weight", FromTemplates(shared), unsafe=True)
    return network


def plain_parameters(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters of a plain ViT that computes the same, from a state dict of a network with templates."""
    tensors = {name: tensor for name, tensor in state.items() if ".parametrizations." not in name}
    for name, scalers in state.items():
        owner, found, _ = name.partition(".parametrizations.weight.original")
        if found:
            templates = state[f"{owner}.parametrizations.weight.0.templates"]
            tensors[f"{owner}.weight"] = FromTemplates(templates)(scalers)
    return tensors


def stored_templates(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``templates.<kind>`` -> templates, from a state dict of a network with templates."""
    return {
        f"{TEMPLATES}{kind}": state[f"blocks.0.{kind}.parametrizations.weight.0.templates"].clone() for kind in KINDS
    }


def _matrices(network: nn.Module) -> dict[str, list[Any]]:
    """The linear layers of each kind, front to back."""
    layers: Any = network.blocks
    try:
        found = {kind: [layer.get_submodule(kind) for layer in layers] for kind in KINDS}
    except AttributeError as error:
        raise UserError(f"model.arch: WAVE knows layers with {', '.join(KINDS)}; choose a plain ViT") from error
    return found

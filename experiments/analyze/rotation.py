"""Rotate the residual stream of a ViT onto its principal components, so that slices keep most of what it holds."""

import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from lgx.artifacts.pretrained import PretrainedNetwork
from lgx.methods.weight_subcloning.samples import sample_inputs


def rotate_ancestor(source: PretrainedNetwork, data: str, images: int, out: Path) -> None:
    """Write a model folder of a ViT that computes the same, with its principal components as dimensions.

    The scales and shifts of norms become part of the layers behind them. What a LayerNorm then computes commutes with a
    rotation that keeps the mean of a vector zero (SliceGPT, Ashkboos et al., ICLR 2024). Components are those of the
    normalized vectors that all norms read. A reflection gives them coordinates of mean zero,
    and changes each of them little.

    Args:
        source: A ViT of timm with norms before its layers, in a model folder.
        data: Folder with images.
        images: How many of them the components are computed on.
        out: Folder to write.
    """
    folder = Path(source.name)
    tensors = load_file(folder / "model.safetensors")
    rotation = _rotation(_covariance(source.model.eval(), sample_inputs(source, data, images, "rotate")))
    for layer in [f"blocks.{i}." for i in range(source.require_vit("rotate").depth)]:
        for norm, reader, writer in (("norm1", "attn.qkv", "attn.proj"), ("norm2", "mlp.fc1", "mlp.fc2")):
            _read(tensors, f"{layer}{norm}", f"{layer}{reader}", rotation)
            _write(tensors, f"{layer}{writer}", rotation)
    _read(tensors, "norm", "head", rotation)
    _write(tensors, "patch_embed.proj", rotation)
    for name in ("cls_token", "pos_embed"):
        tensors[name] = (tensors[name].double() @ rotation.T).float()
    shutil.copytree(folder, out)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, out / "model.safetensors")


def _covariance(model: nn.Module, images: Tensor) -> Tensor:
    """Covariance of what the norms of a ViT read, each vector normalized, (D, D)."""
    sums: list[Tensor] = []

    def add(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        vectors = inputs[0].double().flatten(0, 1)
        vectors = nn.functional.layer_norm(vectors, vectors.shape[-1:])
        sums.append(vectors.T @ vectors)

    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    hooks = [norm.register_forward_pre_hook(add) for norm in norms]
    with torch.no_grad():
        model(images)
    for hook in hooks:
        hook.remove()
    return torch.stack(sums).sum(0)


def _rotation(covariance: Tensor) -> Tensor:
    """Rows are components of decreasing variance, reflected so that coordinates have mean zero, (D, D)."""
    width = len(covariance)
    components = torch.linalg.eigh(covariance).eigenvectors.flip(1).T  # the last one is the direction of the mean
    mirror = torch.eye(width, dtype=torch.double)[-1] - torch.full((width,), width**-0.5, dtype=torch.double)
    mirror /= mirror.norm()
    rotation: Tensor = components - 2 * torch.outer(mirror, mirror @ components)
    return rotation


def _read(tensors: dict[str, Tensor], norm: str, layer: str, rotation: Tensor) -> None:
    """Move the scale and shift of a norm into the layer that reads it, and rotate its inputs."""
    scale, shift = tensors[f"{norm}.weight"].double(), tensors[f"{norm}.bias"].double()
    weight = tensors[f"{layer}.weight"].double()
    tensors[f"{layer}.bias"] = (tensors[f"{layer}.bias"].double() + weight @ shift).float()
    tensors[f"{layer}.weight"] = (weight * scale @ rotation.T).float()
    tensors[f"{norm}.weight"], tensors[f"{norm}.bias"] = torch.ones_like(scale).float(), torch.zeros_like(shift).float()


def _write(tensors: dict[str, Tensor], layer: str, rotation: Tensor) -> None:
    """Rotate the outputs of a layer."""
    weight, bias = tensors[f"{layer}.weight"].double(), tensors[f"{layer}.bias"].double()
    tensors[f"{layer}.weight"] = (rotation @ weight.flatten(1)).view_as(weight).float()
    tensors[f"{layer}.bias"] = (rotation @ bias).float()

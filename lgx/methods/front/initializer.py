"""FRONT: every parameter is resized in the frequency domain."""

from collections.abc import Collection, Mapping, Sequence

import torch
from scipy import fft
from torch import Tensor

from lgx.architectures import Architecture, vit_only
from lgx.architectures.axes import Axes
from lgx.architectures.parameter_axes import axes_of
from lgx.core.task import Task
from lgx.initialization import Sizes
from lgx.methods.baselines.from_source import FromSource


class FRONT(FromSource):
    """The ancestor's weights in low frequencies, for a network of any depth and width, without training (FRONT).

    The abstract says: a discrete cosine transform (DCT) isolates the low frequencies of the weights, which are cut or
    padded to initialize networks of any size. It leaves the rest open. Ours are:

    - The transform runs along every axis of a parameter whose size changes, and along the layers, if their number
      changes. It is the orthonormal DCT-II. A network of the ancestor's size gets the ancestor's weights.
    - The parts of a fused matrix (queries, keys, values) are transformed one by one; heads are not.
    - Coefficients above the new size are cut, missing ones are zero.
    - The result is scaled so that the root mean square of a parameter, over all its layers, stays as it was. So norm
      weights stay near 1.
    - Embeddings, norms, biases and the head are resized like matrices.

    The optional refinement with a spectral regularizer is absent.

    Shen et al., "Breaking the Scale Barrier: One-Shot Knowledge Transfer via Frequency Transform", ICML 2026,
    https://arxiv.org/abs/2603.07523

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
    """

    method = "front"

    def sizes(self) -> Sizes:
        """Any size."""
        return Sizes.free(self.vit)

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """All parameters of the source, resized."""
        source, wanted = self.vit, vit_only(architecture, self.method).unshared()
        if wanted.embed_dim == source.embed_dim:
            self.check_heads(wanted)
        other = () if source.head == wanted.head else source.head_prefixes
        result: dict[str, Tensor] = {}
        layers: dict[str, list[Tensor]] = {}
        for name, tensor in self.loaded.tensors.items():
            if name.startswith(source.layers):
                layers.setdefault(name.removeprefix(source.layers).partition(".")[2], []).append(tensor)
            elif not name.startswith(other):
                result[name] = _resized(tensor, axes_of(source, name), axes_of(wanted, name))
        for rest, tensors in layers.items():
            first = f"{source.layers}0.{rest}"
            axes, targets = axes_of(source, first), axes_of(wanted, first)
            stacked = _resized(torch.stack(tensors), (None, *axes), (None, *targets), wanted.depth)
            result |= {f"{source.layers}{layer}.{rest}": one.clone() for layer, one in enumerate(stacked)}
        return result

    def notes(self, architecture: Architecture, taken: Collection[str]) -> tuple[str, ...]:
        """What was done with the source."""
        return ("resized   low frequencies of the source's weights, cut or padded along every axis",)


def _resized(tensor: Tensor, source: Axes, target: Axes, depth: int | None = None) -> Tensor:
    """One parameter with the widths of the target; with a depth, one of all layers, (L, ...), with as many layers."""
    shape: list[int] = []
    sizes: dict[int, int] = {}
    for length, ours, theirs in zip(tensor.shape, source, target, strict=True):
        shape += [length] if ours is None else [ours.parts, ours.size]
        if ours and theirs and ours.size != theirs.size:
            sizes[len(shape) - 1] = theirs.size
    if depth is not None and depth != len(tensor):
        sizes[0] = depth
    final = [length if axis is None else axis.length for length, axis in zip(tensor.shape, target, strict=True)]
    return resized(tensor.reshape(shape), sizes).reshape([depth or final[0], *final[1:]] if final else final)


def resized(tensor: Tensor, sizes: Mapping[int, int]) -> Tensor:
    """Cut the cosine spectrum along some dimensions, or pad it with zeros; the root mean square stays.

    Args:
        tensor: Any tensor.
        sizes: Dimension -> its new size.
    """
    if not sizes:
        return tensor.clone()
    dims: Sequence[int] = list(sizes)
    spectrum = fft.dctn(tensor.double().numpy(), axes=dims, norm="ortho")
    made = torch.from_numpy(fft.idctn(spectrum, s=list(sizes.values()), axes=dims, norm="ortho"))
    before, after = (float(each.square().mean().sqrt()) for each in (tensor.double(), made))
    return (made * (before / after if after else 1.0)).to(tensor.dtype)

"""Embeddings of the shapes of parameters: a row for each size (GHN-3), or a smooth function of the size."""

from collections.abc import Collection
from typing import Literal

import torch
from einops import rearrange
from torch import Tensor, nn

SizeEmbedding = Literal["table", "fourier"]
_OCTAVES, _FREQUENCIES = 16, 8


class ShapeEmbedding(nn.Module):
    """Embedding of a parameter's shape: out, in, kernel height and kernel width, D / 4 features each.

    The sizes in the tables are those of GHN-2 and GHN-3. A size without a row uses the row of the nearest size, or of
    the smaller one if two are equally near. Exceptions: 4 to 7 channels use the row of 8, and kernel size 2 that of 3.
    Nodes without a parameter have a row of their own. A row that no training network uses stays random.

    Args:
        width: D, a multiple of 4.
        num_classes: Number of classes of the hypernetwork; this channel size always has a row.
        max_kernel: Largest kernel side.
    """

    channel_rows: Tensor
    kernel_rows: Tensor

    def __init__(self, width: int, num_classes: int, max_kernel: int) -> None:
        super().__init__()
        channels = {1, 3, num_classes, *range(8, 64, 8), *range(64, 4096, 16), *range(4096, 8193, 32)}
        kernels = {*range(1, max(12, max_kernel), 2), 14, 16}
        self.channels = nn.Embedding(len(channels) + 1, width // 4)
        self.kernels = nn.Embedding(len(kernels) + 1, width // 4)
        channel_rows, kernel_rows = _nearest(sorted(channels)), _nearest(sorted(kernels))
        eight = channel_rows[8].clone()
        absent = torch.tensor([size not in channels for size in range(4, 8)])
        channel_rows[4:8] = torch.where(absent, eight, channel_rows[4:8])
        kernel_rows[2] = kernel_rows[3]
        self.register_buffer("channel_rows", channel_rows, persistent=False)
        self.register_buffer("kernel_rows", kernel_rows, persistent=False)

    def forward(self, shapes: Tensor) -> Tensor:
        """Embed shapes.

        Args:
            shapes: (out, in, kernel height, kernel width), int64, (..., 4); zeros for a node without a parameter.

        Returns:
            (..., D).
        """
        channels = self._look_up(self.channel_rows, self.channels, shapes[..., :2])
        kernels = self._look_up(self.kernel_rows, self.kernels, shapes[..., 2:])
        return rearrange(torch.cat([channels, kernels], dim=-2), "... four quarter -> ... (four quarter)")

    def has_row_of(self, channels: int, others: Collection[int]) -> bool:
        """Whether a number of channels has the row of one of the others, so that it is trained where they are."""
        rows = self.channel_rows[torch.tensor([channels, *others]).clamp(max=len(self.channel_rows) - 1)].tolist()
        return rows[0] in rows[1:]

    @staticmethod
    def _look_up(rows: Tensor, table: nn.Embedding, sizes: Tensor) -> Tensor:
        """Rows (..., D / 4) of a table for sizes (...), by the row of each size, (largest + 1,)."""
        known = rows[sizes.clamp(max=len(rows) - 1)]
        none = table.num_embeddings - 1
        embedded: Tensor = table(torch.where(sizes > 0, known, none))
        return embedded


def _nearest(sizes: list[int]) -> Tensor:
    """For each integer up to the largest size the index of the nearest size; the first of two equally near."""
    table, wanted = torch.tensor(sizes), torch.arange(sizes[-1] + 1)
    return (wanted[:, None] - table[None, :]).abs().argmin(dim=1)


class FourierShapeEmbedding(nn.Module):
    """Embedding of a parameter's shape as a smooth function of its sizes, which sizes between trained ones have too.

    It is ours. Each size s gives ``sin(2 π k x / 16)`` and ``cos(2 π k x / 16)`` for k = 1 to 8 with x = log2(s), of
    which a linear layer makes D / 4 features; the shortest wave has two octaves. Channels and kernels have a layer
    each. A node without a parameter has a vector of its own.

    Args:
        width: D, a multiple of 4.
    """

    frequencies: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        waves = torch.arange(1, _FREQUENCIES + 1) * (2 * torch.pi / _OCTAVES)
        self.register_buffer("frequencies", waves, persistent=False)
        self.channels = nn.Linear(2 * _FREQUENCIES, width // 4)
        self.kernels = nn.Linear(2 * _FREQUENCIES, width // 4)
        self.absent = nn.Embedding(2, width // 4)

    def forward(self, shapes: Tensor) -> Tensor:
        """Embed shapes.

        Args:
            shapes: (out, in, kernel height, kernel width), int64, (..., 4); zeros for a node without a parameter.

        Returns:
            (..., D).
        """
        phases = shapes.clamp(min=1).to(self.frequencies.dtype).log2()[..., None] * self.frequencies
        waves = torch.cat([phases.sin(), phases.cos()], dim=-1)
        embedded = torch.cat([self.channels(waves[..., :2, :]), self.kernels(waves[..., 2:, :])], dim=-2)
        absent = self.absent.weight.to(embedded.dtype).repeat_interleave(2, dim=0)
        embedded = torch.where((shapes > 0)[..., None], embedded, absent)
        return rearrange(embedded, "... four quarter -> ... (four quarter)")

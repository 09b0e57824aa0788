"""The encoder: a Graphormer that embeds each node of a graph (GHN-3), optionally conditioned on a task (TAL).

Shapes: G graphs, N nodes (padded to the largest graph), D embedding width, H heads, T width of a task embedding. Nodes
are the first dimension, so that the heads of all graphs are views of (N, G, D).

References:
    Ying et al., Do Transformers Really Perform Badly for Graph Representation?, NeurIPS 2021 (Graphormer).
    Knyazev et al., Can We Scale Transformers to Predict Parameters of Diverse ImageNet Models?, ICML 2023 (GHN-3).
    Xu et al., Learngene Tells You How to Customize, ICML 2025 (TAL).
"""

from collections.abc import Collection
from typing import Any, cast

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from lgx.hypernet.graph import MAX_DEGREE, MAX_INPUT_DISTANCE, MAX_PATH, PRIMITIVES, GraphBatch


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

    rows: Tensor

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
        channel_rows[0], kernel_rows[0] = len(channels), len(kernels)
        # Rows of channels, and of kernels in a table after that of channels, for each of a shape's four sizes.
        kernel_rows = F.pad(kernel_rows, (0, len(channel_rows) - len(kernel_rows)), value=len(kernels) - 1)
        rows = torch.stack([channel_rows, kernel_rows + len(channels) + 1]).repeat_interleave(2, dim=0)
        self.register_buffer("rows", rows, persistent=False)

    def forward(self, shapes: Tensor) -> Tensor:
        """Embed shapes.

        Args:
            shapes: (out, in, kernel height, kernel width), int64, (..., 4); zeros for a node without a parameter.

        Returns:
            (..., D).
        """
        rows = self.rows.gather(1, shapes.clamp(max=self.rows.shape[1] - 1).view(-1, 4).T)
        embedded = F.embedding(rows.T, torch.cat([self.channels.weight, self.kernels.weight]))
        return embedded.view(*shapes.shape[:-1], -1)

    def has_row_of(self, channels: int, others: Collection[int]) -> bool:
        """Whether a number of channels has the row of one of the others, so that it is trained where they are."""
        rows = self.rows[0, torch.tensor([channels, *others]).clamp(max=self.rows.shape[1] - 1)].tolist()
        return rows[0] in rows[1:]


def _nearest(sizes: list[int]) -> Tensor:
    """For each integer up to the largest size the index of the nearest size; the first of two equally near."""
    table = torch.tensor(sizes)
    wanted = torch.arange(sizes[-1] + 1)
    return (wanted[:, None] - table[None, :]).abs().argmin(dim=1)


class EdgeBias(nn.Module):
    """Attention bias of each pair of nodes, computed from the path lengths in both directions (GHN-3).

    Args:
        width: D.
        heads: H.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.lengths = nn.Embedding(MAX_PATH + 3, width)
        self.hidden = nn.Linear(2 * width, width)
        self.out = nn.Linear(width, heads)

    def forward(self, lengths: Tensor, pairs: Tensor) -> Tensor:
        """Compute the bias of all pairs.

        The bias of a pair depends only on its two lengths. Few pairs of lengths occur, so each is computed once.

        Args:
            lengths: Rows of the pairs of path lengths that occur, int64, (P, 2).
            pairs: Index of the lengths of each pair of nodes, int64, (G, N, N).

        Returns:
            (G, H, N, N).
        """
        values = self.out(F.relu(self.hidden(self.lengths(lengths).flatten(1))))
        # index_select on the transpose takes a sixth of the time of indexing rows, whose backward pass is slow.
        bias: Tensor = rearrange(
            values.T.index_select(1, pairs.flatten()), "h (g n m) -> g h n m", g=len(pairs), n=pairs.shape[1]
        )
        return bias


class FiLM(nn.Module):
    """Feature-wise linear modulation by a task embedding, (1 + γ) x + β (Perez et al., 2018; TAL, Eq. 2-3).

    γ and β are linear in the task embedding. Their weights start at zero, so that an untrained layer changes nothing.
    The paper writes γ x + β without biases in γ and β; its official code has 1 + γ and biases, as here.

    Args:
        task_width: T.
        width: D.
    """

    def __init__(self, task_width: int, width: int) -> None:
        super().__init__()
        self.gamma, self.beta = nn.Linear(task_width, width), nn.Linear(task_width, width)
        for linear in (self.gamma, self.beta):
            nn.init.zeros_(linear.weight)
            nn.init.zeros_(linear.bias)


class _BiasedAttention(torch.autograd.Function):
    """Attention with a bias that has a gradient, computed for transposed heads, (d, N).

    For a small d a CPU takes a third of the time of heads (N, d). torch's fused attention would be computed in twice as
    many operations, because on a CPU it supports no such bias.
    """

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, bias: Tensor) -> Tensor:
        """Queries, keys and values (N, G, 3 D), and bias (G, H, N, N) -> (N, G, D)."""
        heads = bias.shape[1]
        q, k, v = rearrange(qkv, "n g (three h d) -> three (g h) d n", three=3, h=heads)
        scale = q.shape[1] ** -0.5
        scores = torch.baddbmm(bias.flatten(0, 1), q.mT, k, alpha=scale)
        attention = scores.softmax(dim=-1, dtype=scores.dtype)  # autocast on a GPU would give float32
        ctx.save_for_backward(q, k, v, attention)
        ctx.scale, ctx.shape = scale, bias.shape
        output = qkv.new_empty(*qkv.shape[:2], qkv.shape[2] // 3)
        torch.bmm(v, attention.mT, out=_by_head(output, heads))
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the gradients of both inputs, in their shapes."""
        q, k, v, attention = ctx.saved_tensors
        heads = ctx.shape[1]
        of_output = _by_head(gradient, heads)
        of_attention = of_output.mT @ v
        of_scores = torch._softmax_backward_data(of_attention, attention, -1, attention.dtype)
        of_qkv = torch.empty((3, *q.shape), dtype=q.dtype, device=q.device)
        torch.baddbmm(of_qkv[0], k, of_scores.mT, beta=0, alpha=ctx.scale, out=of_qkv[0])
        torch.baddbmm(of_qkv[1], q, of_scores, beta=0, alpha=ctx.scale, out=of_qkv[1])
        torch.bmm(of_output, attention, out=of_qkv[2])
        return rearrange(of_qkv, "three (g h) d n -> n g (three h d)", h=heads), of_scores.view(ctx.shape)


def _by_head(x: Tensor, heads: int) -> Tensor:
    """(N, G, D) -> (G * H, d, N), a view."""
    return rearrange(x, "n g (h d) -> (g h) d n", h=heads)


class Block(nn.Module):
    """Pre-norm transformer block with a bias on its attention scores.

    Args:
        width: D.
        task_width: T; None for a block without task conditioning.
    """

    def __init__(self, width: int, task_width: int | None = None) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.film = FiLM(task_width, width) if task_width else None

    def forward(self, x: Tensor, bias: Tensor, norm: tuple[Tensor, Tensor]) -> Tensor:
        """Node features, attention bias, and weights of the first norm: (N, G, D), (G, H, N, N), (D,) -> (N, G, D)."""
        normed = F.layer_norm(x, x.shape[-1:], *norm, self.norm1.eps)
        attended: Tensor = _BiasedAttention.apply(self.qkv(normed), bias)
        x = x + self.proj(attended)
        out: Tensor = x + self.fc2(F.gelu(self.fc1(self.norm2(x))))
        return out


class Encoder(nn.Module):
    """GHN-3's encoder; with ``task_width`` each block is conditioned on a task (TAL, Sec. 4).

    Args:
        width: D.
        layers: Number of blocks.
        heads: H.
        num_classes: Number of classes of the hypernetwork.
        max_kernel: Largest kernel side.
        task_width: T; None without task conditioning.
    """

    def __init__(
        self,
        width: int,
        layers: int,
        heads: int,
        num_classes: int,
        max_kernel: int,
        task_width: int | None = None,
    ) -> None:
        super().__init__()
        self.ops = nn.Embedding(len(PRIMITIVES), width)
        self.shapes = ShapeEmbedding(width, num_classes, max_kernel)
        self.in_degrees = nn.Embedding(MAX_DEGREE + 1, width)
        self.out_degrees = nn.Embedding(MAX_DEGREE + 1, width)
        self.input_distances = nn.Embedding(MAX_INPUT_DISTANCE + 1, width)
        self.edge_bias = EdgeBias(width, heads)
        self.blocks = nn.ModuleList(Block(width, task_width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.trunc_normal_(module.weight, std=width**-0.5)

    def forward(self, graphs: GraphBatch, task: Tensor | None = None) -> Tensor:
        """Embed each node in the context of its graph.

        Args:
            graphs: G graphs, padded.
            task: Task embedding, (T,); None skips the conditioning.

        Returns:
            (N, G, D); rows of padding have no meaning.
        """
        # One look-up in all tables starts fewer operations.
        tables = [self.ops.weight, self.in_degrees.weight, self.out_degrees.weight, self.input_distances.weight]
        x = self.shapes(graphs.shapes) + F.embedding(graphs.places, torch.cat(tables)).sum(dim=2)
        bias = self.edge_bias(graphs.lengths, graphs.pairs)
        if graphs.padding is not None:
            bias = bias.masked_fill(graphs.padding[:, None, None, :], -(2.0**15))
        for block, norm in zip(self.blocks, self._norms(task), strict=True):
            x = block(x, bias, norm)
        out: Tensor = self.norm(x)
        return out

    def _norms(self, task: Tensor | None) -> list[tuple[Tensor, Tensor]]:
        """Weight and bias, (D,) each, of each block's first norm, modulated by a task (T,); None leaves them.

        (1 + γ) (w x + b) + β is a norm with the weight (1 + γ) w and the bias (1 + γ) b + β.
        """
        blocks = [cast(Block, block) for block in self.blocks]
        norms = [(block.norm1.weight, block.norm1.bias) for block in blocks]
        films = [block.film for block in blocks if block.film is not None]
        if task is None or not films:
            return list(norms)
        linears = [linear for film in films for linear in (film.gamma, film.beta)]
        weight = torch.cat([linear.weight for linear in linears])
        bias = torch.cat([linear.bias for linear in linears])
        gamma, beta = F.linear(task, weight, bias).view(len(films), 2, -1).unbind(1)
        gamma = 1 + gamma
        weights, biases = (torch.stack(parts) for parts in zip(*norms, strict=True))
        return list(zip(weights * gamma, torch.addcmul(beta, biases, gamma), strict=True))

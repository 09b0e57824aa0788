"""From a computational graph to one embedding per operation: GHN-3's Graphormer, with TAL's conditioning on a task.

Shapes: G graphs, N nodes (padded to the largest graph), D embedding width, H heads, T width of a task embedding.
"""

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional as F

from lgx.hypernet.batch import GraphBatch
from lgx.hypernet.graph import MAX_PATH, VOCABULARY

MAX_DEGREE, MAX_INPUT_DISTANCE = 100, 1000


class ShapeEmbedding(nn.Module):
    """Embedding of a parameter's shape: (out, in, kernel height, kernel width), a quarter of the width each.

    Sizes that the tables lack take the nearest one's row, the smaller of two equally near; 4 to 7 channels count as 8,
    and a 2 x 2 kernel as 3 x 3 (GHN-2's tables, which GHN-3 keeps). Nodes without a shape have a row of their own.

    Args:
        width: D; a multiple of 4.
        num_classes: Number of classes that the hypernetwork was made for; a channel size of its own.
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
            shapes: Sizes (out, in, kernel height, kernel width), int64, (..., 4); zeros where a node has none.

        Returns:
            (..., D).
        """
        channels = self._look_up(self.channel_rows, self.channels, shapes[..., :2])
        kernels = self._look_up(self.kernel_rows, self.kernels, shapes[..., 2:])
        return rearrange(torch.cat([channels, kernels], dim=-2), "... four quarter -> ... (four quarter)")

    @staticmethod
    def _look_up(rows: Tensor, table: nn.Embedding, sizes: Tensor) -> Tensor:
        known = rows[sizes.clamp(max=len(rows) - 1)]
        none = table.num_embeddings - 1
        embedded: Tensor = table(torch.where(sizes > 0, known, none))
        return embedded


def _nearest(sizes: list[int]) -> Tensor:
    """Row of the nearest of the sorted sizes for every integer up to the largest; the first of two equally near."""
    table, wanted = torch.tensor(sizes), torch.arange(sizes[-1] + 1)
    return (wanted[:, None] - table[None, :]).abs().argmin(dim=1)


class EdgeBias(nn.Module):
    """Attention bias of each pair of nodes from the path lengths between them, in both directions.

    Args:
        width: D.
        heads: H.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.lengths = nn.Embedding(MAX_PATH + 3, width)
        self.hidden = nn.Linear(2 * width, width)
        self.out = nn.Linear(width, heads)

    def forward(self, distances: Tensor) -> Tensor:
        """Bias of every pair.

        The value of a pair depends on its two lengths alone, and few pairs of lengths occur: each is computed once.

        Args:
            distances: Path lengths, int64, (G, N, N); 0 for none.

        Returns:
            (G, H, N, N).
        """
        pairs = distances * (MAX_PATH + 1) + distances.transpose(1, 2)
        distinct: Tensor
        where: Tensor
        distinct, where = pairs.unique(return_inverse=True)
        # The table starts with two rows that no graph uses: index 2 is "no path".
        forward, backward = self.lengths(distinct // (MAX_PATH + 1) + 2), self.lengths(distinct % (MAX_PATH + 1) + 2)
        values = self.out(F.relu(self.hidden(torch.cat([forward, backward], dim=-1))))
        # Selecting columns of the transpose costs a sixth of looking up rows, whose gradient adds pair by pair.
        bias: Tensor = rearrange(
            values.T.index_select(1, where.flatten()), "h (g n m) -> g h n m", g=len(where), n=where.shape[1]
        )
        return bias


class FiLM(nn.Module):
    """Feature-wise modulation by a task embedding: (1 + γ) x + β (TAL, Eq. 2-3).

    γ and β are linear in the task embedding and start at zero, so that an untuned encoder ignores the task exactly.
    The paper has γ x + β and no bias; its official code has 1 + γ and biases, as here.

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

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        """Modulate node features (G, N, D) by one task embedding (T,)."""
        modulated: Tensor = (1 + self.gamma(task)) * x + self.beta(task)
        return modulated


class Block(nn.Module):
    """Pre-norm transformer block whose attention takes an edge bias.

    Args:
        width: D.
        heads: H.
        task_width: T; None for a block without task conditioning.
    """

    def __init__(self, width: int, heads: int, task_width: int | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.film = FiLM(task_width, width) if task_width else None

    def forward(self, x: Tensor, bias: Tensor, task: Tensor | None) -> Tensor:
        """One block.

        Args:
            x: Node features, (G, N, D).
            bias: Attention bias, (G, H, N, N).
            task: Task embedding, (T,), or None.

        Returns:
            (G, N, D).
        """
        normed = self.norm1(x)
        if self.film is not None and task is not None:
            normed = self.film(normed, task)
        q, k, v = rearrange(self.qkv(normed), "g n (three h d) -> three g h n d", three=3, h=self.heads)
        attention = ((q * q.shape[-1] ** -0.5) @ k.mT + bias).softmax(dim=-1)  # (G, H, N, N)
        attended = v.mT @ attention.mT  # (G, H, d, N): with few numbers a head a CPU takes a third of N x d's time
        x = x + self.proj(rearrange(attended, "g h d n -> g n (h d)"))
        out: Tensor = x + self.fc2(F.gelu(self.fc1(self.norm2(x))))
        return out


class Encoder(nn.Module):
    """GHN-3's encoder, conditioned on a task where ``task_width`` is given.

    Knyazev et al., "Can We Scale Transformers to Predict Parameters of Diverse ImageNet Models?", 2023; TAL, Sec. 3.

    Args:
        width: D.
        layers: Number of blocks.
        heads: H.
        num_classes: Number of classes that the hypernetwork was made for.
        max_kernel: Largest kernel side.
        task_width: T, or None.
    """

    def __init__(
        self, width: int, layers: int, heads: int, num_classes: int, max_kernel: int, task_width: int | None = None
    ) -> None:
        super().__init__()
        self.ops = nn.Embedding(len(VOCABULARY), width)
        self.shapes = ShapeEmbedding(width, num_classes, max_kernel)
        self.in_degrees = nn.Embedding(MAX_DEGREE + 1, width)
        self.out_degrees = nn.Embedding(MAX_DEGREE + 1, width)
        self.input_distances = nn.Embedding(MAX_INPUT_DISTANCE + 1, width)
        self.edge_bias = EdgeBias(width, heads)
        self.blocks = nn.ModuleList(Block(width, heads, task_width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.trunc_normal_(module.weight, std=width**-0.5)

    def embed(self, graphs: GraphBatch) -> Tensor:
        """Operation plus shape embedding of every node, before the graph is seen, (G, N, D)."""
        embedded: Tensor = self.ops(graphs.ops) + self.shapes(graphs.shapes)
        return embedded

    def forward(self, graphs: GraphBatch, task: Tensor | None = None) -> Tensor:
        """Embed every node in its graph.

        Args:
            graphs: G graphs, padded.
            task: Task embedding, (T,); None leaves the conditioning out.

        Returns:
            (G, N, D); rows of padding are meaningless.
        """
        edges = graphs.distances == 1
        x = self.embed(graphs)
        x = x + self.in_degrees(edges.sum(dim=1).clamp(max=MAX_DEGREE))
        x = x + self.out_degrees(edges.sum(dim=2).clamp(max=MAX_DEGREE))
        x = x + self.input_distances(graphs.distances[:, 0].clamp(max=MAX_INPUT_DISTANCE))
        bias = self.edge_bias(graphs.distances)
        bias = bias.masked_fill(~graphs.mask[:, None, None, :], -(2.0**15))
        for block in self.blocks:
            x = block(x, bias, task)
        out: Tensor = self.norm(x)
        return out

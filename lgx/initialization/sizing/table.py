"""The candidates for a budget as a table for the terminal."""

from collections.abc import Mapping, Sequence

from rich.table import Table

from lgx.architectures import ViTArchitecture
from lgx.initialization.sizing.budget import amount
from lgx.initialization.sizing.search import Candidate


def candidate_table(
    candidates: Sequence[Candidate], caption: str, scores: Mapping[ViTArchitecture, float] | None = None
) -> Table:
    """A row for each candidate, the best one first.

    Args:
        candidates: The candidates, in their order.
        caption: How they were measured.
        scores: Share of validation images that the untrained start classifies correctly; None without such a test.
    """
    table = Table("depth", "embed_dim", "num_heads", "mlp_ratio", "parameters", "MACs")
    table.caption, table.caption_justify = caption, "left"
    with_latency = any(candidate.latency for candidate in candidates)
    if with_latency:
        table.add_column("latency (ms)")
    if scores is not None:
        table.add_column("k-NN (%)")
    for candidate in candidates:
        network = candidate.architecture
        cells = [
            *(f"{value:g}" for value in (network.depth, network.embed_dim, network.num_heads, network.mlp_ratio)),
            amount("params", candidate.parameters), amount("macs", candidate.macs),
        ]  # fmt: skip
        if with_latency:
            cells.append(str(candidate.latency or ""))
        if scores is not None:
            cells.append(f"{100 * scores[network]:.2f}" if network in scores else "")
        table.add_row(*cells)
    return table

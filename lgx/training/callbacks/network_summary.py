"""The table of layers that ``--trainer.enable_model_summary`` asks for."""

from typing import Any

from lightning.pytorch.callbacks import ModelSummary

from lgx.core.readable import aligned


class NetworkSummary(ModelSummary):
    """Print the layers with their parameters, without FLOPs, which Lightning gives as 0; `lgx plan` counts them."""

    @staticmethod
    def summarize(summary_data: list[tuple[str, list[str]]], *totals: Any, **kwargs: Any) -> None:
        """Print the table.

        Args:
            summary_data: Name and cells of each column.
            totals: Sums that are printed elsewhere.
            kwargs: Likewise.
        """
        columns = [(name, *map(str, cells)) for name, cells in summary_data if name not in ("FLOPs", "Mode")]
        print("\n".join(aligned(list(zip(*columns, strict=True)), left=len(columns))), flush=True)

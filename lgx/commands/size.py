"""The size of a descendant by budget, for ``lgx init``."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from docstring_parser import parse as parse_docstring

from lgx.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from lgx.initialization import Initializer, Sizes
    from lgx.initialization.sizing import Budget, Candidate
    from lgx.methods.initializers import InitializerOption


@dataclass(frozen=True)
class SizeChoice:
    """Budgets, which are upper limits, and how latency is measured.

    Depth, width and MLP ratio are chosen among the sizes that the start can fill. Of the sizes that meet the budgets,
    the one closest to the source's ratios of depth to width and of MLP to width is written.

    Attributes:
        params: Budget of parameters, e.g. 9M: chooses depth, width and MLP ratio among those that the start can fill.
        macs: Budget of multiply-accumulates of one example, e.g. 1.2G.
        latency: Budget of time of a forward pass on this machine, e.g. 5ms; chooses depth and width.
        batch_size: Images of a pass whose latency is measured. Default: 1.
        accelerator: Where latency is measured. Default: auto, a GPU where there is one.
        data: Data set by name, or folder with train/<class>/<image>: of the sizes that meet the budgets, the start
            with the highest k-NN accuracy before training is written (validation images, k = 20).
    """

    params: str | None = None
    macs: str | None = None
    latency: str | None = None
    batch_size: int | None = None
    accelerator: Literal["auto", "cpu", "gpu"] | None = None
    data: str | None = None

    def choose(self, initializer: "Initializer", arch: str | None, num_classes: int | None, seed: int = 0) -> str:
        """The architecture that the user names; with budgets print the sizes that meet them, and return the first.

        Args:
            initializer: The start.
            arch: The architecture, or with budgets the sizes that are fixed.
            num_classes: Classes of the head; None for the source's.
            seed: Seed of random parameters.

        Returns:
            Its name or specification.

        Raises:
            UserError: If there is neither, an option is wrong, or no size that the start can fill meets a budget.
        """
        from lgx.architectures import ViTArchitecture
        from lgx.initialization.sizing import parse_budgets

        if self.batch_size is not None and self.batch_size < 1:
            raise UserError(f"--batch_size: expected at least 1, got {self.batch_size}")
        if self.latency is None and (self.batch_size is not None or self.accelerator is not None):
            raise UserError("--batch_size, --accelerator: say how latency is measured; give --latency, too")
        if self.params or self.macs or self.latency:
            budgets = parse_budgets(self.params, self.macs, self.latency)
            classes = num_classes or initializer.origin().num_classes or ViTArchitecture().num_classes
            return self._chosen(initializer, budgets, initializer.sizes().with_fixed(arch, classes), seed)
        if self.data is not None:
            raise UserError("--data: orders the sizes that meet a budget; give --params, --macs or --latency, too")
        if arch is None:
            raise UserError("--arch: name the descendant (6-Small), or give a budget: --params, --macs or --latency")
        return arch

    def _chosen(self, initializer: "Initializer", budgets: "list[Budget]", sizes: "Sizes", seed: int) -> str:
        """Print the sizes that meet the budgets best, and return the first one."""
        from rich.console import Console

        from lgx.core.provenance import hardware
        from lgx.initialization.sizing import find_sizes
        from lgx.initialization.sizing.latency import Stopwatch

        batch, device = self.batch_size or 1, _device(self.accelerator)
        found, scores = find_sizes(sizes, budgets, stopwatch=Stopwatch(batch, device) if self.latency else None), None
        caption = f"{sizes.like.num_classes} classes, {sizes.like.img_size} px; the first one is written"
        if self.latency:
            caption += f"\nlatency of {batch} image(s), float32, {hardware(device == 'cuda')}: median"
        if self.data is not None:
            from lgx.commands.untrained import knn_scores

            scores = knn_scores([candidate.architecture for candidate in found], initializer, self.data, seed)
            order = {network: -score for network, score in scores.items()}
            found.sort(key=lambda candidate: (candidate.unused(budgets), order[candidate.architecture]))
            caption += f"\nk-NN: validation images of {self.data}, before training; they order equal sizes"
        Console().print(_table(found, caption, scores))
        print("\n".join([*_notes(found[0], budgets), f"chosen    --arch {found[0].architecture.spec()}"]))
        return found[0].architecture.spec()


def _table(candidates: "Sequence[Candidate]", caption: str, scores: Mapping[Any, float] | None) -> "Table":
    """A row for each candidate, the best one first."""
    from rich.table import Table

    from lgx.initialization.sizing import amount

    table = Table("depth", "embed_dim", "num_heads", "mlp_ratio", "parameters", "MACs")
    table.caption, table.caption_justify = caption, "left"
    if candidates[0].latency:
        table.add_column("latency (ms)")
    if scores is not None:
        table.add_column("k-NN (%)")
    for candidate in candidates:
        network, cost = candidate.architecture, candidate.cost
        numbers = (network.depth, network.embed_dim, network.num_heads, network.mlp_ratio)
        cells = [*(f"{value:g}" for value in numbers), amount("params", cost.parameters), amount("macs", cost.macs)]
        cells += [f"{1e3 * candidate.latency:.3g}"] if candidate.latency else []
        cells += [] if scores is None else [f"{100 * scores[network]:.2f}"]
        table.add_row(*cells)
    return table


def _notes(first: "Candidate", budgets: "Sequence[Budget]") -> Iterator[str]:
    """Which budgets the first candidate does not use up, and why."""
    from lgx.initialization.sizing import amount

    tight = " and ".join(str(budget) for budget in budgets if first.value(budget) >= budget.least)
    for budget in budgets:
        if (value := first.value(budget)) < budget.least:
            reason = f"{tight} is tighter" if tight else "no size that the start fills is closer"
            less = f"{100 * (1 - value / budget.limit):.0f} % less than {budget}"
            yield f"note      {amount(budget.quantity, value)}, {less}: {reason}"


def with_options_of(initializers: "Sequence[InitializerOption]") -> "list[InitializerOption]":
    """The options of a budget and those of the initializers; what both have (``data``) is one option."""
    from lgx.methods.initializers import InitializerOption

    helps = {entry.arg_name: entry.description or "" for entry in parse_docstring(str(SizeChoice.__doc__)).params}
    own = {
        name: InitializerOption(name, kind, " ".join(helps[name].split()))
        for name, kind in get_type_hints(SizeChoice).items()
    }
    for option in initializers:
        both = own.get(option.name)
        own[option.name] = option if both is None else both._replace(help=f"{both.help} {option.help}")
    return list(own.values())


def split_options(options: Mapping[str, Any]) -> tuple[SizeChoice, dict[str, Any]]:
    """Divide the options of ``lgx init`` into those of a budget and those of an initializer.

    What both have goes to each that uses it: to a budget that is given, and to a method that takes it.
    """
    from lgx.methods.initializers import takes_option

    names = {field.name for field in fields(SizeChoice)}
    own = {name: value for name, value in options.items() if name in names}
    rest = {name: value for name, value in options.items() if name not in names}
    if takes_option(options.get("method"), "data"):
        data = rest["data"] = own.get("data")  # Python passes the options that are given, and no others
        is_budget = any(own.get(option) for option in ("params", "macs", "latency"))
        if data and not (is_budget and (Path(data) / "train").is_dir()):
            own["data"] = None  # the method also measures on images without classes, which order no sizes
    return SizeChoice(**own), rest


def _device(accelerator: str | None) -> str:
    import torch

    if accelerator == "gpu" and not torch.cuda.is_available():
        raise UserError("--accelerator gpu: no GPU is available; write --accelerator cpu")
    return "cuda" if accelerator != "cpu" and torch.cuda.is_available() else "cpu"

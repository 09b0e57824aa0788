"""The size of a descendant by budget, for ``lgx init``."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from docstring_parser import parse as parse_docstring

if TYPE_CHECKING:
    from lgx.initialization import Initializer
    from lgx.initialization.sizing import Budget, Space
    from lgx.methods.initializers import InitializerOption


@dataclass(frozen=True)
class SizeOptions:
    """Budgets, which are upper limits and met within 2 %, and how latency is measured.

    Depth, width and MLP ratio are chosen among the sizes that the start can fill. Of the sizes that meet the budgets,
    the one closest to the source's ratios of depth to width and of MLP to width is written.

    Attributes:
        params: Budget of parameters, e.g. 9M: chooses depth, width and MLP ratio among those that the start can fill.
        macs: Budget of multiply-accumulates of one example, e.g. 1.2G.
        latency: Budget of time of a forward pass on this machine, e.g. 5ms.
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
        from lgx.errors import UserError
        from lgx.initialization.sizing import Space, parse_budgets

        budgets = parse_budgets(self.params, self.macs, self.latency)
        for option in ("batch_size", "accelerator"):
            if getattr(self, option) is not None and self.latency is None:
                raise UserError(f"--{option}: says how latency is measured; give --latency, too")
        if self.data is not None and not budgets:
            raise UserError("--data: orders the sizes that meet a budget; give --params, --macs or --latency, too")
        if budgets:
            classes = num_classes or initializer.origin().num_classes or ViTArchitecture().num_classes
            space = Space.of(initializer.sizes(), initializer.method, arch, classes)
            return self._chosen(initializer, budgets, space, seed)
        if arch is None:
            raise UserError("--arch: name the descendant (6-Small), or give a budget: --params, --macs or --latency")
        return arch

    def _chosen(self, initializer: "Initializer", budgets: "list[Budget]", space: "Space", seed: int) -> str:
        """Print the sizes that meet the budgets best, and return the first one."""
        from rich.console import Console

        from lgx.core.provenance import hardware
        from lgx.initialization.sizing import candidate_table, find_sizes

        batch, device = self.batch_size or 1, _device(self.accelerator)
        found = find_sizes(space, budgets, batch=batch, device=device)
        candidates, scores = found.candidates, None
        caption = f"{space.like.num_classes} classes, {space.like.img_size} px; the first one is written"
        if any(budget.what == "latency" for budget in budgets):
            caption += f"\nlatency of {batch} image(s), float32, {hardware(device == 'cuda')}: median and quartiles"
        if self.data is not None:
            from lgx.commands.untrained import knn_scores

            scores = knn_scores([candidate.architecture for candidate in candidates], initializer, self.data, seed)
            alike = sorted(candidates[: found.equal], key=lambda candidate: -scores[candidate.architecture])
            candidates = [*alike, *candidates[found.equal :]]
            caption += f"\nk-NN: validation images of {self.data}, before training; they order equal sizes"
        Console().print(candidate_table(candidates, caption, scores))
        for note in found.notes:
            print(note)
        spec = candidates[0].architecture.spec()
        print(f"chosen    --arch {spec}")
        return spec

    def __post_init__(self) -> None:
        from lgx.errors import UserError

        if self.batch_size is not None and self.batch_size < 1:
            raise UserError(f"--batch_size: expected at least 1, got {self.batch_size}")


def size_options() -> "list[InitializerOption]":
    """The options of a budget, for the command line."""
    from lgx.methods.initializers import InitializerOption

    helps = {
        entry.arg_name: entry.description or "" for entry in parse_docstring(inspect.getdoc(SizeOptions) or "").params
    }
    kinds = get_type_hints(SizeOptions)
    return [InitializerOption(f.name, kinds[f.name], " ".join(helps[f.name].split())) for f in fields(SizeOptions)]


def with_options_of(initializers: "Sequence[InitializerOption]") -> "list[InitializerOption]":
    """The options of a budget and those of the initializers; what both have (``data``) is one option."""
    own = {option.name: option for option in size_options()}
    for option in initializers:
        both = own.get(option.name)
        own[option.name] = option if both is None else both._replace(help=f"{both.help} {option.help}")
    return list(own.values())


def split_options(options: Mapping[str, Any]) -> tuple[SizeOptions, dict[str, Any]]:
    """Divide the options of ``lgx init`` into those of a budget and those of an initializer.

    What both have goes to each that uses it: to a budget that is given, and to a method that takes it.
    """
    from lgx.methods.initializers import takes_option

    names = {field.name for field in fields(SizeOptions)}
    own = {name: value for name, value in options.items() if name in names}
    rest = {name: value for name, value in options.items() if name not in names}
    if takes_option(options.get("method"), "data"):
        data = rest["data"] = own.get("data")  # Python passes the options that are given, and no others
        is_budget = any(own.get(option) for option in ("params", "macs", "latency"))
        if data and not (is_budget and (Path(data) / "train").is_dir()):
            own["data"] = None  # the method also measures on images without classes, which order no sizes
    return SizeOptions(**own), rest


def _device(accelerator: str | None) -> str:
    import torch

    from lgx.errors import UserError

    if accelerator == "gpu" and not torch.cuda.is_available():
        raise UserError("--accelerator gpu: no GPU is available; write --accelerator cpu")
    return "cuda" if accelerator != "cpu" and torch.cuda.is_available() else "cpu"

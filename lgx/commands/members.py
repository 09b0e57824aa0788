"""Choose the network of a family by its size or by budgets."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch

from lgx.architectures import Architecture
from lgx.artifacts.pretrained import PretrainedNetwork, load_pretrained
from lgx.artifacts.sources import is_learngene
from lgx.errors import UserError
from lgx.initialization import Front, Initializer, initialize
from lgx.initialization.sizing import Budget, Stopwatch, enough
from lgx.methods.initializers import initializer_for


def load_chosen(
    place: str, arch: str | None, budgets: Sequence[Budget]
) -> tuple[PretrainedNetwork, Mapping[str, float] | None]:
    """Load a trained network; of a family, load the chosen network.

    Args:
        place: Place of a :class:`~lgx.artifacts.sources.Source`.
        arch: The network of a family.
        budgets: Upper limits.

    Returns:
        The network and, for a member of a family, its measured score by tag (``val/acc``); otherwise None.
    """
    initializer = initializer_for(source=place) if is_learngene(place) else None
    front = initializer.front if initializer else None
    chooses = arch is not None or bool(budgets)
    options = "--arch, --params, --macs or --latency"
    if initializer is None or front is None:
        if chooses:
            raise UserError(
                f"{place}: is not a family of finished networks, so {options} cannot choose one; leave it out, or "
                "start another size with `lgx init`"
            )
        return load_pretrained(place), None
    if not chooses:
        raise UserError(f"{place}: contains a network of every size; choose one with {options}")
    if budgets:
        member = best_member(initializer, front, arch, budgets)
    else:
        member = initializer.named_size(str(arch), None)
    origin = initializer.origin()
    start = initialize(member, initializer)
    half = (0.5,) * getattr(member, "in_chans", 0)
    names = origin.label_names or ()
    normalization = ((), ()) if member.reads_text else (origin.mean or half, origin.std or half)
    space = initializer.space(member)
    if space is not None:
        cast(Any, start.model).pooling = space.pooling
    network = PretrainedNetwork(
        place, start.model.eval(), start.architecture, *normalization, space is None, names, origin.reading, space=space
    )
    score = front.scores.get(member)
    return network, {} if score is None else {f"val/{front.metric}": score}


def best_member(initializer: Initializer, front: Front, arch: str | None, budgets: Sequence[Budget]) -> Architecture:
    """The size within the budgets that has the best validation score; of equal scores the smallest size.

    Args:
        initializer: Makes the networks of a family.
        front: The sizes that were measured, and their scores.
        arch: Fixed values, e.g. ``depth=6``.
        budgets: Upper limits, at least one.
    """
    limits = " and ".join(map(str, budgets))
    if not front.scores:
        raise UserError(
            f"{limits}: the family was trained without validation, so no best size is known; name a size with --arch"
        )
    wanted = initializer.named_size(arch, None) if arch else None
    fixed = [part.partition("=")[0].strip() for part in arch.split(",") if "=" in part] if arch else []
    stopwatch = Stopwatch(1, "cuda" if torch.cuda.is_available() else "cpu")
    of_form = [size for size in front.scores if all(getattr(size, key) == getattr(wanted, key) for key in fixed)]
    of_form = of_form if fixed or wanted is None else [size for size in of_form if size == wanted]
    if not of_form:
        raise UserError(f"--arch {arch}: this size was not measured; leave out the budget, or choose another size")
    fitting = [size for size in of_form if all(stopwatch.taken(size, budget) <= budget.limit for budget in budgets)]
    if not fitting:
        least = [enough(b.quantity, min(stopwatch.taken(size, b) for size in of_form)) for b in budgets]
        raise UserError(
            f"{limits}: the smallest measured network takes {' and '.join(least)}; raise the budget, or name a "
            "smaller network with --arch"
        )
    best = max(fitting, key=lambda size: (front.gain(size), -size.count_parameters()))
    size = initializer.size_text(best)
    print(f"chosen    the best validation score of {len(fitting)} sizes within {limits}: --arch {size}")
    return best

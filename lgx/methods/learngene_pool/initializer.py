"""The networks of a pool: instances as starts, and stitched networks, which are finished."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from torch import Tensor

from lgx.architectures import Architecture, name_of
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import PretrainedNetwork
from lgx.core.task import Task, height_width
from lgx.errors import UserError
from lgx.initialization import Initializer, Origin, Sizes
from lgx.initialization.sizing import Budget, Stopwatch, enough
from lgx.methods.learngene_pool import SPEC
from lgx.methods.learngene_pool.pool import INSTANCES, Member, Pair, members, read_pool, size_text


class PoolMembers(Initializer):
    """A network of a pool: an instance, or the first blocks of the narrow one, a map and the last of the wide one.

    An instance is a plain ViT, which ``--arch`` names and ``lgx fit`` fine-tunes. A stitched network is finished:
    ``--stitch`` or a budget chooses it, and ``lgx init`` writes it as a folder with a note, ONNX or a program.

    Args:
        source: Learngene file of ``lgx fit --model LearngenePool``.
        stitch: Number of a network of the pool: 0 and 1 are the instances, then come the stitched networks.
    """

    method = SPEC.name

    def __init__(self, source: str, stitch: int | None = None) -> None:
        self.source, self.stitch = source, stitch

    @cached_property
    def loaded(self) -> tuple[Learngene, Pair]:
        """The pool, and the sizes of its instances."""
        return read_pool(self.source)

    @property
    def stored_parameters(self) -> int:
        """All parameters of the pool."""
        return self.loaded[0].num_parameters

    def origin(self) -> Origin:
        """What the learngene file stores."""
        return Origin.of_learngene(self.loaded[0])

    def sizes(self) -> Sizes:
        """The wide instance; a budget chooses among all networks, see :meth:`finished`."""
        return Sizes.fixed(self.loaded[1][1])

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The parameters of an instance."""
        if self.stitch is not None:
            raise UserError(f"{self.method}: stitch is an option of `lgx init`, whose networks are finished")
        learngene, pair = self.loaded
        sizes = ("depth", "embed_dim", "num_heads", "mlp_ratio")
        for name, instance in zip(INSTANCES, pair, strict=True):
            if all(getattr(instance, key) == getattr(architecture, key) for key in sizes):
                named = {k: tensor for k, tensor in learngene.tensors.items() if k.startswith(f"{name}.")}
                return {k.removeprefix(f"{name}."): tensor for k, tensor in named.items()}
        names = " and ".join(map(size_text, pair))
        raise UserError(f"{self.source}: its instances are {names}, not {name_of(architecture)}; give --stitch")

    def finished(self, arch: str | None, budgets: Sequence[Budget]) -> PretrainedNetwork | None:
        """See :class:`~lgx.initialization.Initializer`: by ``stitch``, or the largest network within budgets."""
        if self.stitch is None and not budgets:
            return None
        if arch is not None or (budgets and self.stitch is not None):
            raise UserError("--arch, --stitch and budgets: each chooses a network of the pool; give one of them")
        learngene, pair = self.loaded
        listed = members(pair)
        if self.stitch is not None and not 0 <= self.stitch < len(listed):
            raise UserError(f"--stitch {self.stitch}: the pool has the networks 0 to {len(listed) - 1}")
        member = listed[self.stitch] if self.stitch is not None else _largest(listed, budgets)
        origin = self.origin()
        wide = pair[1]
        model: Any = member.build(None, learngene.tensors)
        model.pretrained_cfg = {"input_size": (wide.in_chans, *height_width(wide.img_size))}
        unknown = "" if member.instance else f"{member.name} has blocks of two widths, and is no plain ViT of timm"
        half = (0.5,) * wide.in_chans
        return PretrainedNetwork(
            self.source, model.eval(), member.instance, origin.mean or half, origin.std or half,
            bool(wide.num_classes), origin.label_names or (), origin.reading, unknown,
        )  # fmt: skip


def _largest(listed: Sequence[Member], budgets: Sequence[Budget]) -> Member:
    """The network with the most parameters within the budgets."""
    stopwatch = Stopwatch()
    fitting = [each for each in listed if all(stopwatch.taken(each, budget) <= budget.limit for budget in budgets)]
    if not fitting:
        least = " and ".join(enough(b.quantity, min(stopwatch.taken(each, b) for each in listed)) for b in budgets)
        limits = " and ".join(map(str, budgets))
        raise UserError(f"{limits}: the smallest network of the pool takes {least}; raise the budget")
    return max(fitting, key=Member.count_parameters)

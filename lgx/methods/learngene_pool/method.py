"""Learngene Pool: the training of both stages."""

import random
import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lgx.architectures import Architecture, ViTArchitecture, vit_only
from lgx.architectures.class_order import class_order, with_class_order
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import architecture_of
from lgx.core.batch import Batch
from lgx.core.rows import Evaluation
from lgx.core.seed import run_seed
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.methods.base import Method
from lgx.methods.distillation.method import Distill
from lgx.methods.learngene_pool import SPEC
from lgx.methods.learngene_pool.pool import (
    INSTANCES,
    Member,
    Pair,
    PoolNetwork,
    instances_of,
    least_squares_stitches,
    members,
    read_pool,
    size_text,
    with_stitches,
)
from lgx.methods.several_networks import SeveralNetworks

_COMPARED = {"narrow": 3, "wide": 1}
"""Number of compared blocks of each instance."""
_PARTS = ("blocks", "attention")
_SAMPLE = 100
"""Training images of stitches that start by least squares, as in the paper."""


def matched_blocks(depth: int, whole: int, count: int) -> list[tuple[int, int]]:
    """Blocks of an instance of this depth, each with the block of the ancestor at the same share of its depth."""
    count = min(count, depth)
    return [(-(-depth * k // count) - 1, -(-whole * k // count) - 1) for k in range(1, count + 1)]


@contextmanager
def captured(network: Any) -> Iterator[dict[tuple[str, int], Tensor]]:
    """Note the outputs of blocks and of their attentions, before the residual sum, (B, N, D), of passes within."""
    outputs: dict[tuple[str, int], Tensor] = {}

    def note(key: tuple[str, int], module: nn.Module, inputs: Any, output: Tensor) -> None:
        outputs[key] = output

    with ExitStack() as hooks:
        for index, block in enumerate(network.blocks):
            hooks.enter_context(block.register_forward_hook(partial(note, ("blocks", index))))
            hooks.enter_context(block.attn.register_forward_hook(partial(note, ("attention", index))))
        yield outputs


class LearngenePool(SeveralNetworks, Distill):
    """Distill small networks from an ancestor, then train linear maps that stitch them to networks of further sizes.

    Without ``pool``, the first stage: two networks of few layers (the instances), a narrow one and one of the
    ancestor's width, learn from the ancestor::

        (1 - α) CE(p, y) + α (CE(p, p_t) + Σ MSE(block, map(block_t)) + Σ MSE(attention, map(attention_t)))

    Each compared position has one linear map for outputs of blocks, and one for outputs of attentions before the
    residual sum. The maps bring the *ancestor's* tensors to the width of the instance. Of the narrow instance of L
    layers, the blocks L/3, 2L/3 and L are compared with those at the same shares of the ancestor's depth; of the wide
    one the last. The losses of both are added, so that each is trained as if alone.

    With ``pool``, the second stage: a window of two blocks slides over both instances, each window with one linear
    map, the stitch. A stitched network is the first blocks of the narrow instance, a stitch, and the last blocks of the
    wide one. Each update trains one random network: ``(1 - α) CE(p, y) + α CE(p, p_t)``. A stitch starts as the mean
    of the narrow instance's maps of block outputs, transposed, or by least squares on 100 training images.

    The departures from the paper and its released code are in ``docs/methods.md``.

    Shi et al., "Building Variable-Sized Models via Learngene Pool", AAAI 2024, https://arxiv.org/abs/2312.05743

    Args:
        ancestor: The teacher, see :class:`Distill`; ``arch`` is its architecture.
        pool: Learngene file of the first stage, for the second stage.
        width: Width of the narrow instance, whose heads keep their width; by default a quarter of the heads.
        depth: Number of layers of the instances; by default half of the ancestor's.
        stitch_start: Start of stitches in the second stage: ``maps`` or ``least_squares``.
        alpha: Share α of what the ancestor teaches; by default the paper's, 0.9, and 0.5 in the second stage.
        kwargs: Arguments of ``Distill`` and of every method; ``start`` and ``guidance`` cannot be given.
    """

    spec = SPEC
    plain_network = False
    arch_option = "ancestor"

    def __init__(
        self,
        ancestor: str,
        pool: str | None = None,
        width: int | None = None,
        depth: int | None = None,
        stitch_start: Literal["maps", "least_squares"] = "maps",
        alpha: float | None = None,
        **kwargs: Any,
    ) -> None:
        alpha = (0.9 if pool is None else 0.5) if alpha is None else alpha
        super().__init__(ancestor=ancestor, guidance="logits", start="random", alpha=alpha, **kwargs)
        if self.compile_network:
            raise UserError("model.compile: LearngenePool trains parts of networks; leave it out")
        if pool is None and stitch_start != "maps":
            raise UserError(f"model.stitch_start: {stitch_start} is for the second stage; give model.pool")
        self.pool, self.width, self.depth = pool, width, depth
        self.stitch_start = stitch_start

    # -- sizes ----------------------------------------------------------------------------------------------------

    @cached_property
    def architecture(self) -> ViTArchitecture:
        """The ancestor's."""
        architecture = vit_only(self.task_architecture, "model LearngenePool")
        if not architecture.is_plain or architecture.stages:
            raise UserError("model.arch: LearngenePool supports plain ViTs without stages; choose another ancestor")
        return architecture

    @cached_property
    def pair(self) -> Pair:
        """The sizes of the instances."""
        whole = self.architecture
        width = self.width or max(1, whole.num_heads // 4) * whole.head_width
        try:
            return instances_of(whole, width, self.depth or max(1, whole.depth // 2))
        except UserError as error:
            raise UserError(f"model.width, model.depth: {error}") from error

    @cached_property
    def members(self) -> list[Member]:
        """The networks that are trained and measured: in the first stage the instances."""
        return members(self.pair)[: None if self.pool else 2]

    @cached_property
    def positions(self) -> dict[str, list[tuple[int, int]]]:
        """Compared blocks of each instance and of the ancestor."""
        depths = self.pair[0].depth, self.architecture.depth
        return {name: matched_blocks(*depths, count) for name, count in _COMPARED.items()}

    def stored_pool(self) -> dict[str, Tensor]:
        """The pool of the first stage, which must have had the same instances and data."""
        learngene, pair = read_pool(self.pool or "")
        if pair != self.pair:
            names = " and ".join(map(size_text, pair))
            raise UserError(
                f"model.pool: {self.pool} has the instances {names} with {learngene.architecture.outputs}; give its "
                "ancestor and task, and the same model.width and model.depth"
            )
        task = self.task.to_dict() if self.task else {}
        differing = [key for key in ("class_names", "mean", "std") if task.get(key) != learngene.task.get(key)]
        if differing:
            raise UserError(f"model.pool: {self.pool} was trained with other {differing[0]}; give the same data")
        return learngene.tensors

    @property
    def varying_graph(self) -> bool:
        """A step of the second stage trains one network."""
        return self.pool is not None

    # -- network --------------------------------------------------------------------------------------------------

    def check_task(self, task: Task) -> None:
        """Refuse a task without labels."""
        Method.check_task(self, task)

    def setup(self, stage: str) -> None:
        """See :class:`~lgx.methods.base.Method`; refuse an ancestor of other sizes than ``arch``."""
        super().setup(stage)
        if self.teacher is not None:
            self.check_ancestor(vit_only(architecture_of(self.ancestor or ""), "model.ancestor"))

    def build_network(self) -> nn.Module:
        """The instances with their maps, at random; or those of the pool with its stitches."""
        network = PoolNetwork(self.pair, None, self.drop_rate)
        if self.pool is None:
            del network.stitches
            network.maps = nn.ModuleDict()
            for instance, (name, positions) in zip(self.pair, self.positions.items(), strict=True):
                widths = self.architecture.embed_dim, instance.embed_dim
                network.maps[name] = nn.ModuleDict(
                    {part: nn.ModuleList(nn.Linear(*widths) for _ in positions) for part in _PARTS}
                )
        elif self._trainer is not None and not self.is_restored:
            network.load_state_dict(self.stored_pool())
            if self.stitch_start == "least_squares":
                data = self.data_module()
                batches = [data.on_after_batch_transfer(each, 0) for each in data.reference_dataloader(_SAMPLE, False)]
                images = torch.cat([batch.inputs for batch in batches])
                network.load_state_dict(least_squares_stitches(network, images), strict=False)
        return network

    # -- training -------------------------------------------------------------------------------------------------

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Draw the network of the update, the same on all processes."""
        super().on_train_batch_start(batch, batch_idx)
        if self.pool is not None:
            member: Any = random.Random(repr((run_seed(), self.global_step))).choice(self.members)
            self.drawn = [member]  # it is counted like an architecture

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """``loss`` and its parts, summed over the instances in the first stage."""
        teacher = self._teacher_of(batch)
        if self.pool is not None:
            logits = self.network(batch.inputs, (self.drawn or self.members)[0])
            return self.weighted(batch, logits, self.distilled(logits, teacher(batch.inputs), batch.targets))
        with captured(teacher.model) as wanted:
            answers = teacher(batch.inputs)
        sums: dict[str, Tensor] = {}
        for instance in INSTANCES:
            for name, loss in self._instance_losses(instance, batch, answers, wanted).items():
                sums[name] = sums[name] + loss if name in sums else loss
        return sums

    def _instance_losses(
        self, instance: str, batch: Batch, answers: Tensor, wanted: Mapping[tuple[str, int], Tensor]
    ) -> dict[str, Tensor]:
        """Losses of one instance; ``wanted`` are tensors of the ancestor."""
        network = getattr(self.network, instance)
        maps: Any = self.network.maps
        with captured(network) as outputs:
            logits = network(batch.inputs)
        losses = self.weighted(batch, logits, self.distilled(logits, answers, batch.targets))
        for part in _PARTS:
            distances = [
                F.mse_loss(outputs[part, ours].float(), linear(wanted[part, theirs]).float())
                for (ours, theirs), linear in zip(self.positions[instance], maps[instance][part], strict=True)
            ]
            losses[f"loss_{part}"] = torch.stack(distances).sum()
            losses["loss"] = losses["loss"] + self.alpha * losses[f"loss_{part}"]
        return losses

    # -- evaluation -----------------------------------------------------------------------------------------------

    @property
    def measured_names(self) -> list[str]:
        """The names of the trained networks."""
        return [member.name for member in self.members]

    def measured_logits(self, index: int, inputs: Tensor) -> Tensor:
        """Logits of one of them."""
        return cast(Tensor, self.network(inputs, self.members[index]))

    def evaluations(self, split: str) -> list[Evaluation]:
        """Every trained network under its own tags."""
        task = self.task.name if self.task else ""
        return [
            Evaluation(task, name, f"{split}/{name}", name, f"_{index}")
            for index, name in enumerate(self.measured_names)
        ]

    def evaluated(self, evaluation: Evaluation) -> Architecture:
        """See :class:`~lgx.methods.evaluation.EvaluatedModule`."""
        return cast(Architecture, next(each for each in self.members if each.name == evaluation.architecture))

    def forward(self, inputs: Tensor) -> Tensor:
        """Refused: a pool has several networks."""
        raise UserError("predict: a pool has several networks; write one as .onnx with `lgx init --stitch`")

    # -- what the run leaves --------------------------------------------------------------------------------------

    def next_command(self, folder: Path) -> str:
        """See :class:`~lgx.methods.base.Method`: the second stage, or the first stitched network."""
        source = shlex.quote(str(folder))
        if self.pool is None:
            return f"lgx fit --config {shlex.quote(str(folder / 'config.yaml'))} --model.pool {source} --name stitched"
        return f"lgx init --source {source} --stitch 2 --out small.onnx"

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """The instances and the stitches."""
        tensors = with_stitches(state, self.pair[0].depth) if self.pool is None else dict(state)
        return Learngene(self.method, self.architecture, tensors, ancestor=self.ancestor or "", content="pool")

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """See :class:`~lgx.methods.base.Method`; also order the classes of all heads."""
        super().on_load_checkpoint(checkpoint)
        stored = checkpoint["lgx"].get("task", {}).get("class_names") or ()
        order = class_order(stored, self.task.class_names if self.task else (), "--ckpt_path")
        for instance in INSTANCES:
            state = checkpoint["state_dict"]
            checkpoint["state_dict"] = with_class_order(state, self.architecture, order, f"network.{instance}.")

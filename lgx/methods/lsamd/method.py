"""LSAMD: selection of the ancestor's layers that many data sets share."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from lightning.pytorch.callbacks import WeightAveraging
from torch import Tensor, nn

from lgx.architectures import full_name
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.sources import recorded_name
from lgx.components.metrics import metrics_for, was_measured
from lgx.components.optim import parameter_groups
from lgx.core.batch import Batch
from lgx.core.eval_transforms import renormalize
from lgx.core.rows import Evaluation
from lgx.core.schema import check_option
from lgx.core.task import Task, shared_metric
from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.methods.base import Method
from lgx.methods.baselines.pretrained import Pretrained
from lgx.methods.evaluation import refuse_parts
from lgx.methods.lsamd import SPEC
from lgx.methods.lsamd.selection import SelectionRun, extract_learngene, headless
from lgx.methods.lsamd.super_ancestor import (
    Gate,
    ImageSums,
    Routing,
    SuperAncestor,
    Token,
    price_of,
    random_path,
    swapped_paths,
    without_head,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class LSAMD(Method):
    """Select the layers of an ancestor that many data sets use unchanged; they are the learngene [0].

    Every layer of the ancestor keeps its frozen base block. For each data set it gets a block of its own, which starts
    as a copy and is trained, and an adapter that chooses between the two. A base block that wins on more than
    ``threshold`` data sets joins the learngene (Eq. 3). ``super_ancestor.py`` explains the routing.

    The paper does not say what else is trained. We train one block and one adapter per layer and one head for each data
    set, and nothing of the ancestor. Data sets then share no trained parameter: one run may select on all of them
    (``MultiTask``), or each has a run of its own, and ``lgx extract`` merges the runs. With one run per data set, the
    device holds only that data set's blocks, as many parameters as the ancestor's layers have.

    The paper leaves open how the adapters learn, which token they read, and why a frozen block should ever win. With
    nothing added, an adapter is trained on the block that it chose and compares nothing: two such selections agree, but
    also where they learned nothing. That selection is ``gate=chosen``, ``token=class``, ``price=0``,
    ``random_paths=0``; its rows are named ``lsamd``. The defaults are ours, and search: the adapters compare both
    blocks, which random paths have trained beside each other, and own blocks have a price. Their rows are named
    ``lsamd_priced``.

    [0]: Shi et al., "Learngene Search Across Multiple Datasets for Building Variable-Sized Models", 2026,
    https://arxiv.org/abs/2605.08209

    Args:
        ancestor: Source of the base blocks: learngene file, folder, checkpoint or timm model name.
        routing: ``batch`` (the paper's choice) or ``image`` (its Table 3).
        threshold: τ: a layer joins the learngene if more than this many data sets use it; by default half of all data
            sets.
        gate: How the adapters learn, see ``SuperAncestor``. ``compared`` compares the two blocks of a layer;
            ``chosen`` does not.
        token: What the adapters read: the ``class`` token, or the ``mean`` of all tokens. Of texts it is the mean.
        price: λ of ``loss + λ Σ_i P(h_i^D)``. A trained block is rarely worse than a frozen block. So without a price,
            a gate that compares chooses the own block in most layers; with too high a price, in none. With 0.03, about
            half of the choices on DeiT-Tiny and five sets are for the base block.
        random_paths: Share of the training, from its start, with a random block in each layer, as in single-path
            one-shot search (Guo et al., 2020). So own blocks also learn beside base blocks.
        measure_swaps: Whether each validation also measures the rise of the loss without a data set's own block, layer
            by layer. This costs one more validation per layer.
        kwargs: Arguments of every method. ``arch`` is the ancestor's architecture.
    """

    spec = SPEC
    learngene_of_best = False  # paths count at the end of training; before it, they may be those of random paths

    def __init__(
        self,
        ancestor: str,
        routing: Routing = "batch",
        threshold: float | None = None,
        gate: Gate = "compared",
        token: Token = "mean",
        price: float = 0.03,
        random_paths: float = 0.5,
        measure_swaps: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_option("threshold", threshold or 0, threshold is None or threshold >= 0, "at least 0")
        check_option("price", price, price >= 0, "at least 0")
        check_option("random_paths", random_paths, 0 <= random_paths < 1, "a share in [0, 1)")
        if self.mix is not None:
            raise UserError("model.mixup, model.cutmix: mixed images have no path of one data set; leave both at 0")
        if self.drop_rate:
            option = "dropout" if self.parsed_architecture.reads_text else "drop_path_rate"
            raise UserError(f"model.{option}: a dropped layer chooses no block; leave it at 0")
        self.ancestor, self.routing, self.threshold = ancestor, routing, threshold
        self.measure_swaps = measure_swaps
        self.gate, self.token, self.price, self.random_paths = gate, token, price, random_paths
        self.steps_of_run = 0  # known where random paths need it
        self.path: list[bool] | None = None
        self.base_mean: tuple[float, ...] = ()
        self.base_std: tuple[float, ...] = ()

    @property
    def method(self) -> str:
        """``lsamd`` with the gate's suffix, and ``_image`` with that routing: ``lsamd_priced_image``."""
        return self.spec.name + self.suffix + ("" if self.routing == "batch" else "_image")

    @property
    def suffix(self) -> str:
        """What results add to ``lsamd``: nothing for the gate that compares nothing, ``_priced`` with a price."""
        return "_priced" if self.price else "" if self.gate == "chosen" else f"_{self.gate}"

    @property
    def super_ancestor(self) -> SuperAncestor:
        """The network that is trained."""
        return cast(SuperAncestor, self.network)

    def figures(self) -> dict[str, "Figure"]:
        """P(h^B|x) by layer and data set in the last validation."""
        from lgx.methods.lsamd.selection import routing_figure

        shares = {name: self.super_ancestor.branch(i).probability.tolist() for i, name in enumerate(self.tasks)}
        return {"routing": routing_figure({f"P(base), routed by {self.routing}": shares})}

    def on_fit_start(self) -> None:
        """Refuse averaged weights: the selection is measured with one network, and another one would be stored."""
        trainer: Any = self.trainer  # its attributes come from connectors that have no types
        if any(isinstance(callback, WeightAveraging) for callback in trainer.callbacks):
            raise UserError("trainer.callbacks: a selection does not average weights; leave WeightAveraging out")
        if self.random_paths:
            self.steps_of_run = self.total_steps()

    @property
    def varying_graph(self) -> bool:
        """A batch trains the branch of its data set alone."""
        return True

    def set_tasks(self, tasks: dict[str, Task]) -> None:
        """Select on these data sets, each by its name."""
        self.tasks = tasks
        self.eval_metrics = nn.ModuleDict()
        for split in ("val", "test"):
            for number, task in enumerate(tasks.values()):
                self.eval_metrics[f"{split}_metrics_{number}"] = metrics_for(task, split)
        depth = self.architecture.depth
        self.preferences = nn.ModuleList(ImageSums(2, depth) for _ in tasks)  # who prefers the base, and P(h^B|x)
        self.swapped_losses = nn.ModuleList(ImageSums(1 + depth) for _ in tasks)  # of the swapped paths

    def build_network(self) -> nn.Module:
        """The ancestor with a branch for every data set."""
        ancestor = Pretrained(self.ancestor)
        source = ancestor.loaded
        self.base_mean, self.base_std = source.mean, source.std
        architecture = headless(self.architecture)
        base = without_head(initialize(architecture, ancestor, head="new").model, architecture)
        options = self.routing, self.gate, self.token, self.measure_swaps
        network = SuperAncestor(base, list(self.tasks.values()), *options, layers=architecture.layers)
        trained = sum(p.numel() for p in network.branch(0).parameters())
        self.print(f"selecting  {len(self.tasks)} data set(s), {trained:,} parameters trained for each")
        return network

    def trained_groups(self) -> list[dict[str, Any]]:
        """Groups of each data set."""
        branches = map(self.super_ancestor.branch, range(len(self.tasks)))
        return list(chain(*map(parameter_groups, branches)))

    def route(self, batch: Batch, path: Sequence[bool] | None = None) -> tuple[Tensor, Tensor]:
        """Logits (B, K) of a batch, and P(h^B|x) of every layer and image (L, B); ``path`` as in ``SuperAncestor``."""
        inputs = renormalize(batch.inputs, self.tasks[batch.task], self.base_mean, self.base_std)
        return cast(tuple[Tensor, Tensor], self.network(inputs, self.number(batch.task), path))

    def number(self, task: str) -> int:
        """Position of a data set."""
        return list(self.tasks).index(task)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Draw the path of a step with random blocks; its own blocks are the network that is drawn."""
        super().on_train_batch_start(batch, batch_idx)
        depth = self.architecture.depth
        self.path = random_path(self.random_paths, self.global_step, self.steps_of_run, depth)
        layers = self.path.count(False) if self.path else 0
        self.drawn = [self.architecture.replace(depth=layers)] if layers else []

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy with labels; with a price ``loss``, and its parts ``loss_labels`` and ``loss_price``."""
        logits, probabilities = self.route(batch, self.path)
        labels = self.label_loss(logits, batch.targets)
        if not self.price:
            return {"loss": labels}
        price = self.price * price_of(probabilities) if self.path is None else torch.zeros_like(labels)
        return {"loss": labels + price, "loss_labels": labels, "loss_price": price}

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Logits, (B, K), float32; a data set for segmentation is refused."""
        refuse_parts(self.tasks[batch.task].kind)
        return self.route(batch)[0].float()

    def evaluations(self, split: str) -> list[Evaluation]:
        """The ancestor on every data set, each under its own tags."""
        name = full_name(self.architecture)
        is_single = len(self.tasks) == 1
        return [
            Evaluation(task, name, self.tag(split, task), "" if is_single else task, f"_{number}")
            for number, task in enumerate(self.tasks)
        ]

    def evaluate_batch(self, batch: Batch, split: Literal["val", "test"]) -> None:
        """Update and log the metrics of one batch; in validation also which blocks its images prefer."""
        logits, probabilities = self.route(batch)
        number = self.number(batch.task)
        tag = self.tag(split, batch.task)
        shown = self.tasks[batch.task].metric if tag == split else ""
        self.measure_logits(split, logits, batch.targets, tag, f"_{number}", shown)
        if split == "val":
            sums = torch.stack([(probabilities >= 0.5).sum(dim=1), probabilities.sum(dim=1)])
            cast(ImageSums, self.preferences[number]).update(sums, probabilities.shape[1])
            if self.measure_swaps:
                paths = swapped_paths(self.architecture.depth)
                losses = [self.label_loss(self.route(batch, path)[0], batch.targets) for path in paths]
                images = len(batch.inputs)
                cast(ImageSums, self.swapped_losses[number]).update(torch.stack(losses) * images, images)

    def on_validation_epoch_end(self) -> None:
        """Store which blocks each data set prefers, and log the mean score, which chooses the best checkpoint."""
        for number, (name, preference) in enumerate(zip(self.tasks, self.preferences, strict=True)):
            sums, images = cast(ImageSums, preference).compute()
            share, probability = sums / images
            cast(ImageSums, preference).reset()
            if share.isnan().any():  # a trial run leaves out data sets
                continue
            branch = self.super_ancestor.branch(number)
            branch.base_share.copy_(share)
            branch.probability.copy_(probability)
            if self.measure_swaps:
                swapped = cast(ImageSums, self.swapped_losses[number])
                losses, images = swapped.compute()
                branch.swap_rise = (losses[1:] - losses[0]) / images
                swapped.reset()
            self.log(f"{self.tag('val', name)}/base_blocks", (share >= 0.5).float().sum())
        super().on_validation_epoch_end()

    def log_averages(self, split: str) -> None:
        """Log the mean over the data sets."""
        if len(self.tasks) > 1:
            metrics = [(self.metrics_of(split, f"_{i}"), task.metric) for i, task in enumerate(self.tasks.values())]
            scores = [of_task[name].compute() for of_task, name in metrics if was_measured(of_task)]
            if scores:
                self.log(f"{split}/{shared_metric(self.tasks.values())}", torch.stack(scores).mean(), prog_bar=True)

    def describe(self) -> dict[str, Any]:
        """See :class:`Method`; with what `lgx extract` needs."""
        return {
            **super().describe(),
            "ancestor": recorded_name(self.ancestor),
            "routing": self.routing,
            "gate": self.suffix,
            "tasks": {name: task.to_dict() for name, task in self.tasks.items()},
            "inputs": {"mean": list(self.base_mean), "std": list(self.base_std)},
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """See :class:`Method`."""
        super().on_load_checkpoint(checkpoint)
        stored = list(checkpoint["lgx"].get("tasks", {}))
        if stored != list(self.tasks):
            raise UserError(
                f"--ckpt_path: contains a selection over {', '.join(stored)}, but this run is over "
                f"{', '.join(self.tasks)}; give the same data sets in the same order"
            )

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene | None:
        """The selected base blocks and all parameters outside the layers; None where τ selects none or all."""
        try:
            return extract_learngene([SelectionRun(self.describe(), state)], self.threshold)
        except UserError as error:
            self.print(f"no learngene yet: {error}; then `lgx extract`")
            return None

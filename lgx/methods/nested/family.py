"""A family of finished networks of all sizes for one task: the training."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from lgx.architectures import Architecture, name_of
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.components.metrics import metrics_for, was_measured
from lgx.core.batch import Batch
from lgx.core.rows import Evaluation
from lgx.core.schema import check_option
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization.sizes import RATIO
from lgx.initialization.sizing import enough
from lgx.methods.nested import FAMILY
from lgx.methods.nested.front import describe, front_figure, grid, measured_front, write_table
from lgx.methods.nested.gradients import average_of
from lgx.methods.nested.sizes import default_sizes, parse_size, short_names
from lgx.methods.nested.sliced_network import ORDER, SlicedNetwork
from lgx.methods.nested.slicing import skeleton

_SHARED = ("optimizer", "scheduler", "label_smoothing", "mixup", "cutmix", "drop_path_rate", "compile")
"""Options that the run of the ancestor takes over."""

_parameters = cache(Architecture.count_parameters)  # builds the network, which no step should

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Family(SlicedNetwork):
    """Train one network whose slices are finished networks of every smaller size for the task.

    The ancestor is fine-tuned on the task before; the slices start from its weights, head and all. Each step trains the
    listed sizes on one batch, and some steps also a random size. The largest slice of the step learns from the labels.
    The others also learn from its logits p_t in this step (in-place distillation): their loss is ``(1 - α) CE(p, y) + α
    τ² CE(softmax(p / τ), softmax(p_t / τ))``; the factor τ² keeps the size of the gradients (Hinton et al., 2015, Sec.
    2). In-place distillation is of Yu & Huang, Universally Slimmable Networks, ICCV 2019, Sec. 3.2, where the others
    learn from the largest network alone, and this is always the whole one. The gradient of a step is the average over
    its slices, which run one after the other, so that a step needs the memory of its largest slice. See
    :class:`~lgx.methods.nested.sliced_network.SlicedNetwork` for the slices, and
    :class:`~lgx.methods.nested.method.Nested` for the papers. Here slices are not pulled to the ancestor.

    After training, about forty sizes are measured on the validation images (the front). ``lgx export FAMILY --params
    1.5M`` chooses from the front in the learngene file.

    Args:
        ancestor: The network that was fine-tuned on the task: the folder of its run, or any other source. If its head
            is for other classes, a first run fine-tunes it with the same options.
        sizes: Sizes that each step trains, and that validation and test measure, as differences from the ancestor:
            ``depth=6,embed_dim=128``. By default half of the layers; half of the layers at two thirds of the width; a
            quarter of the layers at two thirds of the width with half of the MLP.
        random_every: The first batch of an epoch, and every so many batches after it, also train one random size
            between the smallest listed values and the ancestor. With 0 the listed sizes alone are trained.
        alpha: Share α of the largest slice's predictions.
        temperature: τ > 0.
        kwargs: Arguments of ``Distill`` and of every method, without ``start`` and ``guidance``.
    """

    spec = FAMILY
    adapts_ancestor = True
    one_graph = False

    def __init__(
        self,
        ancestor: str,
        sizes: Sequence[str] | None = None,
        random_every: int = 4,
        alpha: float = 0.9,
        temperature: float = 2.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(guidance="logits", ancestor=ancestor, alpha=alpha, temperature=temperature, **kwargs)
        check_option("random_every", random_every, random_every >= 0, "a number of steps, or 0 for no random sizes")
        if sizes is not None and not sizes:
            raise UserError("model.sizes: expected at least one size, e.g. [depth=6]; leave it out for three")
        self.random_every, self._listed = random_every, sizes
        self.front: dict[Architecture, float] = {}

    def check_task(self, task: Task) -> None:
        """Refuse a task without labels.

        Raises:
            UserError: If its images have no labels, or do not suit the network.
        """
        if not task.is_labeled:
            raise UserError("model Family: needs labels; to train starts without labels, give --model Nested")
        super().check_task(task)

    def teacher_request(self) -> None:
        """None: the largest slice teaches the others."""

    def first_model(self, task: Task, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """The model of a run that fine-tunes the ancestor on the task; None where its head is for the task's classes.

        Args:
            task: The task.
            options: This model's own options as in a configuration; the run takes the shared ones over.

        Raises:
            UserError: If the ancestor cannot be read.
        """
        if not task.is_labeled:
            return None
        source = load_pretrained(self.ancestor or "")
        known, names = self.check_sizes(source), source.label_names
        _ = self.measured  # a wrong size is refused before the ancestor is trained
        is_same = not names or not task.class_names or {*names} == {*task.class_names}
        if source.has_head and is_same and (known.num_classes, known.kind) == (task.num_classes, task.kind):
            return None
        shared = {key: options[key] for key in _SHARED if key in options}
        start = {"class_path": "Pretrained", "init_args": {"source": options["ancestor"]}}
        return {"class_path": "Ancestor", "init_args": shared | {"initializer": start, "head": "new"}}

    # -- sizes ----------------------------------------------------------------------------------------------------

    @cached_property
    def measured(self) -> list[Architecture]:
        """The listed sizes."""
        if self._listed is None:
            return default_sizes(self.architecture)
        try:
            found = [parse_size(text, self.architecture) for text in self._listed]
        except UserError as error:
            raise UserError(f"model.sizes: {error}") from error
        if len(set(found)) < len(found):
            raise UserError("model.sizes: lists a size twice; expected each once")
        return found

    def draw(self, *parts: int) -> list[Architecture]:
        """See :class:`SlicedNetwork`: the listed sizes, and a random one where it is due."""
        is_due = self.random_every > 0 and parts[-1] % self.random_every == 0
        return [*self.measured, *self.random_sizes(int(is_due), *self._least, *parts)]

    @property
    def _least(self) -> tuple[int, int, float]:
        """The smallest depth and width of the listed sizes, and their smallest share of the ancestor's MLP ratio."""
        sizes, ratio = self.measured, self.architecture.mlp_ratio
        least = min(size.mlp_ratio for size in sizes) / ratio
        return min(size.depth for size in sizes), min(size.embed_dim for size in sizes), least

    # -- network --------------------------------------------------------------------------------------------------

    def prepare(self, size: Architecture) -> nn.Module:
        """See :class:`SlicedNetwork`."""
        weight = next(self.network.parameters())
        return _network(size, self.drop_rate, self.compile_network, weight.device, weight.dtype)

    def logits(self, size: Architecture, inputs: Tensor) -> Tensor:
        """See :class:`SlicedNetwork`."""
        network, tensors = self.prepare(size).train(self.training), self.tensors_of(size)
        return cast(Tensor, functional_call(network, tensors, (inputs,), tie_weights=False))

    # -- losses ---------------------------------------------------------------------------------------------------

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """``loss``, the average over the sizes of the step, and its parts."""
        parameters = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        return average_of(self.slice_losses(batch), parameters, scaler.get_scale() if scaler else 1.0)

    def slice_losses(self, batch: Batch) -> list[Callable[[], dict[str, Tensor]]]:
        """What computes the losses of each slice of the step, the largest first, whose answers the others need."""
        first, *others = sorted(self.drawn or self.draw(0), key=_parameters, reverse=True)
        answers: list[Tensor] = []

        def of_largest() -> dict[str, Tensor]:
            logits = self.logits(first, batch.inputs)
            answers.append(logits.detach())
            labels = self.label_loss(logits, batch.targets)
            return {"loss": labels, "loss_labels": labels, "loss_distillation": torch.zeros_like(labels)}

        def of_other(size: Architecture) -> dict[str, Tensor]:
            logits = self.logits(size, batch.inputs)
            labels = self.label_loss(logits, batch.targets)
            distilled = self.temperature**2 * self.distilled(logits, answers[0], batch.targets)
            loss = (1 - self.alpha) * labels + self.alpha * distilled
            return {"loss": loss, "loss_labels": labels, "loss_distillation": distilled}

        return [of_largest, *(partial(of_other, size) for size in others)]

    # -- evaluation -----------------------------------------------------------------------------------------------

    def set_tasks(self, tasks: dict[str, Task]) -> None:
        """See :class:`~lgx.methods.base.Method`; each listed size has metrics of its own.

        Raises:
            UserError: If there are several tasks.
        """
        if len(tasks) > 1:
            raise UserError(f"data.tasks: model Family needs one task, but these are {', '.join(tasks)}; name one")
        super().set_tasks(tasks)
        assert self.task is not None
        for split in ("val", "test"):
            for place in range(len(self.measured)):
                self.eval_metrics[f"{split}_metrics_{place}"] = metrics_for(self.task, split)

    def evaluations(self, split: str) -> list[Evaluation]:
        """Every listed size under its own tags."""
        task = self.task.name if self.task else ""
        short = short_names(self.measured, self.architecture)
        return [
            Evaluation(task, name_of(size), f"{split}/{name_of(size)}", name, f"_{place}")
            for place, (size, name) in enumerate(zip(self.measured, short, strict=True))
        ]

    def evaluate_batch(self, batch: Batch, split: Literal["val", "test"]) -> None:
        """Evaluate every listed size on one batch."""
        for place, size in enumerate(self.measured):
            logits = self.logits(size, batch.inputs).float()
            for name, metric in self.update(split, logits, batch.targets, f"_{place}").items():
                self.log(f"{split}/{name_of(size)}/{name}", metric, on_step=False, on_epoch=True)

    def on_validation_epoch_end(self) -> None:
        """Log the averages over the listed sizes, which choose the best checkpoint."""
        self._log_averages("val")

    def on_test_epoch_end(self) -> None:
        """Log the averages over the listed sizes."""
        self._log_averages("test")

    def _log_averages(self, split: str) -> None:
        assert self.task is not None
        metrics = [self.metrics_of(split, f"_{place}") for place in range(len(self.measured))]
        if all(map(was_measured, metrics)):
            for name in dict.fromkeys((self.task.metric, "acc", "loss")):
                average = torch.stack([each[name].compute() for each in metrics]).mean()
                self.log(f"{split}/{name}", average, prog_bar=name == self.task.metric)

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Logits, (B, K), float32.

        Raises:
            UserError: If several sizes are listed.
        """
        if len(self.measured) > 1:
            raise UserError("model.sizes: predictions need exactly one size; list it, e.g. [depth=6]")
        return super().predict_step(batch, batch_idx)

    # -- what the run leaves --------------------------------------------------------------------------------------

    def with_run_weights(self, folder: Path) -> dict[str, "Figure"]:
        """Measure the front."""
        if not self.trainer.enable_validation:
            return {}
        assert self.task is not None
        sizes = [*self.measured, *grid(self.architecture, *self._least[:2]), self.architecture]
        self.front = measured_front(self, sizes)
        if self.trainer.is_global_zero:
            write_table(self.front, self.task.metric, table := folder / "front.csv")
            print(f"front      {len(self.front)} sizes in validation, {table}; sizes better than every smaller size:")
            print(describe(self.front, self.task.metric), flush=True)
        return {"front": front_figure(self.front, self.task.metric, self.measured)}

    def next_command(self, folder: Path) -> str:
        """See :class:`~lgx.methods.base.Method`: export a network of half of the parameters, if one is so small."""
        export = f"lgx export {shlex.quote(str(folder))}"
        if not self.front:
            return f"{export} --arch {self.measured[0].spec(RATIO)} --out small.onnx"
        half = max(self.architecture.count_parameters() // 2, min(size.count_parameters() for size in self.front))
        return f"{export} --params {enough('params', half)} --out small.onnx"

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """The whole network, the order of its layers, and the front."""
        own = {name: tensor for name, tensor in state.items() if name != ORDER}
        front = {size.spec(RATIO): score for size, score in self.front.items()}
        selection, ancestor = {"layers": list(self.layer_order), "front": front}, self.ancestor or ""
        return Learngene(self.method, self.architecture, own, ancestor, selection=selection, content="family")


@lru_cache(maxsize=1024)
def _network(
    size: Architecture, drop_rate: float, compiled: bool, device: torch.device, dtype: torch.dtype
) -> nn.Module:
    """A network without weights, which come with each call."""
    network: Any = skeleton(size, device, dtype, drop_rate)
    for block in size.blocks(network) if compiled else ():  # networks of all depths share compiled blocks
        block.compile()
    return cast(nn.Module, network)

"""Fine-tune a tiny ViT in plain torch and timm: what `lgx fit` must compute of the same options, start and batches.

It imports nothing of lgx, and knows each option from its definition alone.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import timm.optim
import torch
import torch.nn.functional as F
from timm.data import Mixup
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torchmetrics import classification

VOID, PATCH = 255, 8
OPTIMIZERS: dict[str, tuple[Any, dict[str, float]]] = {
    "SGD": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.05}),
    "AdamW": (torch.optim.AdamW, {"lr": 0.003, "weight_decay": 0.2, "eps": 1e-3}),
    "Lamb": (timm.optim.Lamb, {"lr": 0.01, "weight_decay": 0.2, "eps": 1e-3}),
}
EMA_DECAY = 0.9
CLIP = {"norm": 0.2, "value": 0.002}
Batches = list[list[list[tuple[Tensor, Tensor]]]]
"""Epochs of steps of processes: inputs and targets."""


@dataclass
class Trained:
    """What a training gives: weights after the last update, their average, and each epoch's validation and loss."""

    steps: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)
    average: dict[str, Tensor] | None = None
    validations: list[dict[str, float]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def move_average(self, model: nn.Module, decay: float) -> None:
        """Average the weights with those of a network exponentially; the first ones are their own average."""
        now = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        before = self.average
        self.average = now if before is None else {k: decay * before[k] + (1 - decay) * now[k] for k in now}

    def best_epoch(self, metric: str) -> int:
        """Epoch, from 1, of the best score; of equal scores the lower loss, of equal losses the later one."""
        return max((found[metric], -found["loss"], k) for k, found in enumerate(self.validations, start=1))[2]


class Segmenter(VisionTransformer):
    """A linear classifier of patch tokens, upsampled to pixels."""

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        (rows, columns), scores = self.patch_embed.grid_size, self.head(x[:, self.num_prefix_tokens :])
        maps = scores.transpose(1, 2).unflatten(2, (rows, columns))
        return F.interpolate(maps, size=self.patch_embed.img_size, mode="bilinear", align_corners=False)


def network(options: dict[str, Any]) -> VisionTransformer:
    """The untrained network."""
    kind = Segmenter if options["kind"] == "segmentation" else VisionTransformer
    return kind(
        img_size=options["size"], patch_size=PATCH, in_chans=options["in_chans"], num_classes=options["classes"],
        global_pool="" if options["kind"] == "segmentation" else "token", embed_dim=16, depth=2, num_heads=2,
        drop_path_rate=options["drop_path_rate"],
    )  # fmt: skip


def class_weights(counts: Tensor) -> Tensor:
    """N / (K n) for the K classes that have images; 0 for the others."""
    n = counts.double()
    there = n > 0
    return torch.where(there, n.sum() / (there.sum() * n.clamp(min=1)), 0.0)


def losses(logits: Tensor, targets: Tensor, smoothing: float = 0.0, weights: Tensor | None = None) -> Tensor:
    """Loss of each example, labeled pixel or known label, (N,): smoothed, then weighted by its class, or mixture."""
    logits = logits if logits.dtype == torch.float64 else logits.float()
    if targets.ndim == 3:
        logits, targets = logits.movedim(1, -1)[targets != VOID], targets[targets != VOID]
    if targets.ndim == 2 and not targets.is_floating_point():  # several labels
        wanted = (targets * (1 - smoothing) + smoothing / 2).to(logits.dtype)
        return F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")[targets != VOID]
    classes = logits.shape[1]
    shares = (targets if targets.ndim == 2 else F.one_hot(targets, classes)).to(logits.dtype)
    logs = logits.log_softmax(1)
    of_classes = -(1 - smoothing) * logs - smoothing * logs.mean(1, keepdim=True)
    return (shares * of_classes if weights is None else shares * of_classes * weights.to(logits.dtype)).sum(1)


def seed_step(*parts: int) -> None:
    """Seed the random numbers of one step of one process."""
    of_torch, of_numpy = map(int, np.random.SeedSequence(parts).generate_state(2))
    torch.manual_seed(of_torch)
    np.random.seed(of_numpy)


def set_rates(optimizer: torch.optim.Optimizer, schedule: str | None, step: int, total: int) -> None:
    """Set the learning rate of update ``step``, from 0, of ``total`` updates."""
    factor, warm = 1.0, round(0.25 * total)
    if schedule == "poly":
        factor = (1 - step / total) ** 0.9
    elif schedule == "steps":
        factor = 0.5 ** (step // 2)
    elif schedule == "cosine":
        factor = 0.5 * (1 + math.cos(math.pi * (step - warm) / (total - warm)))
        factor = (step + 1) / (warm + 1) if step < warm else factor
    for group in optimizer.param_groups:
        group["lr"] = group["base"] * factor


def make_optimizer(model: nn.Module, options: dict[str, Any]) -> torch.optim.Optimizer:
    """The optimizer: no weight decay for vectors; a rate for each layer."""
    kind, values = OPTIMIZERS[options["optimizer"]]
    decay, names = values["weight_decay"], model.no_weight_decay()
    if options["layer_decay"] == 1:
        groups = timm.optim.param_groups_weight_decay(model, decay, no_weight_decay_list=names)
    else:
        groups = timm.optim.param_groups_layer_decay(
            model, decay, no_weight_decay_list=names, layer_decay=options["layer_decay"]
        )
    for group in groups:
        group["lr"] = values["lr"] * group.pop("lr_scale", 1.0)
        group["base"] = group["lr"]
    # The kernel that lgx chooses: others differ in the last bit, which bfloat16 rounds to another value now and then.
    fused = {"fused": True} if kind is torch.optim.AdamW else {}
    return kind(groups, **values, **fused)


def autocast(options: dict[str, Any]) -> AbstractContextManager[Any]:
    """The precision of a forward pass."""
    return torch.autocast("cpu", torch.bfloat16) if options["precision"] == "bf16-mixed" else nullcontext()


@torch.no_grad()
def evaluate(weights: dict[str, Tensor], inputs: Tensor, targets: Tensor, options: dict[str, Any]) -> dict[str, float]:
    """Loss and metrics of the network with these weights."""
    model, classes = network(options).to(weights["head.weight"].dtype).eval(), options["classes"]
    model.load_state_dict(weights)
    with autocast(options):
        logits = model(inputs.to(weights["head.weight"].dtype))
    found = {"loss": float(losses(logits, targets).double().mean())}
    logits, metrics = logits.float(), {}
    if options["kind"] == "multilabel":
        logits = logits.sigmoid()
        metrics["label_acc"] = classification.MultilabelAccuracy(classes, average="micro", ignore_index=VOID)
        metrics["map"] = classification.MultilabelAveragePrecision(classes, average="macro", ignore_index=VOID)
    elif options["kind"] == "segmentation":
        metrics["acc"] = classification.MulticlassAccuracy(classes, average="micro", ignore_index=VOID)
        metrics["miou"] = classification.MulticlassJaccardIndex(classes, average="macro", ignore_index=VOID)
    else:
        metrics["acc"] = classification.MulticlassAccuracy(classes, average="micro")
        recalls = [(logits.argmax(1) == targets)[targets == c].double().mean() for c in targets.unique()]
        found["balanced_acc"] = float(torch.stack(recalls).mean())
    return found | {name: float(metric(logits, targets)) for name, metric in metrics.items()}


def update(
    model: nn.Module, optimizer: torch.optim.Optimizer, options: dict[str, Any], epoch: int,
    window: list[tuple[int, int, Tensor, Tensor]], weights: Tensor | None,
) -> float:  # fmt: skip
    """One update with the mean over all examples of its batches: (number in the epoch, process, inputs, targets).

    Returns:
        The sum of the losses.
    """
    optimizer.zero_grad()
    dtype, total, size = model.head.weight.dtype, 0.0, window[0][-1].numel()
    for step, process, inputs, targets in window:
        seed_step(options["seed"], epoch, step, process)
        if options["mixup"] or options["cutmix"]:
            mix = Mixup(options["mixup"], options["cutmix"], label_smoothing=0, num_classes=options["classes"])
            inputs, targets = mix(inputs.clone(), targets)
        with autocast(options):
            each = losses(model(inputs.to(dtype)), targets, options["label_smoothing"], weights)
        total += float(each.detach().sum())
        (each.sum() / size).backward()
    labeled = sum(int((targets != VOID).sum()) for *_, targets in window)
    for parameter in model.parameters():
        parameter.grad *= size / max(1, labeled)  # once for all batches, in full precision
    for name, parameter in model.named_parameters():
        if epoch < options["freeze_epochs"] and not name.startswith("head."):
            parameter.grad = None
    if options["clip"] == "norm":
        nn.utils.clip_grad_norm_(model.parameters(), CLIP["norm"])
    elif options["clip"] == "value":
        nn.utils.clip_grad_value_(model.parameters(), CLIP["value"])
    optimizer.step()
    return total


def train(
    options: dict[str, Any], start: dict[str, Tensor], batches: Batches, counts: Tensor | None,
    validation: tuple[Tensor, Tensor] | None,
) -> Trained:  # fmt: skip
    """Train on the recorded batches, as far as the options say.

    Args:
        options: kind, size, in_chans, classes, epochs, accumulate, optimizer, ….
        start: The weights of the start.
        batches: The batches of each epoch.
        counts: Training examples of each class.
        validation: All validation examples; None without a validation.
    """
    model, result = network(options), Trained()
    model.load_state_dict(start)
    model.to(torch.float64 if options["precision"] == "64-true" else torch.float32)
    optimizer, accumulate = make_optimizer(model, options), options["accumulate"]
    weights = class_weights(counts) if options["class_weights"] and counts is not None else None
    total = options["epochs"] * -(-len(batches[0]) // accumulate)
    stale, best = 0, -math.inf
    for epoch, steps in enumerate(batches):
        result.losses.append(0.0)
        for first in range(0, len(steps), accumulate):
            part = enumerate(steps[first : first + accumulate], start=first)
            end = options["stop_at"] if result.steps < options["stop_at"] else total
            set_rates(optimizer, options["schedule"], result.steps, end)
            window = [(step, process, *batch) for step, ranks in part for process, batch in enumerate(ranks)]
            result.losses[epoch] += update(model.train(), optimizer, options, epoch, window, weights)
            result.steps += 1
            if options["average"] == "ema":
                result.move_average(model, EMA_DECAY)
        result.losses[epoch] /= sum(len(targets) for ranks in steps for _, targets in ranks)
        if validation is None:
            continue
        shown = result.average if options["average"] == "ema" else model.state_dict()
        result.validations.append(evaluate(shown, *validation, options))
        score = result.validations[-1][options["monitor"]]
        stale, best = (0, score) if score > best else (stale + 1, best)
        if options["early_stop"] and stale >= options["early_stop"]:
            break
    result.weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    return result

"""The training examples of tasks, in the form that an ancestor reads; for ``lgx embed``."""

from collections.abc import Callable
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor

from data_modules.catalog import open_set, open_text
from data_modules.loading.samplers import TransformedExamples
from lgx.architectures import ViTArchitecture
from lgx.artifacts.pretrained import PretrainedNetwork
from lgx.core.eval_transforms import eval_transform
from lgx.core.task import Task

Examples = tuple[Task, Any, Callable[[list[Any]], Tensor]]
"""A task, the data set of its training examples, and the function that makes the inputs of a batch of them."""


def texts_of(
    name: str,
    ancestor: PretrainedNetwork,
    root: str,
    tokenizer: str | None,
    max_len: int,
    source: Literal["files", "hub"],
    limit: int | None,
) -> Examples:
    """The training examples of a text set, for an ancestor that reads texts; for the arguments see ``lgx embed``."""
    module = open_text(name, root)
    architecture = cast(Any, ancestor.architecture)
    module.tokenizer, module.source, module.limit_train = tokenizer, source, limit
    module.vocab_size = architecture.vocab_size
    module.max_len = min(max_len, getattr(architecture, "most_tokens", architecture.max_len))
    module.check_options()
    module.prepare_data()
    module.setup("fit")
    texts = module.examples("train")
    ordered = texts.take(np.argsort(texts.lengths, kind="stable"))  # little padding
    return module.task, ordered, lambda examples: module.collate(examples).inputs


def images_of(name: str, ancestor: PretrainedNetwork, root: str, limit: int | None) -> Examples:
    """The training examples of an image set or a folder, for an ancestor that reads images."""
    module = open_set(name, root)
    architecture = ancestor.architecture
    form = architecture if isinstance(architecture, ViTArchitecture) else ViTArchitecture()
    module.img_size, module.in_chans = form.img_size, 1 if form.in_chans == 1 else 3
    module.follow_reading(ancestor.reading)
    module.prepare_data()
    module.setup("fit")
    images = module.examples("train")
    chosen = images if limit is None else module.first(images, limit, "train")
    transformed = TransformedExamples(chosen, eval_transform(module.task))
    return module.task, transformed, lambda examples: torch.stack([image for image, _ in examples])

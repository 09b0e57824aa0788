"""Read GPT-2s of transformers from folders and the Hugging Face hub; imports transformers."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor
from transformers import GPT2ForSequenceClassification
from transformers.utils import logging

from lgx.architectures import GPT2Architecture
from lgx.errors import UserError


def read_pretrained(name: str) -> tuple[dict[str, Tensor], GPT2Architecture, bool, tuple[str, ...]]:
    """Read a GPT-2 of transformers, a language model or a classifier.

    Args:
        name: Folder, or name on the Hugging Face hub.

    Returns:
        Parameters under the names of :class:`GPT2Classifier`; the architecture; whether the head is the source's own;
        names of the classes in index order, () if unknown. A language model has no head for classes and gets a random
        one.

    Raises:
        UserError: If it differs from GPT-2 as published.
        Exception: Any error of transformers, see :func:`lgx.host.failures.transformers_errors`.
    """
    with silent():
        model, report = GPT2ForSequenceClassification.from_pretrained(
            name, output_loading_info=True, dtype=torch.float32
        )
    config = model.config
    architecture = GPT2Architecture(
        config.n_layer, config.n_embd, config.n_head, config.n_positions, config.vocab_size, config.num_labels
    )
    plain = architecture.build("meta").config
    for key in ("activation_function", "layer_norm_epsilon", "scale_attn_weights", "scale_attn_by_inverse_layer_idx"):
        if (have := getattr(config, key)) != (want := getattr(plain, key)):
            raise UserError(f"{name}: its {key} is {have}, expected GPT-2's own {want}")
    if config.n_inner not in (None, 4 * config.n_embd):
        raise UserError(f"{name}: its n_inner is {config.n_inner}, expected GPT-2's own {4 * config.n_embd}")
    if missing := sorted(set(report["missing_keys"]) - {"score.weight"}):
        raise UserError(f"{name}: lacks {missing[0]}; copy the folder again")
    has_head = "score.weight" not in report["missing_keys"]
    return model.state_dict(), architecture, has_head, _label_names(config.id2label) if has_head else ()


def _label_names(named: Mapping[int, str]) -> tuple[str, ...]:
    """Names in index order; () where they are those that transformers makes up."""
    names = tuple(named[index] for index in sorted(named))
    return () if all(name == f"LABEL_{index}" for index, name in enumerate(names)) else names


@contextmanager
def silent() -> Iterator[None]:
    """Keep transformers' progress bars and reports off the terminal inside the block."""
    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()

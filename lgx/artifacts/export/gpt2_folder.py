"""Write GPT-2s as folders that transformers loads, or as weights files."""

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lgx.architectures import GPT2Architecture
from lgx.artifacts.export.folders import WEIGHTS, WRITER_KEY, made, model_card, quoted
from lgx.artifacts.safetensors_files import write_safetensors
from lgx.artifacts.start_record import StartRecord
from lgx.core.version import __version__
from lgx.host.files import atomic_path

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_CLASS = "GPT2ForSequenceClassification"
"""The class of transformers that loads the folder."""


def write_text_descendant(
    out: str | Path,
    model: "PreTrainedModel",
    tokenizer: Any = None,
    label_names: tuple[str, ...] | None = None,
    card: dict[str, Any] | None = None,
    writer: str = "lgx",
    record: StartRecord | None = None,
) -> None:
    """Write a model as a folder that transformers' ``from_pretrained`` loads, or its weights alone.

    Args:
        out: A folder, or a path ending in ``.safetensors``.
        model: What ``GPT2Architecture.build`` made.
        tokenizer: Its tokenizer, which is written beside it.
        label_names: Class names in index order.
        card: Facts for the model card.
        writer: The command that writes the model, which the file or folder then names.
        record: What started the model, which the file or folder then says.
    """
    out = Path(out)
    if out.suffix == ".safetensors":
        start = record.metadata() if record is not None else {}
        write_safetensors(out, model.state_dict(), {"format": "pt", **start, WRITER_KEY: writer})
        return
    config = copy.deepcopy(model.config)
    config.architectures, config.dtype = [_CLASS], "float32"
    if label_names:
        config.id2label = dict(enumerate(label_names))
        config.label2id = {name: index for index, name in enumerate(label_names)}
    with atomic_path(out) as temporary:
        config.save_pretrained(temporary)
        write_safetensors(temporary / WEIGHTS, model.state_dict(), {"format": "pt"})
        if tokenizer is not None:
            tokenizer.save_pretrained(temporary)
        (temporary / "README.md").write_text(_card(out, model, card or {}, writer), encoding="utf-8")
        if record is not None:
            record.write(temporary)


def _card(out: Path, model: "PreTrainedModel", facts: dict[str, Any], writer: str) -> str:
    config = model.config
    architecture = GPT2Architecture(config.n_layer, config.n_embd, config.n_head, config.n_positions, config.vocab_size)
    sizes = {
        "parameters": f"{sum(p.numel() for p in model.parameters()):,}",
        "padding": f"on the right with token {config.pad_token_id}",
    }
    summary = f"A GPT-2 {made(facts)} by lgx {__version__}: {architecture.spec()}."
    code = f"from transformers import {_CLASS}\n\nmodel = {_CLASS}.from_pretrained({quoted(out.name)})"
    return model_card(out.name, "transformers", "gpt2, learngene", summary, sizes, facts, code, writer)

"""Writing text models that people use without lgx."""

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import lgx
from lgx.architectures import GPT2Architecture
from lgx.artifacts.export import WRITTEN
from lgx.artifacts.learngene import write_safetensors
from lgx.core.extras import nlp_extra
from lgx.core.files import atomic_path
from lgx.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_TEXT = {"generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json"}
"""What a text model's folder holds beside what every model's does."""


def write_text_descendant(
    out: str | Path,
    model: "PreTrainedModel",
    tokenizer: Any = None,
    label_names: tuple[str, ...] | None = None,
    card: dict[str, Any] | None = None,
) -> None:
    """Write a model as a folder that transformers' ``from_pretrained`` loads, or its weights alone.

    Args:
        out: A folder, or a path ending in ``.safetensors``.
        model: What ``GPT2Architecture.build`` made, or any GPT-2 of transformers, e.g. a ``GPT2LMHeadModel``, whose
            tied head is written once.
        tokenizer: Its tokenizer, to be written beside it.
        label_names: Class names in index order.
        card: Facts for the model card.

    Raises:
        UserError: If the place is taken by something else or cannot be written, or transformers is not installed.
    """
    out = Path(out)
    if out.suffix == ".safetensors":
        write_safetensors(out, model.state_dict(), {"format": "pt"})
        return
    _refuse_foreign_folder(out)
    with nlp_extra("export"):
        from lgx.artifacts.transformers_models import silent
    plain = _plain(model)
    if label_names:
        plain.config.id2label = dict(enumerate(label_names))
        plain.config.label2id = {name: index for index, name in enumerate(label_names)}
    with atomic_path(out) as temporary, silent():
        plain.save_pretrained(temporary)
        if tokenizer is not None:
            tokenizer.save_pretrained(temporary)
        (temporary / "README.md").write_text(_card(plain, card or {}, out))


def _plain(model: "PreTrainedModel") -> "PreTrainedModel":
    """The same weights in transformers' own class, with a configuration of its own."""
    with nlp_extra("export"):
        from transformers import GPT2ForSequenceClassification

        from lgx.architectures.gpt2_model import GPT2Classifier
    config = copy.deepcopy(model.config)
    with torch.device("meta"):
        plain = (GPT2ForSequenceClassification if isinstance(model, GPT2Classifier) else type(model))(config)
    plain.load_state_dict(model.state_dict(), assign=True)
    plain.tie_weights()
    return plain


def _refuse_foreign_folder(out: Path) -> None:
    """An existing folder is replaced as a whole, so it must hold a model that was written here, and nothing else."""
    if not out.exists():
        return
    names = {entry.name for entry in out.iterdir()} if out.is_dir() else {out.name}
    foreign = names - WRITTEN - _TEXT or (names and "config.json" not in names)
    if foreign or out.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise UserError(f"{out}: exists and is no model folder that lgx wrote; choose another --out")


def _card(model: "PreTrainedModel", facts: dict[str, Any], out: Path) -> str:
    config = model.config
    architecture = GPT2Architecture(config.n_layer, config.n_embd, config.n_head, config.n_positions, config.vocab_size)
    size = {"parameters": f"{sum(p.numel() for p in model.parameters()):,}"}
    size |= {key: json.dumps(value) for key, value in facts.items() if value is not None}
    lines = "\n".join(f"| {key} | {value} |" for key, value in size.items())
    name = type(model).__name__
    return f"""---
library_name: transformers
tags: [gpt2, learngene]
---

# {out.name}

A GPT-2 initialized by lgx {lgx.__version__}: {architecture.spec()}.

| fact | value |
| --- | --- |
{lines}

```python
from transformers import {name}

model = {name}.from_pretrained("{out.name}")
```

Texts are padded on the right with token {config.pad_token_id}.
"""

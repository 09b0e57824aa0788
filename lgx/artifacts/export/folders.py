"""Model folders: the model card (README.md), and the check of --out."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lgx.artifacts.source_names import BESIDE, CONFIG, SAFETENSORS, WEIGHTS
from lgx.core.readable import escape_markdown
from lgx.errors import UserError
from lgx.host.files import check_output, has_mark

PROGRAM = "model.pt2"
"""The program in the folder of a network that neither timm nor transformers loads."""

Facts = Mapping[str, Any]
_FILES = frozenset({PROGRAM, WEIGHTS, CONFIG, *BESIDE, "pytorch_model.bin", "README.md"})


def model_card(
    title: str, library: str, tags: str, summary: str, sizes: Facts, facts: Facts, code: str, writer: str
) -> str:
    """Write a model card in Markdown.

    Args:
        title: Name of the model.
        library: The library that loads it.
        tags: Tags of the Hugging Face hub, joined by commas.
        summary: One sentence on the model.
        sizes: Facts that are shown unchanged.
        facts: More facts, shown as JSON; None is left out.
        code: Python that loads the model.
        writer: The command that writes the model.
    """
    rows = {**sizes, **{key: json.dumps(value) for key, value in facts.items() if value is not None}}
    table = "\n".join(f"| {escape_markdown(key)} | {escape_markdown(value)} |" for key, value in rows.items())
    return f"""\
---
library_name: {library}
tags: [{tags}]
---
{_mark(writer)}

# {escape_markdown(title)}

{summary}

| fact | value |
| --- | --- |
{table}

```python
{code}
```
"""


def made(facts: Facts) -> str:
    """How the model was made: ``trained`` or ``initialized`` if the facts say so, otherwise ``written``."""
    return "trained" if facts.get("trained") else "initialized" if "method" in facts else "written"


def _mark(writer: str) -> str:
    return f"<!-- written by {writer} -->"


def check_model_place(
    out: str | Path, writer: str, force: bool, reads: Iterable[str | Path | None] = (), tokenizer: str | None = None
) -> None:
    """Refuse to replace anything but a model that the same command wrote; an existing folder is replaced as a whole.

    Args:
        out: The folder to write, or the file ending in .onnx or .pt2; it need not exist.
        writer: The command that writes it, e.g. ``lgx init``.
        force: Whether models of other commands and programs, and other files, may be replaced. A folder with unknown
            files is never replaced.
        reads: Paths that the command reads.
        tokenizer: The tokenizer that is written beside the model.
    """
    if str(out).endswith(SAFETENSORS):
        raise UserError(f"--out {out}: expected a folder; its {WEIGHTS} holds the weights")

    def is_ours(path: Path) -> bool:
        if path.is_dir():
            return has_mark(path / "README.md", f"\n---\n{_mark(writer)}\n")
        return has_mark(path, writer)  # the producer of an ONNX file; torch's programs begin differently

    is_file = Path(out).suffix in (".onnx", ".pt2")
    if is_file and tokenizer:
        raise UserError(f"--tokenizer: needs a folder, but --out {out} is a file; give a folder")
    check_output(out, writer, is_ours, None if is_file else _FILES, force=force, reads=reads)

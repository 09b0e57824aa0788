"""The model card, README.md, of an exported model."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lgx.host.outputs import has_mark

_CARD = """\
---
library_name: {library}
tags: [{tags}]
---
{mark}

# {title}

{summary}

| fact | value |
| --- | --- |
{facts}

```python
{code}
```
"""


def model_card(
    title: str,
    library: str,
    tags: str,
    summary: str,
    sizes: Mapping[str, str],
    facts: Mapping[str, Any],
    code: str,
    writer: str,
) -> str:
    """Write a model card in Markdown.

    Args:
        title: Name of the model.
        library: The library that loads it.
        tags: Tags of the Hugging Face hub, joined by commas.
        summary: One sentence on the model.
        sizes: Facts that are shown as they are.
        facts: Further facts, shown as JSON; None is left out.
        code: Python that loads the model.
        writer: The command that writes the model.
    """
    rows = {**sizes, **{key: json.dumps(value) for key, value in facts.items() if value is not None}}
    table = "\n".join(f"| {key} | {_cell(value)} |" for key, value in rows.items())
    title = "".join(c if c.isprintable() else "\ufffd" for c in title)
    return _CARD.format(
        library=library, tags=tags, mark=_mark(writer), title=title, summary=summary, facts=table, code=code
    )


def made(facts: Mapping[str, Any]) -> str:
    """How the model was made: ``trained`` or ``initialized`` where the facts say it, otherwise ``written``."""
    return "trained" if facts.get("trained") else "initialized" if "method" in facts else "written"


def quoted(text: str) -> str:
    """A text as a literal of Python, in double quotes where that is possible."""
    plain = '"' not in text and "\\" not in text and text.isprintable()
    return f'"{text}"' if plain else repr(text)


def _cell(value: str) -> str:
    return value.replace("|", "\\|")


def is_card_of(path: Path, writer: str) -> bool:
    """Whether a file is a model card that a command wrote."""
    return has_mark(path, f"\n---\n{_mark(writer)}\n")


def _mark(writer: str) -> str:
    return f"<!-- written by {writer} -->"

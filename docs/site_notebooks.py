"""Hook: a notebook becomes a page with its text, its code and its stored outputs."""

import json
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each notebook below docs, under its name with the suffix of a page."""
    for path in sorted((ROOT / "docs").rglob("*.ipynb")):
        name = path.relative_to(ROOT).with_suffix(".md").as_posix()
        files.append(File.generated(config, name, content=page_of(json.loads(path.read_text(encoding="utf-8")))))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to a notebook go to its page."""
    return markdown.replace(".ipynb)", ".md)")


def page_of(notebook: dict[str, Any]) -> str:
    """The notebook as Markdown.

    Args:
        notebook: A notebook of format 4.
    """
    parts = []
    for cell in notebook["cells"]:
        source = _text(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [_output(output) for output in cell.get("outputs", [])]
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return f"![Output](data:image/png;base64,{_text(data['image/png']).strip()})"
    if "text/markdown" in data:
        return _text(data["text/markdown"])
    text = _text(output["text"] if "text" in output else data["text/plain"])
    return f"```text\n{text.rstrip()}\n```"


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)

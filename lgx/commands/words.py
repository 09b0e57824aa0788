"""The tokenizer of a network of texts: that of its folder, or of the run that trained it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lgx.errors import UserError

if TYPE_CHECKING:
    from lgx.architectures import Architecture

_DEPTH = 3
"""Folders from a run's files to its configuration."""


def tokenizer_of(place: str) -> str | None:
    """Folder or name of the tokenizer of a source; None if it has none.

    Args:
        place: The place of a :class:`~lgx.artifacts.sources.Source`.
    """
    import yaml

    import data_modules
    from lgx.artifacts.export.models import words_in

    path = Path(place)
    if words_in(path):
        return str(path)
    folders = [path, *path.parents][:_DEPTH]
    config = next((folder / "config.yaml" for folder in folders if (folder / "config.yaml").is_file()), None)
    options = yaml.safe_load(config.read_text(encoding="utf-8")) if config else None
    data = options.get("data") if isinstance(options, dict) else None
    if not isinstance(data, dict):
        return None
    values = data.get("init_args") or {}
    kind = str(data.get("class_path")).rpartition(".")[2]
    usual = getattr(getattr(data_modules, kind, None), "vocabulary", None)
    return values.get("tokenizer") or (str(Path(values.get("root", "data"), usual[0])) if usual else None)


def words_for(architecture: "Architecture", tokenizer: str | None, source: str | None) -> Any:
    """What is written beside a network of texts, see :data:`lgx.artifacts.export.models.Words`.

    Args:
        architecture: The network.
        tokenizer: Folder or name of the tokenizer; None for that of the source.
        source: The place of the network's source; None without one.
    """
    from data_modules.text.tokenizer import load_tokenizer
    from lgx.artifacts.export.models import words_in

    if not architecture.reads_text:
        if tokenizer is not None:
            raise UserError("--tokenizer: is for networks of texts, but this network reads images; leave it out")
        return None
    place = tokenizer or (tokenizer_of(source) if source else None)
    if place is None:
        return None
    files = words_in(Path(place))
    if tokenizer is None and files:
        return files
    words = load_tokenizer(place, cast(Any, architecture).vocab_size, "--tokenizer")
    return files or words

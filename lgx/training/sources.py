"""Find the sources that a configuration names, once, and write into it which version is read, and what they give."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from lgx.architectures import parse_any_architecture
from lgx.artifacts.pretrained import architecture_of
from lgx.artifacts.sources import Source, resolve, resolve_kept
from lgx.errors import UserError
from lgx.host.files import digest_of


@dataclass(frozen=True)
class ResolvedSources:
    """The sources of a configuration.

    Attributes:
        config: The configuration with their places, from which method and data are built; it is not saved.
        by_option: Option, e.g. ``model.ancestor`` -> source.
    """

    config: Namespace
    by_option: dict[str, Source]

    def weights(self) -> dict[str, Path]:
        """The files of weights: option -> file."""
        return {option: source.weights for option, source in self.by_option.items() if source.weights is not None}

    def digests(self) -> dict[str, str]:
        """Digests of the files of weights: option -> SHA-256, 16 digits."""
        return {option: digest_of(file) for option, file in self.weights().items()}


def resolve_sources(config: Namespace, download: bool = True) -> ResolvedSources:
    """Find every source below ``model``, and replace names on the hub by those of the version that is read.

    ``config.yaml``, the same-run contract, learngenes and comparisons then name the commit; a run that is resumed
    refuses another version.

    Args:
        config: A parsed configuration of ``lgx fit``; it is changed.
        download: Whether servers may be asked; otherwise a source that is not on this machine keeps its name.
    """
    sources: dict[str, Source] = {}
    for option, entries, key in _texts(config.model, "model"):
        try:
            sources[option] = resolve(entries[key]) if download else resolve_kept(entries[key])
        except UserError as error:
            raise UserError(f"{option}: {error}") from error
        entries[key] = sources[option].name
    _fill(config, sources)
    local = config.clone()
    for option, entries, key in _texts(local.model, "model"):
        entries[key] = sources[option].place if option in sources else entries[key]
    return ResolvedSources(local, sources)


def _fill(config: Namespace, sources: Mapping[str, Source]) -> None:
    """Give a configuration the architecture of its source, and its images the size of the network."""
    model = config.model.init_args
    data = config.get("data") or {}
    is_missing = model.get("arch", "") is None
    if is_missing:
        option = _arch_option(config.model)
        if option not in sources:
            if option:
                raise UserError(f"{option}: missing; give a file or a folder of a network, a run, or timm:NAME")
            raise UserError(
                "model.arch: missing; name the network, e.g. 6-Small, or start from a whole network of `lgx init`"
            )
        try:
            model.arch = architecture_of(sources[option].place).spec()
        except UserError as error:
            raise UserError(f"model.arch: missing, and not known from {option} ({error}); name it") from error
    images = data.get("init_args", {})
    follows = is_missing or getattr(class_of(data), "sized_by_network", False)
    if model.get("arch") and follows and images.get("img_size", 0) is None:
        architecture = parse_any_architecture(model.arch)
        for key in architecture.input_keys:
            if images.get(key, 0) is None:
                images[key] = getattr(architecture, key)


def _arch_option(model: Namespace) -> str:
    """The option that names a network of the very architecture that the run trains; empty without one."""
    start = class_of(model.init_args.get("initializer"))
    name = getattr(class_of(model), "arch_option", None)
    if start is not None and start.reads_source and not start.shared:
        return "model.initializer.source"
    return f"model.{name}" if name else ""


def class_of(chosen: Any) -> Any:
    """The class that a part of a parsed configuration names, whose module the parser has imported; None without one."""
    module, _, name = (chosen.get("class_path", "") if chosen else "").rpartition(".")
    return getattr(sys.modules.get(module), name, None)


def _texts(values: Any, place: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Option, mapping and key of every text of a configuration."""
    entries = vars(values) if isinstance(values, Namespace) else values
    for key, value in list(entries.items()):
        option = place if key == "init_args" else f"{place}.{key}"
        if isinstance(value, Namespace | dict):
            yield from _texts(value, option)
        elif isinstance(value, str) and key != "class_path":
            yield option, entries, key

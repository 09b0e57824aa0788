"""Write models of timm as folders under their own names in timm."""

from pathlib import Path
from typing import Any

from timm.models import save_for_hf
from torch import nn

from lgx.architectures import name_of
from lgx.architectures.describing import describe_vit
from lgx.artifacts.export.card import model_card, quoted
from lgx.artifacts.export.folders import check_model_place
from lgx.artifacts.timm_models import normalization_of
from lgx.artifacts.timm_source import TimmSource
from lgx.core.task import Normalization
from lgx.core.version import __version__
from lgx.host.failures import write_errors
from lgx.host.files import atomic_path


def describe_model(model: nn.Module) -> tuple[str, ...]:
    """What lgx can do with a model of timm, in lines for the terminal."""
    architecture, reason = describe_vit(model)
    what = f"{name_of(architecture)}, {architecture.num_classes} classes" if architecture else type(model).__name__
    use = "" if architecture else f"; lgx uses it as a teacher alone, because {reason}"
    return f"model     {what}{use}", f"normalize {Normalization(*normalization_of(model))}"


def write_imported(out: str | Path, model: nn.Module, source: TimmSource, writer: str) -> None:
    """Write a model of timm as a ``local-dir:`` folder, with its name, sizes, mean and std.

    Args:
        out: The folder.
        model: The model.
        source: What it was imported from.
        writer: The command that writes it, which the folder then names.

    Raises:
        UserError: If the place is taken by something that is no model, or cannot be written.
    """
    out, timms = Path(out), _typed(model)
    check_model_place(out, writer, force=True)
    sizes = {**getattr(timms, "_model_args", {}), **source.arguments()}
    arguments = {key: value for key, value in sizes.items() if key != "num_classes"}
    with atomic_path(out) as temporary:
        with write_errors():
            save_for_hf(timms, str(temporary), model_args=arguments, safe_serialization=True)
        (temporary / "README.md").write_text(_card(out, timms, source, writer), encoding="utf-8")


def _typed(model: nn.Module) -> Any:
    """The model with the size of its images in its configuration, where timm's own code looks for it."""
    timms: Any = model
    size = getattr(getattr(timms, "patch_embed", None), "img_size", None)
    config = dict(timms.pretrained_cfg)
    if size is not None:
        channels = getattr(getattr(timms.patch_embed, "proj", None), "in_channels", config["input_size"][0])
        config["input_size"] = (channels, *size)
        config |= Normalization(tuple(config["mean"]), tuple(config["std"])).for_channels(channels)._asdict()
    config["num_classes"] = timms.num_classes
    timms.pretrained_cfg = config
    return timms


def _card(out: Path, model: Any, source: TimmSource, writer: str) -> str:
    sizes = {"parameters": f"{sum(p.numel() for p in model.parameters()):,}", "license": _license(model)}
    facts = {"weights": Path(source.weights).name if source.weights else None, "model": source.model}
    summary = f"{source.model} of timm, written by lgx {__version__}: {model.num_classes} classes."
    code = f"import timm\n\nmodel = timm.create_model({quoted(f'local-dir:{out.name}')}, pretrained=True)"
    return model_card(out.name, "timm", "image-classification, timm", summary, sizes, facts, code, writer)


def _license(model: Any) -> str:
    return str(model.pretrained_cfg.get("license") or "unknown")

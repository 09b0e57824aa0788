"""``lgx backbones``: timm's pretrained ViTs, and types of networks of transformers, that lgx reads."""

from fnmatch import fnmatch
from functools import cache
from typing import Any, cast

import timm

from lgx.architectures import HFArchitecture
from lgx.architectures.building import building_on
from lgx.architectures.describing import Description, describe_vit
from lgx.architectures.forms import MODULES
from lgx.core.progress import tracked
from lgx.core.task import Kind
from lgx.errors import UserError
from lgx.host.extras import extra
from lgx.host.failures import reason_of

FAMILIES = (*MODULES, "beit", "naflexvit", "vision_transformer_hybrid", "vision_transformer_relpos")
"""Modules of timm whose models are ViTs or their relatives."""


SMALL: dict[str, Any] = {"depth": 2, "embed_dim": 64, "num_heads": 4, "max_len": 32, "vocab_size": 64}
"""Sizes of the network with which a type is tried."""


def backbones(pattern: str) -> None:
    """List timm's pretrained ViTs: whether lgx reads each as an ancestor, its size, image size and license.

    Models are built without memory for their weights. `lgx backbones "*"` lists all in some minutes.
    `lgx backbones "hf:*"` lists types of networks of transformers that read texts, and what lgx reads each as: a
    classifier (text), a language model (language), or why not.

    Example: lgx backbones dino

    Args:
        pattern: Part of the name, e.g. dino, or a pattern for the whole name, e.g. "vit_*"; for texts hf:llama.
    """
    if pattern.startswith(HFArchitecture.family + ":"):
        _print_types(pattern.partition(":")[2])
        return
    names = names_of_backbones(pattern)
    if not names:
        others = timm.list_models(f"*{pattern}*", pretrained=True)
        reason = "is not a ViT, and lgx reads only ViTs" if others else "timm has no pretrained ViT of that name"
        raise UserError(f"{pattern[:100]}: {reason}; `lgx backbones '*'` lists all")
    width = max(map(len, names))
    print(f"{'backbone':<{width}}  read  parameters     px  license")
    for name in names:
        parameters, found = describe_backbone(name.partition(".")[0])
        config = timm.get_pretrained_cfg(name)
        size = f"{parameters / 1e6:.1f} M" if parameters is not None else "unknown"
        pixels, license_ = (max(config.input_size[1:]), config.license) if config else ("-", None)
        read, note = "no", found.reason
        if found.architecture is not None:
            read, note = "yes", "" if found.architecture.form else "also predicted by hypernetworks"
        print(f"{name:<{width}}  {read:<4}  {size:>10}  {pixels:>5}  {license_ or 'unknown'}{note and f'  ({note})'}")


def _print_types(pattern: str) -> None:
    """List the types of networks of transformers whose name holds a text or matches a pattern."""
    with extra("nlp", "backbones hf:"):
        from lgx.architectures.hf_config import kinds_of, text_model_types
    names = [name for name in text_model_types() if pattern in name or fnmatch(name, pattern)]
    if not names:
        raise UserError(f"hf:{pattern[:100]}: transformers has no type of that name; `lgx backbones 'hf:*'` lists all")
    width = max(map(len, names))
    print(f"{'type':<{width}}  read as")
    for name in tracked(names, "reading", unit="types"):
        found, reason = [], ""
        for kind in kinds_of(name):
            try:
                HFArchitecture(**SMALL, kind=cast(Kind, kind), config=f'{{"model_type":"{name}"}}').build("meta")
                found.append(kind)
            except UserError as error:
                reason = str(error).removeprefix("architecture: ")
        print(f"{name:<{width}}  {', '.join(found) or f'not read ({reason})'}", flush=True)


def names_of_backbones(pattern: str) -> list[str]:
    """Names of timm's pretrained ViTs that hold a text or match a pattern."""
    names = sorted({name for family in FAMILIES for name in timm.list_models(module=family, pretrained=True)})
    return [name for name in names if pattern in name or fnmatch(name, pattern)]


@cache
def describe_backbone(model: str) -> tuple[int | None, Description]:
    """Number of parameters and description of a model of timm, built without memory for its weights."""
    try:
        with building_on("meta"):
            network = timm.create_model(model, pretrained=False)
            return sum(parameter.numel() for parameter in network.parameters()), describe_vit(network)
    except Exception as error:  # timm builds some models on real devices only
        return None, Description(None, f"timm cannot build it without memory ({reason_of(error, 100)})")

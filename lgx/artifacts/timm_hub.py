"""Find out at once whether timm can download weights from the Hugging Face hub, or finds them in its cache."""

from pathlib import Path

from huggingface_hub import try_to_load_from_cache
from timm.models import get_pretrained_cfg

from lgx.errors import UserError
from lgx.host.hub import hub_failure, limit_waiting, unreachable

_HUB = "hf-hub:"
_FILES = ("model.safetensors", "pytorch_model.bin", "open_clip_model.safetensors", "open_clip_pytorch_model.bin")


def cached_weights(name: str) -> Path | None:
    """The cached file of weights where the hub is out of reach; None where timm can download.

    Only one request of a few bytes is made. ``HF_HUB_OFFLINE`` and the hub's other variables are respected.

    Args:
        name: A timm model name, or ``hf-hub:…``.

    Raises:
        UserError: If the hub is out of reach and the weights are not in its cache.
    """
    repository, files = _place_of(name)
    if repository is None:
        return None
    reason = hub_failure()
    if reason is None:  # timm tries all files, or reports what is wrong
        limit_waiting()
        return None
    repository, _, revision = repository.partition("@")
    for file in files:
        cached = try_to_load_from_cache(repository, file, revision=revision or None)
        if isinstance(cached, str):
            return Path(cached)
    known = name.removeprefix(_HUB).rpartition("/")[2]
    raise UserError(
        f"{unreachable(name, reason)}; without a network, `lgx import timm:{known} --weights FILE --out FOLDER` reads "
        f"a file of weights"
    )


def _place_of(name: str) -> tuple[str | None, tuple[str, ...]]:
    """The repository of a model's weights, None where it has none on the hub, and the names that the file may have."""
    if name.startswith(_HUB):
        return name.removeprefix(_HUB), _FILES
    known = get_pretrained_cfg(name)
    if known is None or not known.hf_hub_id or known.file or known.state_dict:
        return None, ()
    return known.hf_hub_id, (known.hf_hub_filename,) if known.hf_hub_filename else _FILES

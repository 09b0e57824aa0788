"""Check downloaded files before lgx keeps them."""

import hashlib
from pathlib import Path

from lgx.artifacts.remote.names import SAFETENSORS
from lgx.artifacts.safetensors_files import check_intact
from lgx.errors import UserError

WEIGHTS, CONFIG = "model.safetensors", "config.json"
"""Files that a model folder must have."""
BESIDE = (
    "lgx.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "vocab.json",
)  # fmt: skip
"""Further files of a model folder."""
LARGEST = 16 * 2**30
"""Most bytes of a file that is downloaded."""


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_digest(path: Path, expected: str | None, place: str) -> str:
    """Compare a file with its checksum.

    Args:
        path: The file.
        expected: Its SHA-256; None compares nothing.
        place: What the user named, for the message.

    Returns:
        The file's SHA-256.

    Raises:
        UserError: If they differ.
    """
    digest = digest_of(path)
    if expected is not None and digest != expected:
        raise UserError(f"{place}: has the SHA-256 {digest}, expected {expected}; it is another file, or damaged")
    return digest


def check_kind(name: str, place: str) -> None:
    """Refuse files from elsewhere that are no safetensors files.

    Raises:
        UserError: If the name has another suffix.
    """
    if not name.endswith(SAFETENSORS):
        raise UserError(
            f"{place}: only safetensors files are read from elsewhere; give a name that ends in .safetensors"
        )


def check_size(size: int | None, place: str) -> None:
    """Refuse a file that is too large to download.

    Raises:
        UserError: If it is larger than :data:`LARGEST`.
    """
    if size is not None and size > LARGEST:
        raise UserError(f"{place}: has {size:,} bytes, more than {LARGEST:,}; download it, and give its path")


def check_content(path: Path, place: str) -> None:
    """Refuse a downloaded file that is not an intact safetensors file, e.g. an error page.

    Raises:
        UserError: If it is not intact, or another file; the message names the place and not the temporary file.
    """
    try:
        check_intact(path)
    except UserError as error:
        raise UserError(str(error).replace(str(path), place)) from error

"""Check a file of torch.export, and give torch a copy of exactly what was checked.

``torch.export.load`` runs code of the file in several ways: it unpickles weights, constants and sample inputs, loads
compiled libraries, evaluates the expressions of sizes and the guards of inputs, writes names into generated code, and
calls functions of torch by their names. What ``lgx export`` writes needs none of this: weights as plain bytes, and a
graph of aten's operations.

torch never reads the file itself: its reader of zip files is not Python's, and the two can find different members in a
file that has two lists of them. The members that Python found are checked and packed again, and torch reads that copy.
"""

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from lgx.artifacts.pickle_checks import check_checkpoint
from lgx.errors import UserError
from lgx.host.failures import is_full_memory, reason_of
from lgx.host.safety import LARGEST_JSON, parse_json

ABOUT = "lgx.json"
"""The extra file that describes the network."""

_AGAIN = "write it again with `lgx export`"
_PICKLES = re.compile(r"data/(weights|constants|sample_inputs)/model\.pt")
_CONFIGS = re.compile(r"data/(weights|constants)/model_\w+_config\.json")
_PROGRAM = "models/model.json"
_ROOT = "model"
"""The folder in the copy that holds all members."""

_OTHERS = re.compile(
    r"data/weights/weight_\d+|data/constants/tensor_\d+|archive_format|archive_version|version|byteorder"
    rf"|\.data/(version|serialization_id)|extra/{re.escape(ABOUT)}"
)

_OPERATIONS = re.compile(
    r"torch\.ops\.aten\.(?!from_file\b|save\b|__)\w+\.(?!__)\w+|_operator\.(getitem|add|sub|mul|floordiv|mod)"
)
_NAME = re.compile(r"[\w.]{0,500}")
_WORDS = re.compile(r"[A-Za-z_]\w*")
_EXPRESSION = re.compile(r"(?!.*\*\*)[\w(),=+*' -]{1,200}")
_WORD_OF_EXPRESSION = re.compile(r"[su]\d+|Symbol|Integer|Add|Mul|Max|Min|positive|integer|nonnegative|True")
_TYPES = {None, "builtins.tuple", "builtins.list", "builtins.dict"}
_REMARKS = {"stack_trace", "nn_module_stack", "torch_fn", "from_node"}
"""Keys of texts that torch keeps, but does not evaluate."""


def checked_copy(path: Path, name: str | None = None) -> tuple[io.BytesIO, dict[str, str]]:
    """Copy a program of plain operations into memory; any other file is refused.

    Args:
        path: The file.
        name: What messages call it; default its path.

    Returns:
        The program as a zip file of the checked members, for ``torch.export.load``, and what the file says of its
        network; empty if it says nothing.

    Raises:
        UserError: If it is missing or damaged, or holds anything that could run code or fill the memory.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    try:
        with zipfile.ZipFile(path) as archive:
            size = path.stat().st_size
            members = _members(archive, size)
            texts = read_about(archive)
        _check_members(members, size)
        return _packed(members), texts
    except UserError as error:
        raise UserError(f"{name or path}: {error}") from error
    except Exception as error:
        if is_full_memory(error):
            raise
        reason = reason_of(error) if type(error) is ValueError else type(error).__name__
        raise UserError(
            f"{name or path}: not an intact file of `lgx export` ({reason}); it was not loaded, because a foreign "
            f"program could run code"
        ) from error


def read_about(archive: zipfile.ZipFile) -> dict[str, str]:
    """What a file says of its network; empty if it says nothing.

    Raises:
        UserError: If it is not JSON.
    """
    name = next((name for name in archive.namelist() if name.endswith(f"/extra/{ABOUT}")), None)
    values = {} if name is None else parse_json(archive.read(name), ABOUT, _AGAIN)
    return {key: value for key, value in values.items() if isinstance(value, str)} if isinstance(values, dict) else {}


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, bytes]:
    """Name below the folder of the program -> content."""
    members = archive.infolist()
    if any(m.compress_type != zipfile.ZIP_STORED for m in members) or sum(m.file_size for m in members) > size:
        raise ValueError("it is compressed")
    roots = {member.filename.partition("/")[0] for member in members}
    names = [member.filename.partition("/")[2] for member in members]
    if len(roots) != 1 or len({*names}) != len(names):
        raise ValueError("its folders are not those of one program")
    return {name: archive.read(member) for name, member in zip(names, members, strict=True)}


def _packed(members: dict[str, bytes]) -> io.BytesIO:
    """The members as an uncompressed zip file of their own."""
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as archive:
        for name in [*members]:
            archive.writestr(f"{_ROOT}/{name}", members.pop(name))  # not twice in memory
    copy.seek(0)
    return copy


def _check_members(members: Mapping[str, bytes], size: int) -> None:
    for name, content in members.items():
        if _PICKLES.fullmatch(name):
            check_checkpoint(io.BytesIO(content))
            torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        elif _CONFIGS.fullmatch(name):
            _check_tensors(_json(name, content), size)
        elif name == _PROGRAM:
            _check_texts(_json(name, content))
        elif not _OTHERS.fullmatch(name):
            raise ValueError(f"it holds {name[:60]!a}")


def _json(name: str, content: bytes) -> Any:
    return parse_json(content, name[-60:], _AGAIN, largest=4 * LARGEST_JSON)


def _check_tensors(config: Any, size: int) -> None:
    """Refuse pickled tensors, and tensors with more elements than the file has bytes."""
    for payload in config["config"].values():
        if payload["use_pickle"] is not False:
            raise ValueError("it holds pickled tensors")
        elements = 1
        for length in payload["tensor_meta"]["sizes"]:
            elements *= int(length["as_int"])
        if elements > size:
            raise ValueError("a tensor is larger than the file")


def _check_texts(program: Any) -> None:
    """Refuse texts that torch would evaluate, or write into code, unless they are of the expected form."""
    if program.get("guards_code"):
        raise ValueError("it holds code")
    for key, text in _texts("", program):
        check: Callable[[str], Any] = _CHECKS.get(key, _NAME.fullmatch)
        if key not in _REMARKS and not check(text):
            raise ValueError(f"{key[:40]!a} is {text[:60]!a}")


def _texts(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """All texts in nested values, each with the key that it stands under; keys themselves stand under an empty one."""
    waiting = [(key, value)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            yield from (("", str(inner)) for inner in value)
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(key, inner) for inner in value]
        elif isinstance(value, str):
            yield key, value


def _is_expression(text: str) -> bool:
    return bool(_EXPRESSION.fullmatch(text)) and all(map(_WORD_OF_EXPRESSION.fullmatch, _WORDS.findall(text)))


def _is_structure(text: str) -> bool:
    """Whether a description of nested inputs or outputs has built-in containers alone: others name modules."""
    return all(value in _TYPES for key, value in _items(json.loads(text)) if key == "type")


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _items(inner)


_CHECKS: dict[str, Callable[[str], Any]] = {
    "target": _OPERATIONS.fullmatch,
    "expr_str": _is_expression,
    "in_spec": _is_structure,
    "out_spec": _is_structure,
    "source_fn_stack": re.compile(r"[\w.,;]{0,2000}").fullmatch,  # torch looks these functions up, but never calls them
    "torch_version": re.compile(r"[\w.+-]{1,100}").fullmatch,
}

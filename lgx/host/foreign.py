"""Translate errors of other libraries: a user sees one sentence, or the operating system's own error."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import yaml

from lgx.errors import Preempted, UserError
from lgx.host.system_failures import as_os_error, is_full_memory

Kinds = type[Exception] | tuple[type[Exception], ...]
_USER_OF_URL = re.compile(r"//[^/@\s]*@")


def reason_of(error: BaseException, longest: int = 200) -> str:
    """The first line of an error's message, or its class where it has no message; without passwords of URLs.

    Args:
        error: The error.
        longest: Number of characters to keep.
    """
    line = next(iter(str(error).strip().splitlines()), type(error).__name__).strip()
    return _USER_OF_URL.sub("//", line)[:longest]


@contextmanager
def foreign_errors(place: str, wrong: str, remedy: str, kinds: Kinds = Exception) -> Iterator[None]:
    """Raise a UserError for an error of another library in the block: ``place: wrong (reason); remedy``.

    Args:
        place: File, name or option that the library reads.
        wrong: What is wrong with it.
        remedy: What the user can do.
        kinds: Classes of the errors to translate. A UserError and full memory always pass.

    Raises:
        UserError: If the block raises such an error.
    """
    try:
        yield
    except UserError:
        raise
    except kinds as error:
        if is_full_memory(error):
            raise
        raise UserError(f"{place}: {wrong} ({reason_of(error)}); {remedy}") from error


@contextmanager
def blame(mistake: str, *others: type[Exception]) -> Iterator[None]:
    """Attribute every error in the block to what the user gave, with the class and the whole message of the error.

    For calls that hand the user's values to other libraries, whose errors do not name the option.

    Args:
        mistake: What the user gave, and that it is refused.
        others: Classes of errors that pass, as a UserError, a Preempted and full memory always do.

    Raises:
        UserError: In place of any other error.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (UserError, Preempted, *others)) or is_full_memory(error):
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise UserError(f"{mistake} ({reason})") from error


@contextmanager
def safetensors_errors(path: object) -> Iterator[None]:
    """Raise a UserError for what safetensors raises while it reads a file.

    safetensors has an error class of its own, and a data type that torch does not know raises others.

    Raises:
        UserError: If the file is damaged or in another format.
    """
    wrong, remedy = "not an intact safetensors file", "copy it again; pickled files are not read"
    with foreign_errors(str(path), wrong, remedy):
        yield


@contextmanager
def checkpoint_errors(path: object) -> Iterator[None]:
    """Raise a UserError for what torch raises while it reads a checkpoint.

    A damaged file leads to errors of pickle, zip and torch of many kinds. Their messages explain how to load the file
    in an unsafe way, so the sentence quotes only messages of our own checks, which are ValueErrors.

    Raises:
        UserError: If the file is damaged or holds more than tensors and plain types.
    """
    try:
        yield
    except Exception as error:
        if is_full_memory(error):
            raise
        reason = reason_of(error) if type(error) is ValueError else type(error).__name__
        raise UserError(
            f"{path}: not an intact checkpoint of tensors and plain types ({reason}); it was not loaded, because "
            f"anything else could run code"
        ) from error


@contextmanager
def timm_errors(name: str) -> Iterator[None]:
    """Raise a UserError for what timm and the hub's client raise while they load a model.

    They raise many kinds: of the network, of HTTP, for wrong shapes and for missing weights.

    Raises:
        UserError: If the model cannot be loaded.
    """
    with foreign_errors(name, "timm could not load it", "without a network give a local folder"):
        yield


@contextmanager
def transformers_errors(name: str) -> Iterator[None]:
    """Raise a UserError for what transformers raises while it loads a model.

    It raises errors of its own, and whatever a key of the configuration leads to.

    Raises:
        UserError: If the model cannot be loaded.
    """
    with foreign_errors(name, "transformers could not load it", "save it again"):
        yield


@contextmanager
def json_errors(place: str, remedy: str, numbered: bool = False) -> Iterator[None]:
    """Raise a UserError for what ``json.loads`` raises.

    Args:
        place: Where the text stands.
        remedy: What the user can do.
        numbered: Whether to name the line of a mistake.

    Raises:
        UserError: If the text is not JSON: a syntax error, no UTF-8, brackets nested too deeply, or a number of
            thousands of digits.
    """
    try:
        yield
    except json.JSONDecodeError as error:
        at = f"{place}, line {error.lineno}" if numbered else place
        raise UserError(f"{at}: not valid JSON ({error.msg}, column {error.colno}); {remedy}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{place}: not valid JSON ({error.reason}, no UTF-8); {remedy}") from error
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else "a number of too many digits"
        raise UserError(f"{place}: not valid JSON ({reason}); {remedy}") from error


@contextmanager
def yaml_errors(path: object, remedy: str) -> Iterator[None]:
    """Raise a UserError for what PyYAML and the decoding of text raise: a syntax error, no UTF-8, an invalid date.

    Args:
        path: The file.
        remedy: What the user can do.

    Raises:
        UserError: If the text is not YAML.
    """
    try:
        yield
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{path}: not valid YAML ({' '.join(str(error).split())[:200]}); {remedy}") from error


@contextmanager
def write_errors(kinds: Kinds = Exception) -> Iterator[None]:
    """Raise an OSError for what another library's writer raises; ``atomic_path`` turns it into a sentence.

    Args:
        kinds: Classes of the errors by which the library reports that it cannot write.

    Raises:
        OSError: If the block raises such an error.
    """
    try:
        yield
    except OSError:
        raise
    except kinds as error:
        raise as_os_error(error) from error

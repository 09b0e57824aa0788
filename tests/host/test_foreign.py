"""Errors of other libraries become one sentence, or an error of the system."""

import errno
import json
import re

import pytest
import yaml

from lgx.errors import UserError
from lgx.host.foreign import (
    checkpoint_errors,
    foreign_errors,
    json_errors,
    reason_of,
    safetensors_errors,
    timm_errors,
    transformers_errors,
    write_errors,
    yaml_errors,
)


def test_a_reason_is_one_short_line():
    assert reason_of(ValueError("\n first \nsecond")) == "first"
    assert reason_of(KeyError()) == "KeyError"
    assert reason_of(OSError("POST https://me:secret@host/a failed")) == "POST https://host/a failed"
    assert len(reason_of(RuntimeError("x" * 1000))) == 200


@pytest.mark.parametrize(
    ("translation", "error", "sentence"),
    [
        (foreign_errors("a", "is wrong", "mend it"), OSError("why"), "a: is wrong (why); mend it"),
        (safetensors_errors("f"), KeyError("F9"), "f: not an intact safetensors file ('F9'); copy it again"),
        (checkpoint_errors("f"), ValueError("it is compressed"), "f: not an intact checkpoint .* (it is compressed)"),
        (
            checkpoint_errors("f"),
            RuntimeError("set weights_only=False"),
            "plain types (RuntimeError); it was not loaded",
        ),
        (timm_errors("m"), RuntimeError("404\nmore"), "m: timm could not load it (404); without a network"),
        (transformers_errors("m"), KeyError("n"), "m: transformers could not load it ('n'); save it again"),
        (json_errors("f", "mend it"), RecursionError(), "f: not valid JSON (nested too deeply); mend it"),
        (yaml_errors("f", "mend it"), yaml.YAMLError("a\n  b"), "f: not valid YAML (a b); mend it"),
    ],
)
def test_every_library_has_its_sentence(translation, error, sentence):
    pattern = re.escape(sentence).replace(r"\.\*", ".*")
    with pytest.raises(UserError, match=pattern) as caught, translation:
        raise error
    assert caught.value.__cause__ is error


def test_our_own_errors_and_other_kinds_pass():
    with pytest.raises(UserError, match=r"^mine$"), foreign_errors("a", "is wrong", "mend it"):
        raise UserError("mine")
    with pytest.raises(KeyError), foreign_errors("a", "is wrong", "mend it", (ValueError, TypeError)):
        raise KeyError("x")


def test_json_names_the_line_where_it_is_asked_to():
    with (
        pytest.raises(UserError, match=r"f, line 2: not valid JSON \(.*column 1\)"),
        json_errors("f", "r", numbered=True),
    ):
        json.loads("[1,\n")


def test_writers_report_the_systems_error():
    with pytest.raises(OSError, match="No space left") as caught, write_errors():
        raise RuntimeError("I/O error: No space left on device (os error 28)")
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(PermissionError), write_errors():
        raise PermissionError(errno.EACCES, "denied")
    with pytest.raises(TypeError), write_errors(RuntimeError):
        raise TypeError("a mistake in lgx")

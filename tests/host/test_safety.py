"""Foreign JSON and YAML, and weights that are not finite, are refused in one sentence."""

import pytest
import torch

from lgx.errors import UserError
from lgx.host.safety import parse_json, read_json, read_yaml, refuse_non_finite


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[1,\n", "not valid JSON (Expecting value: line 2"),
        (b"[" * 100_000, "not valid JSON (maximum recursion depth"),
        (b"1" * 10_000, "not valid JSON (Exceeds the limit"),
        (b'"\xff"', "'utf-8' codec"),
        (b"[1, 2, 3, 4, 5]" * 7_000, "more than 100,000 characters of JSON"),
    ],
)
def test_json_that_cannot_be_read_is_named_with_the_remedy(tmp_path, text, words):
    (tmp_path / "a.json").write_bytes(text)
    with pytest.raises(UserError) as caught:
        read_json(tmp_path / "a.json", "mend it", largest=100_000)
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "a.json"))
    assert message.endswith("; mend it")
    assert words in message
    with pytest.raises(UserError, match=r"^key: "):
        parse_json(text, "key", "mend it", largest=100_000)


@pytest.mark.parametrize("text", [b"a: [", b"a: 2020-99-99", b"\xff", b"a: " + b"1" * 30, b"[" * 200])
def test_yaml_that_cannot_be_read_is_named_with_the_remedy(tmp_path, text):
    (tmp_path / "a.yaml").write_bytes(text)
    with pytest.raises(UserError, match=r"a\.yaml: not valid YAML \(.*\); mend it"):
        read_yaml(tmp_path / "a.yaml", "mend it")


def test_tensors_that_are_not_finite_are_refused():
    with pytest.raises(UserError, match="f: w holds numbers that are not finite"):
        refuse_non_finite({"finite": torch.zeros(2), "w": torch.tensor(float("nan"))}, "f")

"""The model card of an exported model."""

import ast
import re

import pytest

from lgx.artifacts.export.folders import model_card, quoted
from tests.support.command_line import ARCH, lgx


@pytest.mark.parametrize(
    "name", ["plain", 'double"quotes', "single'quote", "both'\"", "back\\slash", "line\nbreak", "\U0001f600", "x\ud800"]
)
def test_a_quoted_text_is_a_literal_of_python_in_one_line(name):
    assert ast.literal_eval(quoted(name)) == name
    assert "\n" not in quoted(name)


@pytest.mark.parametrize("name", ["my model", 'it\'s "mine"', "a\\b", "a\nb"])
def test_the_code_of_a_card_loads_the_folder_whatever_its_name_is(tmp_path, monkeypatch, name):
    assert lgx("init", "--arch", ARCH, "--num_classes=3", "--out", tmp_path / name).code == 0
    card = (tmp_path / name / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)\n```", card, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    found: dict[str, object] = {}
    exec(compile(code, "card", "exec"), found)
    assert found["model"].num_classes == 3


def test_a_fact_stays_in_its_cell():
    card = model_card("a\nb", "timm", "tag", "A model.", {}, {"task": "x | y"}, "pass", "lgx init")
    assert "# a\ufffdb\n" in card
    assert '| task | "x \\| y" |' in card

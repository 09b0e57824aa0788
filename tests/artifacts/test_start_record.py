"""The file in a model folder that says what started its network."""

import pytest

from lgx.artifacts.start_record import RECORD, StartRecord
from lgx.errors import UserError
from lgx.methods import Pretrained
from tests.support.command_line import ARCH, lgx


def test_a_record_is_read_as_it_was_written(tmp_path):
    record = StartRecord("sws", "StagewiseExpansion", {"source": "a/b.learngene.safetensors", "order": "front_mid"})
    record.write(tmp_path)
    for name in (str(tmp_path), f"local-dir:{tmp_path}"):
        assert StartRecord.read(name) == record


@pytest.mark.parametrize("source", ["deit_tiny_patch16_224", "hf-hub:a/b", "x" * 5000, "a\0b", ""])
def test_other_sources_have_none(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert StartRecord.read(source) is None
    assert Pretrained(source).method == "pretrained"


@pytest.mark.parametrize("text", ["", "[]", '{"method": 3}', '{"method": "a", "initializer": "B", "arguments": []}'])
def test_a_damaged_record_is_one_sentence(text, tmp_path):
    (tmp_path / RECORD).write_text(text)
    with pytest.raises(UserError, match=RECORD):
        StartRecord.read(str(tmp_path))


def test_a_random_start_stays_training_from_scratch(tmp_path):
    assert lgx("init", "--arch", ARCH, "--num_classes", 3, "--out", tmp_path / "start").code == 0
    assert StartRecord.read(str(tmp_path / "start")) == StartRecord("random", "RandomStart")

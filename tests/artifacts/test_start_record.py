"""The file in a model folder that says what started its network."""

import pytest
import torch

from lgx.architectures import GPT2Architecture, parse_architecture
from lgx.artifacts.export import write_text_descendant
from lgx.artifacts.safetensors_files import write_safetensors
from lgx.artifacts.start_record import RECORD, StartRecord
from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.methods import Pretrained
from tests.support.command_line import ARCH, lgx
from tests.support.extras import import_transformers
from tests.support.untrained_learngenes import BIG


def test_a_weights_file_holds_the_record_of_its_start(tmp_path, sws_file):
    arch, out = BIG.replace(depth=4).spec(), tmp_path / "start.safetensors"
    assert lgx("init", "--source", sws_file, "--arch", arch, "--out", out).code == 0
    record = StartRecord.read(str(out))
    assert record == StartRecord("sws", "StagewiseExpansion", {"source": str(sws_file)})
    assert Pretrained(str(out)).method == "sws"
    refused = lgx("init", "--arch", arch, "--num_classes", 3, "--out", out)
    assert f"holds a descendant of method sws from {sws_file}; choose" in refused.sentence
    assert lgx("init", "--arch", arch, "--num_classes", 3, "--out", out, "--force").code == 0
    assert StartRecord.read(str(out)) == StartRecord("random", "RandomStart")


def test_a_weights_file_of_a_text_model_holds_the_record_of_its_start(tmp_path):
    import_transformers()
    out = tmp_path / "text.safetensors"
    record = StartRecord("sws", "StagewiseExpansion")
    write_text_descendant(out, GPT2Architecture(1, 16, 2, 16, 32, 3).build(), record=record)
    assert StartRecord.read(str(out)) == record


@pytest.mark.parametrize("text", ["", "[]", '{"method": 3}', '{"method": "a", "initializer": "B", "arguments": []}'])
def test_a_damaged_record_is_one_sentence(text, tmp_path):
    (tmp_path / RECORD).write_text(text)
    write_safetensors(tmp_path / "a.safetensors", {"x": torch.zeros(1)}, {"lgx_start": text})
    for place, words in ((tmp_path, RECORD), (tmp_path / "a.safetensors", r"a\.safetensors")):
        with pytest.raises(UserError, match=words):
            StartRecord.read(str(place))


@pytest.mark.parametrize("source", ["deit_tiny_patch16_224", "hf-hub:a/b", "x" * 5000, "a\0b", ""])
def test_other_sources_have_none(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert StartRecord.read(source) is None
    assert Pretrained(source).method == "pretrained"


def test_a_random_start_stays_training_from_scratch(tmp_path):
    assert lgx("init", "--arch", ARCH, "--num_classes", 3, "--out", tmp_path / "start").code == 0
    for place in (str(tmp_path / "start"), f"local-dir:{tmp_path / 'start'}"):
        assert StartRecord.read(place) == StartRecord("random", "RandomStart")


@pytest.mark.parametrize(
    ("arch", "words"),
    [("depth=3,embed_dim=24,num_heads=3", "num_heads=2"), ("depth=4,embed_dim=24,num_heads=2", "has 3 layers")],
)
def test_a_weights_file_starts_no_network_of_another_form(tmp_path, arch, words):
    small = "patch_size=4,img_size=16"
    out = tmp_path / "start.safetensors"
    assert (
        lgx("init", "--arch", f"depth=3,embed_dim=24,num_heads=2,{small}", "--num_classes", 5, "--out", out).code == 0
    )
    with pytest.raises(UserError, match=words):
        initialize(parse_architecture(f"{arch},{small}", num_classes=5), Pretrained(str(out)))

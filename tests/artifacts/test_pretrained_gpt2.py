"""Pretrained GPT-2s as sources and teachers."""

import json
from pathlib import Path

import pytest
import torch

from lgx.architectures import HFArchitecture, ViTArchitecture
from lgx.artifacts.export import write_descendant
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.components.teacher import Teacher
from lgx.core.eval_transforms import renormalize
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.methods import Pretrained
from tests.support.fake_text import SIZE
from tests.support.gpt2 import GPT2, texts, transformers

ARCHITECTURE = HFArchitecture(2, 24, 3, max_len=40, vocab_size=SIZE)


def language_model(folder: Path, **changes) -> "transformers.GPT2LMHeadModel":
    torch.manual_seed(0)
    config = ARCHITECTURE.configuration()
    config.update(changes)
    model = transformers.GPT2LMHeadModel(config).eval()
    model.save_pretrained(folder)
    return model


def test_a_language_model_starts_a_classifier_with_a_new_head(tmp_path, capfd):
    model = language_model(tmp_path / "lm")
    capfd.readouterr()
    source = load_pretrained(str(tmp_path / "lm"))
    assert capfd.readouterr() == ("", "")
    assert source.architecture == ARCHITECTURE.replace(kind="language", config=source.architecture.config)
    inputs = texts(7, 7, vocab_size=SIZE)
    expected = model.transformer(inputs[:, 0]).last_hidden_state
    torch.testing.assert_close(source.model.tokens(inputs), expected)
    start = initialize(ARCHITECTURE.replace(max_len=9), Pretrained(str(tmp_path / "lm")))
    assert start.random == ("score.weight",)
    torch.testing.assert_close(start.model.tokens(inputs), expected)


def test_features_are_the_mean_over_a_texts_own_tokens(tmp_path):
    model = language_model(tmp_path / "lm")
    task = Task("cola", 2, "text", max_len=40, vocab_size=SIZE)
    frozen = Teacher.of(load_pretrained(str(tmp_path / "lm")), task, features_only=True)
    inputs = texts(7, 4, vocab_size=SIZE)
    features = frozen.features(inputs)
    assert features.shape == (2, frozen.width) == (2, 24)
    for feature, length, ids in zip(features, (7, 4), inputs[:, 0], strict=True):
        torch.testing.assert_close(feature, model.transformer(ids[None, :length]).last_hidden_state[0].mean(0))
    assert renormalize(inputs, task, (0.1,), (0.2,)) is inputs


def test_teachers_that_do_not_fit_are_refused(tmp_path):
    language_model(tmp_path / "lm")
    lm, task = str(tmp_path / "lm"), Task("cola", 2, "text", max_len=40, vocab_size=SIZE)
    with pytest.raises(UserError, match="is for language, but task cola is text; adapt it first"):
        Teacher.of(load_pretrained(lm), task)
    for change in ({"vocab_size": 300}, {"max_len": 41}):
        with pytest.raises(UserError, match=f"knows {SIZE} tokens, in texts of up to 40, but task cola"):
            Teacher.of(load_pretrained(lm), Task(**{**vars(task), **change}), features_only=True)
    with pytest.raises(UserError, match="is for language, but task digits is classification"):
        Teacher.of(load_pretrained(lm), Task("digits", 10), features_only=True)
    small = ViTArchitecture(1, 8, 2, patch_size=8, img_size=16, num_classes=2)
    Learngene("ancestor", small, small.build().state_dict()).save(tmp_path / "vit.learngene.safetensors")
    with pytest.raises(UserError, match="is for classification, but task cola is text"):
        Teacher.of(load_pretrained(str(tmp_path / "vit.learngene.safetensors")), task, features_only=True)


def test_a_gpt2_of_another_configuration_is_read_as_it_is(tmp_path):
    language_model(tmp_path / "lm", activation_function="relu", pad_token_id=3)
    network = load_pretrained(str(tmp_path / "lm"))
    assert json.loads(network.architecture.config).items() >= {"activation_function": "relu", "pad_token_id": 3}.items()
    with pytest.raises(
        UserError, match="the descendant has activation_function None, but the source 'relu'; name only"
    ):
        initialize(ARCHITECTURE, Pretrained(f"{tmp_path}/lm"), head="new")


def test_sources_of_another_kind_are_refused(tmp_path):
    text = HFArchitecture(1, 8, 2, max_len=5, vocab_size=7)
    image = ViTArchitecture(1, 8, 2, patch_size=8, img_size=16)
    write_descendant(tmp_path / "text", text.build(), text)
    with pytest.raises(UserError, match="the source is for text"):
        initialize(image, Pretrained(str(tmp_path / "text")))
    Learngene("ancestor", image, image.build().state_dict()).save(tmp_path / "vit.learngene.safetensors")
    with pytest.raises(UserError, match="the source is for classification"):
        initialize(text, Pretrained(str(tmp_path / "vit.learngene.safetensors")))


@pytest.mark.parametrize("names", [("left", "right", "other"), None])
def test_a_folder_that_is_read_again_has_its_class_names(tmp_path, names):
    write_descendant(tmp_path / "text", GPT2.build(), GPT2, label_names=names)
    assert load_pretrained(str(tmp_path / "text")).label_names == (names or ())

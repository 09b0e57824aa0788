"""A teacher is never trained, saved or in train mode, and it normalizes its inputs as it was trained to."""

import copy
import os
import re
import shlex
import sqlite3
from contextlib import closing
from typing import Any

import pytest
import timm
import torch
from hypothesis import given
from hypothesis import strategies as st
from timm.models import save_for_hf
from torch import Tensor, nn

from lgx.architectures import parse_architecture
from lgx.artifacts.pretrained import load_pretrained
from lgx.components.features import sum_features
from lgx.components.teacher import Teacher, TeacherRequest
from lgx.components.teacher_cache import TeacherCache
from lgx.core.rows import read_rows
from lgx.core.task import Task
from lgx.errors import UserError
from tests.support.command_line import arguments, lgx, ok, refusal

TASK = Task("shapes", 5, in_chans=3, img_size=32, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A convolutional network with BatchNorm as a timm folder."""
    torch.manual_seed(0)
    model = timm.create_model("resnet10t", num_classes=5)
    model.pretrained_cfg = {**model.pretrained_cfg, "mean": (0.1, 0.2, 0.3), "std": (0.5, 0.6, 0.7), "num_classes": 5}
    path = tmp_path_factory.mktemp("teacher") / "resnet"
    save_for_hf(model, str(path), safe_serialization=True)
    return path


def test_a_teacher_of_any_timm_family_gets_its_own_normalization(folder):
    teacher = Teacher.of(load_pretrained(f"local-dir:{folder}"), TASK)
    assert (teacher.width, teacher.num_parameters) == (512, sum(p.numel() for p in teacher.model.parameters()))
    pixels = torch.rand(2, 3, 32, 32)

    def normalized(mean, std):
        return (pixels - torch.tensor(mean).view(1, 3, 1, 1)) / torch.tensor(std).view(1, 3, 1, 1)

    model = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    expected = model(normalized((0.1, 0.2, 0.3), (0.5, 0.6, 0.7)))
    torch.testing.assert_close(teacher(normalized(TASK.mean, TASK.std)), expected, rtol=1e-4, atol=1e-5)


def test_a_teacher_is_not_part_of_the_module_that_holds_it(folder):
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.teacher = Teacher.of(load_pretrained(str(folder)), TASK)

    holder = Holder().train()
    before = {k: v.clone() for k, v in holder.teacher.model.state_dict().items()}
    assert set(holder.state_dict()) == {"layer.weight", "layer.bias"}
    assert len(list(holder.parameters())) == 2
    logits = holder.teacher(torch.randn(4, 3, 32, 32))
    assert not logits.requires_grad
    assert all(torch.equal(before[k], v) for k, v in holder.teacher.model.state_dict().items())  # BatchNorm too


def test_a_source_that_does_not_fit_is_refused(folder):
    with pytest.raises(UserError, match=r"predicts 5 classes, but task shapes has 7.* with its own library"):
        Teacher.of(load_pretrained(str(folder)), Task("shapes", 7))
    with pytest.raises(UserError, match=r"no such file or folder|no config\.json"):
        Teacher.of(load_pretrained("no/such/folder"), TASK)
    with pytest.raises(UserError, match="not a file, a folder or a model that timm knows"):
        Teacher.of(load_pretrained("resnet_of_my_dreams"), TASK)


def test_a_teacher_that_cannot_read_the_images_is_refused(tmp_path):
    save_for_hf(timm.create_model("levit_128s", num_classes=5), str(tmp_path / "levit"), safe_serialization=True)
    with pytest.raises(UserError, match="cannot read 3 channels of 32 px"):
        Teacher.of(load_pretrained(str(tmp_path / "levit")), Task("x", 5, img_size=32))
    teacher = Teacher.of(load_pretrained(str(tmp_path / "levit")), Task("x", 5, img_size=224))
    assert teacher(torch.zeros(1, 3, 224, 224)).shape == (1, 5)


def test_the_advice_to_adapt_an_ancestor_is_a_command_that_works(images, ancestor_file, tmp_path):
    task = Task("shapes", 3, img_size=16, in_chans=3)
    with pytest.raises(UserError, match="predicts 5 classes, but task shapes has 3; adapt it first") as error:
        Teacher.of(load_pretrained(ancestor_file), task)
    (line,) = re.findall("`(.*)`", str(error.value))
    words = [word for word in arguments("fit", "Ancestor", images, tmp_path) if not word.startswith(("fit", "--model"))]
    ok(lgx(*shlex.split(line)[1:], *[word for word in words if word != "Ancestor"], "--name=adapted"))
    adapted = Teacher.of(load_pretrained(str(tmp_path / "test/adapted/seed0/best.learngene.safetensors")), task)
    assert adapted(torch.zeros(1, 3, 16, 16)).shape == (1, 3)


def test_features_after_a_hidden_layer_of_the_head_have_its_width(tmp_path):
    model = timm.create_model("mobilenetv3_small_050", num_classes=5)
    save_for_hf(model, str(tmp_path / "mobile"), safe_serialization=True)
    teacher = Teacher.of(load_pretrained(f"local-dir:{tmp_path / 'mobile'}"), TASK)
    total, count = sum_features(teacher, [torch.randn(2, 3, 32, 32)])
    assert (total.shape, count) == ((teacher.width,), 2)


FEATURES = ("--model.guidance=features", "--data.labels=false")


class Counting(nn.Linear):
    """Counts the inputs that it reads."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.rows: list[int] = []  # a number would count as an option of the module

    @property
    def seen(self) -> int:
        return sum(self.rows)

    @seen.setter
    def seen(self, value: int) -> None:
        self.rows[:] = [value]

    def forward(self, inputs: Tensor) -> Tensor:
        self.rows.append(len(inputs))
        return super().forward(inputs)


def network(seed: int = 0) -> Counting:
    torch.manual_seed(seed)
    return Counting(6, 3)


def ask(cache: TeacherCache, model: nn.Module, inputs: Tensor, part: str = "logits") -> Tensor:
    with torch.no_grad():
        return cache.answer(part, inputs, lambda rows: (model(rows),))[0]


@given(rows=st.lists(st.integers(0, 9), min_size=1, max_size=12), before=st.lists(st.integers(0, 9), max_size=12))
def test_answers_are_those_of_the_network_whatever_came_before(rows, before):
    model, examples = network(), torch.randn(10, 6, generator=torch.Generator().manual_seed(1))
    cache = TeacherCache(model)
    if before:
        ask(cache, model, examples[before])
    torch.testing.assert_close(ask(cache, model, examples[rows]), model(examples[rows]).detach())


def test_each_input_is_computed_once_for_all_runs():
    model, inputs = network(), torch.randn(8, 6)
    first = ask(TeacherCache(model), model, inputs)
    assert torch.equal(ask(TeacherCache(model), model, inputs.flip(0)), first.flip(0))
    assert model.seen == 8
    ask(TeacherCache(model), model, torch.cat([inputs[:2], torch.randn(3, 6)]))
    assert model.seen == 11


def test_another_network_part_or_precision_has_answers_of_its_own():
    model, other, inputs = network(), network(1), torch.randn(4, 6)
    ask(TeacherCache(model), model, inputs)
    assert not torch.equal(ask(TeacherCache(other), other, inputs), model(inputs))
    assert other.seen == 4
    model.seen = 0
    ask(TeacherCache(model), model, inputs, "features")
    with torch.autocast("cpu", torch.bfloat16):
        half = ask(TeacherCache(model), model, inputs)
    assert (model.seen, half.dtype) == (8, torch.bfloat16)


@pytest.mark.parametrize("change", ["heads", "epsilon", "buffer"])
def test_a_network_that_prints_the_same_has_answers_of_its_own(change):
    def vit(heads: int = 2) -> Any:
        torch.manual_seed(0)
        return parse_architecture(f"depth=1,embed_dim=16,num_heads={heads},patch_size=4,img_size=8").build().eval()

    model, other = vit(), vit(4 if change == "heads" else 2)
    for network_ in (model, other):
        network_.register_buffer("offset", torch.zeros(1), persistent=False)
    if change == "epsilon":
        other.blocks[0].attn.scale *= 2
    elif change == "buffer":
        other.offset += 1
    assert str(model) == str(other)
    assert TeacherCache(model).path != TeacherCache(other).path
    assert TeacherCache(model).path == TeacherCache(copy.deepcopy(model)).path


@pytest.mark.parametrize("damage", ["a flipped bit", "garbage", "nothing"])
def test_a_damaged_answer_is_computed_again(damage):
    model, inputs = network(), torch.randn(4, 6)
    first, cache = ask(TeacherCache(model), model, inputs), TeacherCache(model)
    with closing(sqlite3.connect(cache.path)) as file, file:
        for key, value in file.execute("SELECT key, value FROM answers").fetchall():
            flipped = value[:-1] + bytes([value[-1] ^ 64])
            wrong = {"a flipped bit": flipped, "garbage": b"{" * 99, "nothing": b""}[damage]
            file.execute("UPDATE answers SET value = ? WHERE key = ?", (wrong, key))
    for seen in (8, 8):  # the second time it is read
        assert torch.equal(ask(TeacherCache(model), model, inputs), first)
        assert model.seen == seen


@pytest.mark.parametrize("damage", ["cut", "overwritten", "a file in place of the folder"])
def test_without_a_usable_file_the_network_answers(damage):
    model, inputs = network(), torch.randn(4, 6)
    cache = TeacherCache(model)
    wanted = ask(cache, model, inputs)
    if damage == "cut":
        os.truncate(cache.path, 5000)
    elif damage == "overwritten":
        cache.path.write_bytes(b"no database" * 1000)
    else:
        cache.path.unlink()
        cache.path.parent.rmdir()
        cache.path.parent.write_text("")
    again = TeacherCache(model)
    assert torch.equal(ask(again, model, inputs), wanted)
    assert again.failure
    assert torch.equal(ask(again, model, inputs), wanted)


def test_a_teacher_keeps_the_answers_to_what_it_reads_in_its_own_normalization(ancestor, monkeypatch):
    task = Task("shapes", 3, in_chans=3, img_size=16, mean=(0.4,) * 3, std=(0.2,) * 3)
    source = str(ancestor / "best.learngene.safetensors")
    plain = Teacher.of(load_pretrained(source), task)
    kept = Teacher.answering(TeacherRequest(source, task, cached=True))
    images = torch.randn(5, 3, 16, 16)
    for writes in (TeacherCache._write, None):  # the second time nothing is computed that would be written
        monkeypatch.setattr(TeacherCache, "_write", writes)
        torch.testing.assert_close(kept(images), plain(images))
        torch.testing.assert_close(kept.features(images), plain.features(images))
        for own, wanted in zip(kept.image_features(images), plain.image_features(images), strict=True):
            torch.testing.assert_close(own, wanted)


@pytest.mark.parametrize("guidance", [(), FEATURES], ids=["logits", "features"])
def test_a_run_is_the_same_with_and_without_kept_answers(fit, ancestor, tmp_path, guidance):
    source = ancestor / "best.learngene.safetensors"
    losses = {}
    for name, option in (("plain", "false"), ("first", "true"), ("second", "true")):
        result = ok(fit(
            "SWS", f"--model.ancestor={source}", "--model.stages=[2,2]", f"--model.cache_ancestor={option}",
            "--trainer.max_epochs=3", f"--name={name}", *guidance,
        ))  # fmt: skip
        assert ("answers    in " in result.out) == (option == "true")
        rows = read_rows(next((tmp_path / "runs").glob(f"test/{name}/seed*/results.csv")))
        losses[name] = [row.value for row in rows if row.metric == "loss"]
    assert losses["first"] == losses["second"] != []
    assert losses["first"] == pytest.approx(losses["plain"], rel=1e-5)


def test_answers_to_images_that_vary_are_not_kept(fit, ancestor):
    source = ancestor / "best.learngene.safetensors"
    sentence = refusal(fit(
        "SWS", f"--model.ancestor={source}", "--model.stages=[2,2]", "--model.cache_ancestor=true",
        "--data.augment=crop_flip",
    ))  # fmt: skip
    assert "model.cache_ancestor" in sentence
    assert "data.augment" in sentence

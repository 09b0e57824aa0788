"""``lgx export`` writes ONNX files and programs of torch.export that need no lgx and give the network's logits."""

import json
import shutil
import sys
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from lgx.architectures import HFArchitecture
from lgx.artifacts.checkpoints import load_checkpoint, weights_of_run
from lgx.artifacts.export.onnx_file import run_onnx, write_onnx
from lgx.artifacts.export.program import check_parity, task_of, to_texts, write_pt2
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import PretrainedNetwork, load_pretrained
from lgx.core.task import Task
from lgx.errors import UserError
from tests.support.command_line import lgx, ok, refusal
from tests.support.extras import import_transformers
from tests.support.families import FORMS, tiny

WRITERS = {"onnx": write_onnx, "pt2": write_pt2}


def run_pt2(path):
    """The program and what the file says of itself, read by torch alone."""
    extra = {"lgx.json": ""}
    program = torch.export.load(path, extra_files=extra).module()
    return program, json.loads(extra["lgx.json"])


READERS = {"onnx": run_onnx, "pt2": run_pt2}


@pytest.fixture(scope="module")
def programs(ancestor, tmp_path_factory):
    """The trained ancestor as ONNX and as a program, exported from the folder of its run."""
    folder = tmp_path_factory.mktemp("programs")
    for suffix in WRITERS:
        assert "logits differ by at most" in ok(lgx("export", ancestor, "--out", folder / f"net.{suffix}")).out
        assert list(folder.glob(".*")) == []
    return folder


def test_programs_say_the_same_and_give_the_logits_of_the_best_checkpoint_for_any_batch(ancestor, programs):
    network = load_pretrained(f"{ancestor}/checkpoints/best.ckpt").model
    (onnx_program, texts), (pt2_program, same) = (READERS[suffix](programs / f"net.{suffix}") for suffix in WRITERS)
    assert texts == same
    operators = [str(node.target) for node in pt2_program.graph.nodes if node.op == "call_function"]
    assert "aten.linear.default" in operators
    assert not [name for name in operators if "lgx" in name]  # torch alone runs it
    for program, batch in product((onnx_program, pt2_program), (1, 2, 5)):
        images = torch.randn(batch, 3, 16, 16)
        with torch.no_grad():
            torch.testing.assert_close(program(images), network(images), atol=1e-4, rtol=0)


def test_onnxruntime_alone_reads_classes_normalization_size_and_origin(ancestor, programs):
    session = onnxruntime.InferenceSession(programs / "net.onnx", providers=["CPUExecutionProvider"])
    (images,), (logits,) = session.get_inputs(), session.get_outputs()
    (batch, *image), (also_batch, *classes) = images.shape, logits.shape
    assert (images.name, image, logits.name, classes) == ("inputs", [3, 16, 16], "logits", [3])
    assert batch == also_batch != 1  # "batch", with torch before 2.11 "s77"
    about = {key: json.loads(text) for key, text in session.get_modelmeta().custom_metadata_map.items()}
    task = load_checkpoint(ancestor / "checkpoints/best.ckpt")["lgx"]["task"]
    assert about["class_names"] == ["circle", "square", "stripe"]
    assert (about["mean"], about["std"], about["img_size"], about["in_chans"]) == (task["mean"], task["std"], 16, 3)
    assert about["origin"]["source"] == weights_of_run(str(ancestor))
    assert (about["origin"]["method"], about["origin"]["task"]) == ("ancestor", "shapes")
    assert {"trained", "commit", "config_hash", "seed", "acc (%), val split"} <= set(about["origin"])
    assert session.run(None, {"inputs": np.zeros((4, 3, 16, 16), np.float32)})[0].shape == (4, 3)


SMALL = Task("", 3, img_size=8)


def network(model: nn.Module) -> tuple[nn.Module, Task, dict[str, str]]:
    return model.eval(), SMALL, to_texts(SMALL, {})


def untrained(architecture):
    model = architecture.build().eval()
    task = task_of(PretrainedNetwork("net", model, architecture, (0.5,) * 3, (0.5,) * 3))
    return model, task, to_texts(task, {})


class Noise(nn.Module):
    """A network whose outputs are never the same."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.rand(images.shape[0], 3) + images.mean()


class Branching(nn.Module):
    """A network whose path depends on the values of its inputs, which no trace can follow."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images[:, :, 0, 0] if float(images.sum()) > 0 else images[:, :, 1, 1]


@pytest.mark.parametrize("suffix", [pytest.param("onnx", marks=pytest.mark.slow), "pt2"])
def test_a_program_with_other_logits_is_refused_and_leaves_nothing(tmp_path, suffix):
    out = tmp_path / f"net.{suffix}"
    with pytest.raises(UserError, match=rf"{out}: logits of the exported program differ by .* nothing was written"):
        WRITERS[suffix](out, *network(Noise()))
    assert list(tmp_path.iterdir()) == []


def test_a_network_that_cannot_be_traced_is_refused_and_an_older_file_stays(tmp_path):
    out = tmp_path / "net.pt2"
    out.write_bytes(b"older")
    with pytest.raises(UserError, match=r"net\.pt2: torch\.export cannot trace this network .* export a folder"):
        write_pt2(out, *network(Branching()))
    assert out.read_bytes() == b"older"
    assert len(list(tmp_path.iterdir())) == 1


def test_parity_refuses_nan_and_shapes():
    model, task, _ = network(nn.Sequential(nn.Flatten(), nn.Linear(192, 3)))
    assert check_parity(model, lambda images: model(images) + 5e-5, task, "x") == pytest.approx(5e-5, rel=0.1)
    for wrong, words in (
        (lambda images: model(images) + 2e-4, "differ by"),
        (lambda images: model(images) * torch.nan, "differ by nan"),
        (lambda images: model(images)[:1, :2], "differ by inf"),
        (lambda images: model(images[:, :1]), "does not run"),
    ):
        with pytest.raises(UserError, match=f"x: .*{words}"):
            check_parity(model, wrong, task, "x")


@pytest.mark.slow
def test_without_onnxruntime_the_file_is_written_and_the_missing_check_is_said(ancestor, images, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    out = tmp_path / "net.onnx"
    done = ok(lgx("export", ancestor, "--out", out))
    assert "parity    not checked: onnxruntime is not installed; pip install 'lgx[export]'" in done.out
    assert out.is_file()
    sentence = refusal(lgx("predict", images / "test", "--model", out, "--out", tmp_path / "x.csv"))
    assert f"{out}: needs onnxruntime, which is not installed; pip install 'lgx[export]'" in sentence


def test_a_missing_package_is_named_before_anything_is_traced(ancestor, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    done = lgx("export", ancestor, "--out", tmp_path / "net.onnx")
    assert (done.code, "needs onnxscript, which is not installed" in done.sentence) == (2, True)


@pytest.mark.parametrize(
    ("name", "words"), [("net.onnx", "--tokenizer: needs a folder"), ("net.safetensors", "expected a folder; its")]
)
def test_a_tokenizer_beside_a_file_and_a_bare_file_of_weights_are_refused(ancestor, tmp_path, name, words):
    done = lgx("export", ancestor, "--out", tmp_path / name, "--tokenizer", "gpt2")
    assert (done.code, words in done.sentence) == (2, True), done.err
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_a_source_for_a_folder_and_a_run_without_a_checkpoint_is_named(ancestor, tmp_path, monkeypatch):
    for source, out in ((ancestor, "run"), (weights_of_run(str(ancestor)), "file")):
        assert lgx("export", source, "--out", tmp_path / out).code == 0
    weights = [(tmp_path / out / "model.safetensors").read_bytes() for out in ("run", "file")]
    assert weights[0] == weights[1]
    card = (tmp_path / "run/README.md").read_text()
    assert f'| source | "{weights_of_run(str(ancestor))}" |' in card
    (tmp_path / "net.onnx").write_bytes(b"onnx")
    shutil.copytree(ancestor, tmp_path / "broken", ignore=shutil.ignore_patterns("*.ckpt"))
    monkeypatch.chdir(tmp_path)
    for source, words in (
        ("net.onnx", "unknown kind of file"),
        (tmp_path / "net.onnx", "unknown kind of file"),
        ("none.onnx", "not a file, a folder or a model that timm knows"),
        ("broken", "the run has no checkpoint"),
    ):
        assert f"{source}: {words}" in lgx("export", source, "--out", tmp_path / "x").sentence


@pytest.mark.slow
def test_an_own_onnx_file_is_replaced_and_a_program_of_torch_with_force_only(programs, ancestor, tmp_path):
    for name, code in (("net.onnx", 0), ("net.pt2", 2)):
        out = tmp_path / name
        shutil.copy(programs / name, out)
        assert lgx("export", ancestor, "--out", out).code == code
        assert out.read_bytes() == (programs / name).read_bytes() or code == 0
        assert lgx("export", ancestor, "--out", out, "--force").code == 0


def test_a_network_too_large_for_one_onnx_file_is_refused_before_it_is_traced(tmp_path):
    with torch.device("meta"):
        large = network(nn.Sequential(nn.Flatten(), nn.Linear(192, 3_000_000)))
    with pytest.raises(UserError, match=r"weights of 2\.2 GiB exceed an ONNX file's 2 GiB; write a \.pt2"):
        write_onnx(tmp_path / "net.onnx", *large)


@pytest.mark.parametrize("suffix", [pytest.param("onnx", marks=pytest.mark.slow), "pt2"])
def test_segmentation_is_exported_with_its_decoder(tmp_path, suffix):
    out = tmp_path / f"net.{suffix}"
    assert WRITERS[suffix](out, *untrained(tiny("plain", kind="segmentation"))) < 1e-4
    program, texts = READERS[suffix](out)
    assert program(torch.zeros(2, 3, 16, 16)).shape == (2, 5, 16, 16)
    assert "whole image resized" in texts["preparation"]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("model_type", ["gpt2", "bert"])
def test_a_text_network_is_exported_for_texts_of_any_length(tmp_path, suffix, model_type):
    import_transformers()
    config = json.dumps({"model_type": model_type, "pad_token_id": 0})
    text = HFArchitecture(2, 16, 2, max_len=24, vocab_size=260, num_classes=2, config=config)
    source, out = tmp_path / "a.learngene.safetensors", tmp_path / f"net.{suffix}"
    Learngene("ancestor", text, text.build().state_dict()).save(source)
    ok(lgx("export", source, "--out", out))
    network, (program, about) = load_pretrained(str(source)).model, READERS[suffix](out)
    known = {key: json.loads(value) for key, value in about.items()}
    assert (known["kind"], known["max_len"], known["vocab_size"]) == ("text", 24, 260)
    inputs = torch.randint(0, 260, (2, 3, 5))
    inputs[:, 1:] = torch.tensor([[[1, 1, 1, 1, 1], [0, 0, 0, 1, 1]], [[1, 1, 0, 0, 0], [0, 0, 0, 0, 0]]])
    if suffix == "onnx":
        names = {each.name for each in onnx.load(out).graph.input}
        assert {"input_ids", "attention_mask"} <= names <= {"input_ids", "attention_mask", "token_type_ids"}
    for texts in (inputs, inputs[1:, :, :2]):
        found = program(texts) if suffix == "onnx" else program(*texts.unbind(1))
        with torch.no_grad():
            torch.testing.assert_close(found, network(texts), atol=1e-4, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("family", FORMS)
def test_every_form_of_vit_is_exported(tmp_path, family, suffix):
    assert WRITERS[suffix](tmp_path / f"net.{suffix}", *untrained(tiny(family))) < 1e-4


def test_int8_keeps_the_accuracy_the_classes_and_a_third_of_the_size(ancestor, images, programs, tmp_path):
    out = tmp_path / "small.onnx"
    assert "of 12 test images" in ok(lgx("export", ancestor, "--out", out, "--int8", images, "--most_lost", 20)).out
    assert list(tmp_path.iterdir()) == [out]
    whole, small = run_onnx(programs / "net.onnx"), run_onnx(out)
    assert small[1] == whole[1]
    inputs = torch.randn(40, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    different = (whole[0](inputs) - small[0](inputs)).abs()
    assert 0 < different.mean() < 0.1 * whole[0](inputs).abs().mean()
    kinds = [node.op_type for node in onnx.load(out).graph.node]
    assert kinds.count("DequantizeLinear") > 10


def test_int8_compares_on_validation_images_only_where_there_are_no_test_images(ancestor, images, tmp_path):
    given = "export", ancestor, "--out", tmp_path / "small.onnx", "--most_lost", 100, "--int8", tmp_path / "shapes"
    tests = shutil.copytree(images, tmp_path / "shapes") / "test"
    next(tests.iterdir()).rename(tests / "wave")
    assert "wave" in refusal(lgx(*given))
    shutil.rmtree(tests)
    assert " val images of " in ok(lgx(*given)).out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--int8", "{images}", "--most_lost", -101], "more than --most_lost -101; nothing was written"),
        (["--most_lost", 2], "--int8"),
        (["--int8", "{images}", "--out", "small"], "ending in .onnx"),
        (["--int8", "{other}"], "which lacks 'stripe' and has 'wave' instead"),
        (["--int8", "nothing"], "nothing"),
    ],
)
def test_int8_that_loses_too_much_or_has_no_place_or_images_writes_nothing(
    ancestor, images, options, words, tmp_path, monkeypatch
):
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    shutil.copytree(images, tmp_path / "other")
    for stripes in [*(tmp_path / "other").glob("*/stripe")]:
        stripes.rename(stripes.with_name("wave"))
    options = [str(word).format(images=images, other=tmp_path / "other") for word in options]
    done = lgx("export", ancestor, "--out", "small.onnx", *options)
    assert (done.code, words in done.sentence, list(Path().iterdir())) == (2, True, [])

"""``lgx predict IMAGES --model EXPORTED`` gives the predictions of ``lgx predict --config`` for any image files."""

import csv
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from lgx.architectures import HFArchitecture
from lgx.artifacts.export import write_descendant
from lgx.commands.predict import _true_classes, is_for_exported
from tests.support.command_line import lgx, ok, python, refusal
from tests.support.extras import import_transformers
from tests.support.images import CLASSES, draw
from tests.support.paths import ROOT
from tests.support.tokenizers_of_models import write_tokenizer

FORMS = ["net.onnx", "folder", "run", "checkpoint"]


@pytest.fixture(scope="module")
def models(ancestor, tmp_path_factory):
    """The trained ancestor in every form that ``--model`` takes."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("net.onnx", "folder"):
        ok(lgx("export", ancestor, "--out", folder / name))
    paths = {name: folder / name for name in ("net.onnx", "folder")}
    return {**paths, "run": ancestor, "checkpoint": ancestor / "checkpoints/best.ckpt"}


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Test images that need resizing, cropping and conversion, in class folders beside a training set."""
    root, rng = tmp_path_factory.mktemp("photos") / "shapes", np.random.default_rng(0)
    for split, count in (("train", 2), ("test", 6)):
        for label, name in enumerate(CLASSES):
            folder = root / split / name
            folder.mkdir(parents=True)
            for k in range(count):
                image = draw(label, rng).resize((40 + 7 * k, 61 - 5 * k))
                image.convert(["RGB", "L", "RGBA", "P", "LA", "1"][k]).save(folder / f"{k}.png")
    return root


@pytest.fixture(scope="module")
def expected(ancestor, photos, tmp_path_factory):
    """What the training command predicts for them."""
    runs = tmp_path_factory.mktemp("runs")
    options = [f"--data.root={photos}", f"--runs_dir={runs}", "--name=p", "--data.name=shapes"]
    path = f"--ckpt_path={ancestor}/checkpoints/best.ckpt"
    ok(lgx("predict", "--config", ancestor / "config.yaml", path, *options))
    (file,) = runs.rglob("predictions.csv")
    return {row["file"]: row for row in rows(file)}


@pytest.mark.parametrize("form", FORMS)
def test_predictions_are_those_of_the_training_command(models, photos, expected, tmp_path, form):
    done = ok(lgx("predict", photos / "test", "--model", models[form], "--out", tmp_path / "p.csv", "--batch-size", 5))
    found = rows(tmp_path / "p.csv")
    assert [row["file"] for row in found] == sorted(expected)
    assert len(found) == 18
    for row in found:
        known = expected[row["file"]]
        assert (row["class"], row["name"]) == (known["class"], known["name"])
        assert float(row["probability"]) == pytest.approx(float(known["probability"]), abs=1e-4)
        assert row["true_name"] == known["true_name"] == row["file"].split("/")[0]
    correct = sum(row["name"] == row["true_name"] for row in found)
    assert f"accuracy  {correct / 18:.1%} of 18 images" in done.out


def test_the_true_class_is_the_nearest_folder_with_the_name_of_a_class_below_the_one_that_is_read():
    files = {name: Path("disk", "test", name) for name in ("disk/a/1.png", "ring/disk/1.png", "a/1.png")}
    assert _true_classes(files, {"disk", "ring"}) == {"disk/a/1.png": "disk", "ring/disk/1.png": "disk"}


def test_predictions_for_images_need_neither_lightning_nor_transformers(models, photos, tmp_path):
    code = (
        "import sys; from lgx.cli import main; main(sys.argv[1:]); "
        "assert not {'lightning', 'transformers', 'torchmetrics'} & set(sys.modules)"
    )
    done = python("-c", code, "predict", photos / "test", "--model", models["folder"], "--out", tmp_path / "p.csv")
    assert done.returncode == 0, done.stderr


def test_files_and_several_folders_keep_the_names_that_were_given(models, photos, tmp_path):
    out, test = tmp_path / "p.csv", photos / "test"
    given = [test / "circle/0.png", test / "square", test / "circle/0.png"]
    assert lgx("predict", *given, "--model", models["folder"], "--out", out).code == 0
    assert [row["file"] for row in rows(out)] == [str(given[0]), *(f"{test}/square/{k}.png" for k in range(6))]


def test_unreadable_files_are_reported_counted_and_not_fatal(models, photos, tmp_path):
    place, out = tmp_path / "photos", tmp_path / "p.csv"
    shutil.copytree(photos / "test", place)
    (place / "circle/0.png").rename(place / "circle/0.JPG")
    (place / "notes.txt").write_text("x")
    (place / "circle/broken.png").write_bytes(b"no image")
    whole = (place / "square/0.png").read_bytes()
    (place / "square/half.png").write_bytes(whole[: len(whole) // 2])
    Image.new("F", (8, 8), 9).save(place / "float.tif")
    done = lgx("predict", place, "--model", models["folder"], "--out", out, "--batch_size=4")
    assert done.code == 3
    assert f"predicted {out}: 18 images" in done.out
    assert "skipped   1 files (.txt 1)" in done.out
    assert "unread    circle/broken.png: UnidentifiedImageError" in done.err
    assert "unread    square/half.png: " in done.err
    assert "unread    float.tif: float32 has no known range; give data.value_range" in done.err
    assert done.sentence == "unread    3 of 21 files could not be decoded"
    assert len(rows(out)) == 18
    for path in place.rglob("*.*"):
        path.write_bytes(b"no image")
    before = out.read_bytes()
    sentence = refusal(lgx("predict", place, "--model", models["folder"], "--out", out))
    assert "cannot be decoded" in sentence
    assert "like all of the 21 files" in sentence
    assert out.read_bytes() == before
    assert list(tmp_path.glob(".*")) == []


def test_a_foreign_onnx_file_without_description_is_refused(models, photos, tmp_path):
    foreign = onnx.load(models["net.onnx"])
    del foreign.metadata_props[:]
    onnx.save(foreign, tmp_path / "foreign.onnx")
    sentence = refusal(lgx("predict", photos, "--model", tmp_path / "foreign.onnx", "--out", tmp_path / "p.csv"))
    assert "foreign.onnx: has no metadata of class names, normalization and image size" in sentence


def test_a_damaged_program_is_refused_and_one_of_torch_is_not_read(models, photos, tmp_path):
    content, out = models["net.onnx"].read_bytes(), tmp_path / "p.csv"
    for name, part, words in (
        ("a.onnx", b"", "not an intact"),
        ("b.onnx", content[: len(content) // 2], "not an intact"),
        ("c.onnx", b"x" * 100, "not an intact"),
        ("d.pt2", b"", "a program of torch.export may run code; give the run"),
    ):
        (tmp_path / name).write_bytes(part)
        sentence = refusal(lgx("predict", photos, "--model", tmp_path / name, "--out", out))
        assert f"{tmp_path / name}: {words}" in sentence
    assert not out.exists()


def test_a_network_of_texts_refuses_images_and_needs_a_tokenizer(photos, tmp_path):
    import_transformers()
    words, texts = write_tokenizer(tmp_path / "words", "bare"), HFArchitecture(1, 8, 2, max_len=9, vocab_size=320)
    write_descendant(tmp_path / "texts", texts.build(), texts)
    given = ["predict", photos, "--model", tmp_path / "texts", "--out", tmp_path / "p.csv"]
    assert "has no tokenizer; give its folder or name with --tokenizer" in refusal(lgx(*given))
    assert ".txt, .jsonl" in refusal(lgx(*given, "--tokenizer", words))


def test_mistakes_end_with_one_sentence_and_write_nothing(models, photos, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/notes.txt").write_text("x")
    out, segments = tmp_path / "p.csv", ROOT / "tests/data/learngenes/segmentation.learngene.safetensors"
    for given, sentence in (
        ([tmp_path / "empty", "--model", models["folder"]], "empty: no image (looked for .jpg, "),
        ([photos, "--model", tmp_path / "absent.onnx"], "absent.onnx: no such file or folder; give what `lgx export`"),
        ([photos, "--model", models["folder"], "--batch_size", 0], "batch_size: Not of type PositiveInt"),
        ([photos, "--model", segments], "is a model for segmentation, but"),
    ):
        done = lgx("predict", *given, "--out", out)
        assert (done.code, sentence in done.sentence) == (2, True), done.err
        assert not out.exists()
    for text in ("mine", "notes\nfile,class,name,probability\n", "file,label\na.png,dog\n", "profile,age\n"):
        out.write_text(text)
        done = lgx("predict", photos, "--model", models["folder"], "--out", out)
        assert "exists, and `lgx predict` did not write it" in done.sentence
        assert out.read_text() == text
    assert lgx("predict", photos, "--model", models["folder"], "--out", out, "--force").code == 0
    assert lgx("predict", photos, "--model", models["folder"], "--out", out).code == 0


def test_the_form_of_the_command_follows_from_its_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Ancestor").mkdir()
    (tmp_path / "net").mkdir()
    for words in (
        "photos --model net --out p.csv", "--model=net photos", "--model x --out p photos", "-h", "photos",
        "--model SWS",
    ):  # fmt: skip
        assert is_for_exported(words.split()), words
    for words in (
        "--config a.yaml --ckpt_path best", "-c a.yaml", "--config=a.yaml", "--model Ancestor --data ImageFolderData",
        "--model Ancestor --model.arch 6-Small", "--print_config", "--ckpt_path best", "",
        "--model Ancestor --trainer.devices 1", "--config a.yaml --help",
    ):  # fmt: skip
        assert not is_for_exported(words.split()), words

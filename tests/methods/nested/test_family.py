"""Families of finished networks: their scores, and the choice of a network."""

import csv
import re
import shutil

import pytest
import timm
import torch
from safetensors.torch import load_file

from lgx.architectures import ViTArchitecture
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.commands import api
from lgx.core.rows import read_rows
from lgx.initialization.sizing import enough, parse_budgets
from lgx.methods.nested.front import size_grid
from lgx.methods.nested.sizes import KEYS, default_sizes, parse_size, slice_text
from lgx.methods.nested.slicing import sliced
from lgx.results.comparison import Options, compare_files
from tests.support.command_line import arguments, lgx, ok
from tests.support.extras import need_onnx
from tests.support.images import CLASSES

SIZES = '--model.sizes=["depth=2","depth=1,embed_dim=8,mlp_ratio=2"]'


@pytest.fixture(scope="module")
def family(images, ancestor, tmp_path_factory):
    """The folder of a run of two listed sizes."""
    runs = tmp_path_factory.mktemp("family")
    options = [f"--model.ancestor={ancestor}", SIZES, "--test_end=true", "--trainer.max_epochs=3", "--name=f"]
    done = lgx(*arguments("fit", "Family", images, runs, *options))
    assert done.code == 0, done.err
    return runs / "test/f/seed0"


def front_of(run):
    with (run / "front.csv").open() as file:
        return list(csv.DictReader(file))


def test_announced_validated_exported_and_predicted_scores_are_the_same(family, images, tmp_path):
    need_onnx()
    rows = front_of(family)
    assert len(rows) > 8
    for row in (rows[0], next(row for row in rows if (row["depth"], row["embed_dim"]) == ("2", "16"))):
        arch = ",".join(f"{key}={row[key]}" for key in ("depth", "embed_dim", "num_heads", "mlp_ratio"))
        where = f'--model.sizes=["{arch}"]', f"--ckpt_path={family}/checkpoints/last.ckpt", f"--runs_dir={tmp_path}"
        done = lgx("validate", "--config", family / "config.yaml", *where)
        assert f"  {float(row['val_acc']):.1%}".replace("%", " %") in done.out, done.err
        for kind in ("folder", "model.onnx"):
            out = tmp_path / arch / kind
            out.parent.mkdir(exist_ok=True)
            assert lgx("export", family, "--arch", arch, "--out", out).code == 0
        done = lgx(
            "predict", images / "val", "--model", family, "--arch", arch, "--out", tmp_path / "own.csv", "--force"
        )
        again = lgx("predict", images / "val", "--model", out, "--out", tmp_path / "onnx.csv", "--force")
        announced = f"accuracy  {float(row['val_acc']):.1%}"
        assert announced in done.out
        assert announced in again.out
        card = (out.with_name("folder") / "README.md").read_text()
        own = float(row["val_acc"])
        assert any(f"| {value} |" in card for value in (round(own, 6), round(100 * own, 4))), card
    small = ["--out", out.with_name("int8.onnx"), "--int8", images, "--most_lost", 100]  # of the second size
    before = re.search(r"accuracy (\S+) -> \S+ %", lgx("export", family, "--arch", arch, *small).out)[1]
    tested = lgx("predict", images / "test", "--model", family, "--arch", arch, "--out", tmp_path / "t.csv")
    assert f"accuracy  {before}%" in tested.out


def test_a_network_of_the_family_is_a_slice_that_plain_timm_reads(family, tmp_path):
    learngene = Learngene.load(family / f"final{SUFFIX}")
    assert lgx("export", family, "--arch", "depth=3,embed_dim=8", "--out", tmp_path / "small").code == 0
    model = timm.create_model(f"local-dir:{tmp_path}/small", pretrained=True).eval()
    size = learngene.architecture.replace(depth=3, embed_dim=8, num_heads=1)
    own = sliced(learngene.tensors, learngene.architecture, size, learngene.selection["layers"])
    assert all(torch.equal(tensor, own[name]) for name, tensor in model.state_dict().items())
    networks = api.load_family(family)
    assert torch.equal(networks["depth=3,embed_dim=8"].head.weight, model.head.weight)
    assert all(set(text.replace("=", ",").split(",")[::2]) == set(KEYS) for text in networks.front)
    assert model.pretrained_cfg["label_names"] == networks["depth=2"].pretrained_cfg["label_names"] == [*CLASSES]
    assert torch.equal(
        load_pretrained(str(family / f"final{SUFFIX}")).tensors["head.bias"], learngene.tensors["head.bias"]
    )


def test_a_budget_gives_the_best_in_validation_and_of_equal_ones_the_smallest(family, tmp_path):
    rows = front_of(family)
    scores = [(float(row["val_acc"]), -int(row["parameters"])) for row in rows]
    for limit in sorted({int(row["parameters"]) for row in rows})[::3]:
        out = tmp_path / str(limit)
        assert limit <= parse_budgets(enough("params", limit))[0].limit <= 1.001 * limit
        assert lgx("export", family, "--params", limit, "--out", out).code == 0
        found = sum(tensor.numel() for tensor in load_file(out / "model.safetensors").values())
        assert -found == max(score for score in scores if -score[1] <= limit)[1]
    marked = [(float(row["val_acc"]), int(row["parameters"])) for row in rows if row["best"] == "1"]
    assert marked == sorted(marked)
    assert marked == [
        (score, -size) for score, size in scores if all(score > other for other, small in scores if small > size)
    ]


def test_the_ancestor_is_a_network_of_the_front(family, tmp_path):
    (row,) = [row for row in front_of(family) if row["network"] == "ancestor"]
    learngene = Learngene.load(family / f"final{SUFFIX}")
    assert int(row["depth"]) == learngene.architecture.depth
    ok(lgx("export", family, "--arch", "ancestor", "--out", tmp_path / "whole"))
    model = timm.create_model(f"local-dir:{tmp_path}/whole", pretrained=True)
    assert all(torch.equal(tensor, learngene.tensors[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(api.load_family(family)["ancestor"].head.weight, model.head.weight)


def test_sizes_are_stored_exactly(tmp_path):
    for ratio in (7 / 3, 6.0):  # without its ratio, the text of a size means the whole network's, not the default
        whole = ViTArchitecture(3, 48, 3, mlp_ratio=ratio, patch_size=4, img_size=16, num_classes=4)
        for size in (*size_grid(whole, 1, 16), *(whole.replace(mlp_ratio=4.0),) * (ratio > 4)):
            assert parse_size(slice_text(size), whole) == parse_size(size.spec(["mlp_ratio"]), whole) == size
    tiny = ViTArchitecture(12, 192, 3, patch_size=8, img_size=64)
    assert slice_text(tiny) == "depth=12,embed_dim=192,num_heads=3,mlp_ratio=4"
    small = [(size.depth, size.embed_dim, size.mlp_ratio) for size in default_sizes(tiny, with_shallow=True)]
    assert small == [(6, 192, 4), (3, 192, 4), (6, 128, 4), (3, 128, 2)]
    assert {size.mlp_ratio for size in size_grid(tiny, 3, 128)} == {2, 4}
    assert (len(size_grid(tiny, 3, 128)), len(size_grid(tiny.replace(embed_dim=768, num_heads=12), 3, 64))) == (40, 40)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "choose one with --arch"),
        (["--params", "10"], "the smallest measured network takes"),
        (["--params", "1M", "--arch", "mlp_ratio=3"], "this size was not measured"),
    ],
)
def test_a_choice_that_the_family_does_not_have_is_refused(family, tmp_path, options, words):
    done = lgx("export", family, *options, "--out", tmp_path / "out")
    assert (done.code, "Traceback" in done.err) == (2, False)
    assert words in done.sentence
    assert not (tmp_path / "out").exists()


def test_one_network_predicts_a_split(family, tmp_path):
    given = [
        "--config", family / "config.yaml", f"--ckpt_path={family}/checkpoints/last.ckpt", f"--runs_dir={tmp_path}",
    ]  # fmt: skip
    assert "predictions need exactly one size" in lgx("predict", *given).sentence
    assert lgx("predict", *given, "--model.sizes=[depth=2]").code == 0


def test_a_test_of_an_untrained_size_changes_no_average_of_a_comparison(family, tmp_path):
    own = shutil.copytree(family, tmp_path / "test/f/seed0")
    before = compare_files([own / "results.csv"], Options())
    given = "--config", own / "config.yaml", f"--runs_dir={tmp_path}", "--trainer.accelerator=cpu"
    ok(lgx("test", *given, '--model.sizes=["depth=3"]'))
    after = compare_files([own / "results.csv"], Options())
    scores = {(row.architecture, row.value) for row in after.rows if row.method == "family"}
    assert scores == {(row.architecture, row.value) for row in before.rows}
    rows = read_rows(own / "results.csv")
    tested = {(row.method, row.architecture[:7]) for row in rows if row.split == "test"}
    assert tested == {
        ("family", "depth=4"),
        ("family", "depth=2"),
        ("family", "depth=1"),
        ("family_unlisted", "depth=3"),
    }

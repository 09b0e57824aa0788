"""``lgx init`` writes files that plain timm reads, or none."""

import json
import shutil
from functools import partial

import pytest
import timm
import torch
from safetensors.torch import load_file

from lgx.architectures import parse_architecture, parse_for
from lgx.architectures.describing import describe_timm_model
from lgx.architectures.forms import MODULES
from lgx.artifacts.checkpoints import load_checkpoint, weights_of_run
from lgx.artifacts.pretrained import architecture_of
from lgx.artifacts.source_names import WEIGHTS
from lgx.initialization import initialize
from lgx.methods import StagewiseExpansion
from lgx.methods.registry import names_with_initializer
from tests.support.command_line import ARCH, lgx, ok, refusal


def start(sws, out, *options):
    base = ["init", "--source", sws / "final.learngene.safetensors", "--arch", ARCH.replace("depth=4", "depth=3")]
    return lgx(*base, "--out", out, *options)


def test_plain_timm_computes_the_same_logits_and_knows_size_classes_and_origin(sws, tmp_path):
    result = ok(start(sws, tmp_path / "model"))
    assert all(word in result.out for word in ("taken", "random", "stored", "built"))
    image, plain = torch.randn(2, 3, 16, 16), partial(timm.create_model, f"local-dir:{tmp_path / 'model'}", True)
    architecture = parse_architecture(ARCH.replace("depth=4", "depth=3"), num_classes=3)
    own = initialize(architecture, StagewiseExpansion(str(sws / "final.learngene.safetensors"))).model.eval()
    assert torch.equal(own(image), plain().eval()(image))
    assert plain(num_classes=7)(image).shape == (2, 7)  # timm adapts the head
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["num_classes"] == 3
    assert config["label_names"] == ["circle", "square", "stripe"]
    assert config["pretrained_cfg"]["input_size"] == [3, 16, 16]
    card = (tmp_path / "model" / "README.md").read_text()
    assert '"sws"' in card
    assert "library_name: timm" in card


def test_a_budget_chooses_a_size_that_the_source_fills(ancestor, tmp_path):
    base = ["init", "--source", ancestor / "final.learngene.safetensors", "--method", "weight_selection"]
    result = ok(lgx(*base, "--params", "6k", "--out", tmp_path / "small"))
    assert all(word in result.out for word in ("depth", "parameters", "MACs", "3 classes, 16 px"))
    (chosen,) = [line.split("--arch ")[1] for line in result.out.splitlines() if line.startswith("chosen")]
    parameters = sum(tensor.numel() for tensor in load_file(tmp_path / "small" / WEIGHTS).values())
    assert 0.98 * 6000 <= parameters <= 1.02 * 6000
    ok(lgx(*base, "--arch", chosen, "--out", tmp_path / "again"))
    assert (tmp_path / "small" / WEIGHTS).read_bytes() == (tmp_path / "again" / WEIGHTS).read_bytes()


def test_a_budget_of_a_learngene_or_a_random_start_needs_no_architecture(sws, tmp_path):
    learngene = sws / "final.learngene.safetensors"
    ok(lgx("init", "--source", learngene, "--macs", "300k", "--head", 7, "--out", tmp_path / "a"))
    assert json.loads((tmp_path / "a/config.json").read_text())["num_classes"] == 7
    fixed = "depth=2,img_size=16,patch_size=4"
    result = ok(lgx("init", "--params", "1M", "--arch", fixed, "--num_classes", 3, "--out", tmp_path / "b"))
    assert "random" in result.out


def test_of_sizes_that_meet_a_budget_the_start_with_the_best_features_is_written(ancestor, images, tmp_path):
    base = ["init", "--source", ancestor / "final.learngene.safetensors", "--method", "weight_selection"]
    given = [*base, "--params", "8k", "--head", 3, "--out", tmp_path / "a"]
    result = ok(lgx(*given, "--data", images))
    lines = [line.split("│") for line in result.out.splitlines() if line.startswith("│")]
    rows = [[cell.strip() for cell in cells[1:-1]] for cells in lines]
    scores = [float(row[-1]) for row in rows]
    assert len(scores) > 1
    assert scores == sorted(scores, reverse=True)
    assert f"--arch depth={rows[0][0]},embed_dim={rows[0][1]}," in result.out
    (tmp_path / "bare/train").mkdir(parents=True)
    table = ["file,label"]
    for image in images.glob("train/*/00*.png"):
        name = f"{image.parent.name}{image.name}"
        shutil.copy(image, tmp_path / "bare/train" / name)
        table.append(f"all/{name},{image.parent.name}")
    subcloned = [*given[:-1], tmp_path / "b", "--data", tmp_path / "bare", "--method", "weight_subcloning"]
    assert "k-NN" not in ok(lgx(*subcloned)).out  # the images rank parts
    shutil.copytree(tmp_path / "bare/train", tmp_path / "table/all")
    (tmp_path / "table/labels.csv").write_text("\n".join(table))
    subcloned[-3] = tmp_path / "table"
    assert "k-NN" in ok(lgx(*subcloned, "--force")).out
    assert "give a folder that holds train/<class>/<image>" in refusal(lgx(*given, "--data", tmp_path / "bare/train"))


MISTAKES = [
    (["--data", "fashion_mnist"], ("--data", "--params")),
    (["--arch", "depth=1,embed_dim=16,num_heads=2,patch_size=4,img_size=16"], ("depth 1", "2 layers")),
    (["--arch", "6-Small"], ("384 of embed_dim", "must not be wider", "the source 16")),
    (["--num_classes", 9], ("3 classes", "--head 9")),
    (["--method", "weight_selection"], ("not a whole network",)),
    (["--spectrum", "random"], ("--spectrum: method sws does not take it; use --method ghn3 or logah",)),
    (["--method", "swss"], ("swss", "is unknown")),
    (["--source", "nowhere.learngene.safetensors"], ("nowhere.learngene.safetensors", "no such file")),
    (["--out", "/tmp/x.learngene.safetensors"], ("expected a folder; its",)),
]


@pytest.mark.parametrize(("options", "words"), MISTAKES, ids=[str(m[0][-1]) for m in MISTAKES])
def test_a_mistake_ends_with_one_sentence_and_writes_no_file(sws, tmp_path, options, words):
    sentence = refusal(start(sws, tmp_path / "model", *options))
    assert all(word in sentence for word in words), sentence
    assert list(tmp_path.iterdir()) == []


def test_init_reaches_every_option_of_an_initializer(sws, ancestor, tmp_path):
    learngene, five = sws / "final.learngene.safetensors", ARCH.replace("depth=4", "depth=3")
    base = ["init", "--arch", five, "--out", tmp_path / "m", "--source"]
    assert "sws_order2" in lgx(*base, learngene, "--order", "front_last_mid").out
    assert "sws_random_assigned" in lgx(*base, learngene, "--strategy", "random_assigned").out
    eight = ["init", "--arch", ARCH.replace("depth=4", "depth=8"), "--strategy", "random_assigned", "--source"]
    for seed in (1, 2):
        assert lgx(*eight, learngene, "--seed", seed, "--out", tmp_path / f"{seed}").code == 0
    assert (tmp_path / "1" / WEIGHTS).read_bytes() != (tmp_path / "2" / WEIGHTS).read_bytes()
    whole = ancestor / "final.learngene.safetensors"
    result = lgx(*base, whole, "--method", "vanilla_lg", "--layers", 1, "--num_classes", 3, "--force")
    assert "blocks.2" in next(line for line in result.out.splitlines() if line.startswith("taken"))
    for options, words in [
        ((whole, "--method", "weight_selection", "--layers", 1), "does not take it"),
        ((learngene, "--head", 0), "head: Not of type PositiveInt"),
        ((sws / "checkpoints/best.ckpt",), "give final.learngene.safetensors of that run"),
        ((sws / "checkpoints/best.ckpt", "--method", "sws"), "not a learngene file"),
    ]:
        assert words in refusal(lgx(*base, *options, "--force"))


def test_help_lists_every_method_and_every_option_of_an_initializer():
    text = " ".join(lgx("init", "--help").out.split())
    methods = text.partition("How to use the source: ")[2].partition("; by default")[0]
    assert methods.split(", ") == names_with_initializer()
    for option in ("source", "params", "data", "strategy", "order", "priority", "layers", "spectrum", "task"):
        assert f"--{option} {option.upper()} " in text
    assert "--name" not in text


def test_the_folder_of_a_run_is_a_source(ancestor, tmp_path):
    arch = "depth=4,embed_dim=16,num_heads=2,patch_size=4,img_size=16"
    ok(lgx("init", "--source", ancestor, "--arch", arch, "--out", tmp_path / "start"))
    stored = load_checkpoint(weights_of_run(str(ancestor)))["state_dict"]
    written = load_file(tmp_path / "start/model.safetensors")
    assert torch.equal(written["pos_embed"], stored["network.pos_embed"])
    seeds = lgx("init", "--source", ancestor.parent, "--arch", arch, "--out", tmp_path / "x")
    assert "give one of them" in seeds.sentence


@pytest.mark.parametrize("size", ["depth=2", "embed_dim=8", "mlp_ratio=2"])
def test_what_an_architecture_leaves_open_is_the_sources(ancestor, tmp_path, size):
    whole = architecture_of(weights_of_run(str(ancestor)))
    key, _, value = size.partition("=")
    heads = {"num_heads": whole.num_heads // 2} if key == "embed_dim" else {}
    ok(lgx("init", "--source", ancestor, "--method", "weight_selection", "--arch", size, "--out", tmp_path / "small"))
    assert architecture_of(str(tmp_path / "small")) == whole.replace(**{key: int(value)}, **heads)
    named = parse_for("6-Small", whole.kind, 3, whole)
    assert named == parse_architecture("6-Small", img_size=whole.img_size, patch_size=whole.patch_size, num_classes=3)


def test_lgx_arch_prints_parameters_and_macs():
    assert "36.26" in lgx("arch", "Des-B-5", "--num_classes", "100").out


@pytest.mark.slow
def test_most_of_timms_pretrained_vits_are_read():
    families = (*MODULES, "beit", "naflexvit", "vision_transformer_hybrid", "vision_transformer_relpos")
    names = [name for family in families for name in timm.list_models(module=family, pretrained=True)]
    found = {name: describe_timm_model(name) for name in {name.partition(".")[0] for name in names}}
    assert len(names) >= 463
    assert sum(found[name.partition(".")[0]].architecture is not None for name in names) >= 380
    assert all(each.architecture is not None or each.reason for each in found.values())

"""Names of sources in published files hold no folders of the machine that wrote them."""

import pytest

from lgx.artifacts.source_names import path_in, public_name, public_path
from lgx.artifacts.sources import resolve
from lgx.results.model_facts import model_facts
from tests.support.command_line import lgx, ok

SHORTENED = {
    "/data/of/me/runs/exp/sws/seed0/best.learngene.safetensors": "exp/sws/seed0/best.learngene.safetensors",
    "/home/me/a.learngene.safetensors": "a.learngene.safetensors",
    "/Users/me/nets/a.ckpt": "nets/a.ckpt",
    "../runs/exp/sws/seed0/checkpoints/best.ckpt": "exp/sws/seed0/checkpoints/best.ckpt",
    "./a.safetensors": "a.safetensors",
    "local-dir:/srv/x/y/z/nets/vit": "local-dir:y/z/nets/vit",
    "file:///home/me/a.learngene.safetensors": "file://a.learngene.safetensors",
    "timm:deit_tiny_patch16_224,weights=/home/me/x.pth,img_size=9": (
        "timm:deit_tiny_patch16_224,weights=x.pth,img_size=9"
    ),
}
KEPT = [
    "deit_tiny_patch16_224.fb_in1k", "hf-hub:timm/levit_384.fb_dist_in1k", "gpt2:openai-community/gpt2", "",
    "hf://lab/vit@main/a.learngene.safetensors", "https://host/a/b/c/d/e/f.safetensors",
    "timm:deit_tiny_patch16_224,img_size=64", "timm:deit_tiny_patch16_224,weights=https://host/a/b/c/d/e.pth",
    "timm:deit_tiny_patch16_224,weights=hf://lab/vit/x.safetensors", "a.learngene.safetensors",
]  # fmt: skip


@pytest.mark.parametrize("source", SHORTENED)
def test_a_path_keeps_its_last_parts(source):
    assert public_name(source) == SHORTENED[source]
    assert path_in(source) in source


@pytest.mark.parametrize("source", KEPT)
def test_a_name_and_a_url_stay_as_they_are(source):
    assert public_name(source) == source


def test_a_path_of_a_run_keeps_what_identifies_it():
    assert public_path("/scratch/me/runs/exp/name/seed3") == "runs/exp/name/seed3"
    assert public_path("/home/me") == ""


def test_a_card_of_a_start_names_no_folder_of_the_machine(sws_file, tmp_path):
    arch = "timm:vit_tiny_patch16_224,img_size=32,patch_size=16"
    weights = tmp_path / "far/from/here/and/more/v.safetensors"
    assert lgx("init", "--arch", arch, "--num_classes", 3, "--out", weights).code == 0
    source = f"timm:vit_tiny_patch16_224,weights={weights},img_size=32,num_classes=3"
    spec = "depth=12,embed_dim=192,num_heads=3,patch_size=16,img_size=32"
    ok(lgx("init", "--source", source, "--arch", spec, "--out", tmp_path / "vit"))
    card = (tmp_path / "vit/README.md").read_text()
    assert "weights=here/and/more/v.safetensors" in card
    assert str(tmp_path) not in card
    assert model_facts(resolve(str(tmp_path / "vit")))["source"] == public_name(source)

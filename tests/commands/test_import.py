"""``lgx import`` reads weights as people have them, and refuses those of another model with one sentence."""

import json
from argparse import Namespace

import pytest
import timm
import torch
from safetensors.torch import save_file

from lgx.artifacts.pretrained import load_pretrained
from tests.support.command_line import lgx, ok, refusal

TINY = "vit_tiny_patch16_224"
SMALL = ["--img-size", 32, "--patch_size", 8]


@pytest.fixture(scope="module")
def state():
    """The weights of a ViT-Tiny with 32 px images, whose forms the tests vary."""
    torch.manual_seed(0)
    return {key: tensor for key, tensor in timm.create_model(TINY, img_size=32).state_dict().items()}


def saved(state, path):
    tensors = {key: tensor.contiguous() for key, tensor in state.items()}
    save_file(tensors, path) if path.suffix == ".safetensors" else torch.save(tensors, path)
    return path


def imported(file, out, *options, model=TINY):
    return lgx("import", f"timm:{model}", "--weights", file, "--out", out, *options)


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_timm_reads_what_import_wrote_with_the_same_logits_and_normalization(state, tmp_path, suffix):
    file = saved(state, tmp_path / f"weights{suffix}")
    result = ok(imported(file, tmp_path / "out", *SMALL))
    assert f"read      {file}" in result.out
    assert "normalize mean 0.5, 0.5, 0.5, std 0.5, 0.5, 0.5" in result.out
    image = torch.randn(1, 3, 32, 32)
    own = timm.create_model(
        TINY, img_size=32, patch_size=8, pretrained=True, pretrained_cfg_overlay={"state_dict": dict(state)}
    ).eval()
    plain = timm.create_model(f"local-dir:{tmp_path / 'out'}", pretrained=True).eval()
    assert torch.equal(own(image), plain(image))
    loaded = load_pretrained(str(tmp_path / "out"))
    assert torch.equal(own(image), loaded.model(image))
    assert (loaded.architecture.img_size, loaded.architecture.patch_size) == (32, 8)
    assert json.loads((tmp_path / "out/config.json").read_text())["pretrained_cfg"]["input_size"] == [3, 32, 32]
    assert imported(file, tmp_path / "out", *SMALL).code == 0  # it replaces what it wrote itself


def test_a_file_without_head_and_a_head_that_is_not_wanted(state, tmp_path):
    headless = {key: tensor for key, tensor in state.items() if not key.startswith("head.")}
    file = saved(headless, tmp_path / "headless.safetensors")
    assert "--num_classes 0" in imported(file, tmp_path / "out", "--img_size", 32).sentence
    assert imported(file, tmp_path / "out", "--img_size", 32, "--num-classes", 0).code == 0
    assert load_pretrained(str(tmp_path / "out")).architecture.num_classes == 0
    whole = saved({**state, "mask_token": torch.zeros(1)}, tmp_path / "whole.safetensors")
    result = ok(imported(whole, tmp_path / "whole", "--img_size", 32, "--num_classes", 0))
    assert "ignored   head.bias, head.weight" in result.out
    ten = saved({**state, "head.weight": torch.zeros(10, 192), "head.bias": torch.zeros(10)}, tmp_path / "ten.pth")
    assert "size mismatch for head.weight" in imported(ten, tmp_path / "ten", "--img_size", 32).sentence
    assert imported(ten, tmp_path / "ten", "--img_size", 32, "--num_classes", 10).code == 0


@pytest.mark.parametrize("name", ["deit_tiny_patch16_224", "convnext_atto"])  # mean and std of ImageNet
def test_a_gray_network_sums_the_weights_of_the_channels_and_averages_their_mean(name, tmp_path):
    state = timm.create_model(name).state_dict()
    size = ["--img-size", 64] if "deit" in name else []
    file, out = saved(state, tmp_path / "w.safetensors"), tmp_path / "gray"
    assert lgx("import", f"timm:{name}", "--weights", file, *size, "--in-chans=1", "--out", out).code == 0
    network = load_pretrained(str(out))
    assert (network.mean, network.std) == (pytest.approx([0.449], abs=1e-3), pytest.approx([0.226], abs=1e-3))
    first = next(key for key, tensor in state.items() if tensor.ndim == 4 and tensor.shape[1] == 3)
    torch.testing.assert_close(network.model.state_dict()[first], state[first].sum(dim=1, keepdim=True))


def test_a_budget_counts_the_head_that_a_headless_source_gets(state, tmp_path):
    folder = tmp_path / "headless"
    assert imported(saved(state, tmp_path / "w.safetensors"), folder, *SMALL, "--num-classes", 0).code == 0
    made = ok(lgx("init", "--source", folder, "--method=weight_selection", "--params=1M", "--out", tmp_path / "small"))
    assert "1000 classes" in made.out
    written = timm.create_model(f"local-dir:{tmp_path / 'small'}", pretrained=True)
    assert 0.98e6 <= sum(parameter.numel() for parameter in written.parameters()) <= 1e6


def without(state, *names):
    return {key: tensor for key, tensor in state.items() if not key.startswith(names)}


CHANGES = {
    "half a checkpoint": (lambda s: without(s, "blocks.6.", "blocks.7."), TINY, ("24 tensors of", "are missing")),
    "another family": (
        lambda s: s,
        "vit_small_patch16_dinov3",
        ("timm could not read it as vit_small_patch16_dinov3",),
    ),
    "registers": (lambda s: {**s, "reg_token": torch.zeros(1, 4, 192)}, TINY, ("1 of its", "reg_token")),
    "quantized": (lambda s: {**s, "norm.bias": s["norm.bias"].char()}, TINY, ("norm.bias is of torch.int8",)),
    "nan": (lambda s: {**s, "norm.weight": s["norm.weight"] * torch.nan}, TINY, ("norm.weight", "not finite")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_weights_that_do_not_belong_to_the_model_are_refused(state, tmp_path, change):
    alter, model, words = CHANGES[change]
    file = saved(alter(state), tmp_path / "w.safetensors")
    result = imported(file, tmp_path / "out", "--img_size", 32, model=model)
    sentence = refusal(result)
    assert sentence == result.err.strip()
    assert all(word in sentence for word in words), sentence
    assert [path.name for path in tmp_path.iterdir()] == ["w.safetensors"]


def test_other_mistakes_give_a_sentence(state, tmp_path):
    file = saved(state, tmp_path / "w.safetensors")
    damaged, text = tmp_path / "damaged.pth", tmp_path / "notes.txt"
    damaged.write_bytes(b"PK\x03\x04 damaged")
    text.write_text("no weights")
    out = tmp_path / "out"
    for options, words, *model in [
        ((text, out), "unknown kind of file; expected a name that ends in"),
        ((damaged, out), "not an intact checkpoint"),
        ((file, tmp_path / "out.safetensors"), "expected a folder"),
        ((file, tmp_path), "which does not belong to a model folder"),
        ((file, out), "did you mean vit_tiny_patch16_224", "vit_tinny_patch16_224"),
        ((file, out), f"{TINY}.mine: not a file, a folder or a model that timm knows", f"{TINY}.mine"),
        ((file, out, "--img_size", 32), "unexpected keyword argument 'img_size'", "resnet10t"),
    ]:
        assert words in refusal(imported(*options, model=(model or [TINY])[0]))


def test_averaged_weights_of_a_checkpoint_are_preferred(state, tmp_path):
    zeros = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    content = {"model": zeros, "model_ema": state, "args": Namespace(lr=0.1)}
    torch.save(content, tmp_path / "w.pth")
    ok(imported(tmp_path / "w.pth", tmp_path / "out", "--img_size", 32))
    model = timm.create_model(f"local-dir:{tmp_path / 'out'}", pretrained=True)
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())

"""``lgx init`` initializes models of timm and torchvision with a hypernetwork, and reports tiled parameters."""

import json

import pytest
import timm
import torch
import torchvision
from safetensors.torch import load_file

from lgx.architectures import ViTArchitecture
from lgx.architectures.library_models import LibraryModel
from lgx.artifacts.learngene import Learngene
from lgx.hypernet import Hypernet, HypernetConfig, trace
from lgx.initialization import initialize_library_model
from lgx.methods import HypernetPrediction
from tests.support.command_line import lgx, ok, refusal

SMALL = {"width": 16, "layers": 1, "heads": 2, "rank": 4, "max_size": 1024}


def save(path, decoder: str, convention: str = "msa") -> str:
    torch.manual_seed(0)
    config = HypernetConfig(**SMALL, max_shape=(64, 64, 8, 8), num_classes=5, decoder=decoder, convention=convention)
    method = "ghn3" if decoder == "conv" else "logah"
    architecture = ViTArchitecture(num_classes=5)
    Learngene(method, architecture, Hypernet(config).state_dict(), hypernet=config.to_dict()).save(path)
    return str(path)


@pytest.fixture(scope="module")
def ghn3(tmp_path_factory):
    return save(tmp_path_factory.mktemp("ghn3") / "best.learngene.safetensors", "conv", "plain")


@pytest.fixture(scope="module")
def logah(tmp_path_factory):
    return save(tmp_path_factory.mktemp("logah") / "best.learngene.safetensors", "low_rank")


def test_a_hypernetwork_starts_a_resnet_that_plain_timm_loads(ghn3, tmp_path):
    result = ok(lgx(
        "init", "--method", "ghn3", "--source", ghn3, "--arch", "timm:resnet10t,img_size=64",
        "--num_classes", 7, "--out", tmp_path / "resnet",
    ))  # fmt: skip
    assert "built     timm:resnet10t, 7 classes" in result.out
    assert "random    0 parameters: none" in result.out
    (tiled,) = (line for line in result.out.splitlines() if line.startswith("tiled"))
    assert "max_shape 64x64x8x8: layer2.0.conv1.weight, layer2.0.bn1.weight, layer2.0.conv2.weight and 17 more" in tiled
    assert "estimate them on data" in result.out
    model = timm.create_model(f"local-dir:{tmp_path / 'resnet'}", pretrained=True).eval()
    logits = model(torch.randn(2, 3, 64, 64))
    assert logits.shape == (2, 7)
    assert logits.isfinite().all()
    assert timm.data.resolve_model_data_config(model)["input_size"] == (3, 64, 64)
    with torch.no_grad():
        predicted = HypernetPrediction(ghn3).loaded.predict_graphs([trace(model, (3, 64, 64))])[0]
    assert all(torch.allclose(p, predicted[name], atol=1e-6) for name, p in model.named_parameters())
    assert json.loads((tmp_path / "resnet/config.json").read_text())["architecture"] == "resnet10t"


@pytest.mark.parametrize(
    ("hypernet", "name"),
    [("ghn3", "squeezenet1_1"), pytest.param("logah", "mobilenet_v3_small", marks=pytest.mark.slow)],
)
def test_torchvisions_models_are_written_as_a_bare_file(hypernet, name, request, tmp_path):
    out = tmp_path / "model.safetensors"
    source = request.getfixturevalue(hypernet)
    base = ["init", "--source", source, "--arch", f"torchvision:{name},img_size=64", "--out"]
    ok(lgx(*base, out))
    model = torchvision.models.get_model(name, num_classes=5).eval()
    model.load_state_dict(load_file(out))
    assert model(torch.randn(1, 3, 64, 64)).isfinite().all()
    assert "ending in .safetensors" in refusal(lgx(*base, tmp_path / "folder"))


@pytest.mark.parametrize("hypernet", ["ghn3", "logah"])
def test_a_vit_of_timm_gets_the_same_weights_as_the_same_vit_of_lgx(hypernet, request):
    initializer = HypernetPrediction(request.getfixturevalue(hypernet))
    model = LibraryModel("timm", "vit_tiny_patch16_224", num_classes=5, img_size=32)
    ours = initializer(ViTArchitecture(num_classes=5, img_size=32))
    tensors = dict(initialize_library_model(model, initializer).model.named_parameters())
    assert tensors.keys() == ours.keys()
    assert all(torch.equal(tensors[name], tensor) for name, tensor in ours.items())


def test_a_new_head_of_a_resnet_is_random(logah, tmp_path):
    out = tmp_path / "resnet.safetensors"
    result = ok(lgx("init", "--source", logah, "--arch", "timm:resnet10t,img_size=64", "--head", 3, "--out", out))
    assert next(line for line in result.out.splitlines() if line.startswith("random")).endswith("1,539 parameters: fc")


def test_position_embeddings_fit_with_and_without_a_class_token(logah):
    initializer = HypernetPrediction(logah)
    for class_token in (True, False):
        pool = "token" if class_token else "avg"
        model = timm.models.VisionTransformer(
            16, 4, embed_dim=24, depth=1, num_heads=2, num_classes=5, class_token=class_token, global_pool=pool
        )
        tensors = initializer.for_model(model, trace(model, (3, 16, 16)))
        model.load_state_dict(tensors)  # strict: none is missing
        assert tensors["pos_embed"].shape == (1, 16 + class_token, 24)
        assert bool(tensors["pos_embed"][0, 0].any()) is not class_token
        assert not class_token or not tensors["cls_token"].any()


def test_models_of_the_libraries_can_start_randomly(tmp_path):
    out = tmp_path / "model"
    ok(lgx("init", "--arch", "timm:resnet10t,img_size=64,in_chans=1", "--num_classes", 4, "--out", out))
    model = timm.create_model(f"local-dir:{out}", pretrained=True).eval()
    assert model(torch.randn(1, 1, 64, 64)).shape == (1, 4)


MISTAKES = [
    ("timm:resnt34", ("timm:resnt34", "did you mean resnet34")),
    ("timm:resnet10t,num_classes=3", ("unknown key 'num_classes'", "--num_classes")),
    ("torchvision:resnet18,in_chans=1", ("3 channels",)),
    ("timm:convnext_atto", ("timm:convnext_atto", "stages.0.blocks.0.gamma (mul)")),
    ("flax:resnet18", ("'flax:resnet18' is unknown",)),
]


@pytest.mark.parametrize(("arch", "expected"), MISTAKES, ids=[arch for arch, _ in MISTAKES])
def test_a_wrong_architecture_ends_with_one_sentence_and_writes_no_file(ghn3, tmp_path, arch, expected):
    sentence = refusal(lgx("init", "--source", ghn3, "--arch", arch, "--out", tmp_path / "model.safetensors"))
    assert all(word in sentence for word in expected), sentence
    assert list(tmp_path.iterdir()) == []

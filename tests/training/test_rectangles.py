"""Images that are no squares: sizes, positions and starts; test_channels.py trains, exports and predicts them."""

import pytest
import timm
import torch
from safetensors.torch import save_file
from timm.layers import resample_abs_pos_embed

from lgx.architectures.parsing import parse_architecture
from lgx.artifacts.pretrained import load_pretrained
from lgx.commands.api import init
from lgx.core.task import Task
from lgx.errors import UserError
from tests.support.command_line import lgx

TIMM = "vit_tiny_patch16_224"
ARCH = "depth=2,embed_dim=192,num_heads=3,patch_size=8,img_size="


@pytest.fixture(scope="module")
def ancestor(tmp_path_factory):
    """Folder of an ancestor for images of 64 x 64 px."""
    folder = tmp_path_factory.mktemp("ancestor")
    save_file(timm.create_model(TIMM).state_dict(), folder / "w.safetensors")
    sizes = ["--img-size=64", "--patch-size=8", "--num-classes=1000"]
    assert lgx("import", f"timm:{TIMM}", "--weights", folder / "w.safetensors", *sizes, "--out", folder / "a").code == 0
    return folder / "a"


def test_a_size_has_one_form_in_texts_files_and_arguments():
    spec = parse_architecture(f"{ARCH}24x40")
    assert spec.img_size == (24, 40)
    assert spec.grid == (3, 5)
    assert spec == type(spec).from_dict(spec.to_dict()) == parse_architecture(spec.spec(), num_classes=1000)
    assert parse_architecture(f"{ARCH}24x24").img_size == 24
    assert Task("x", 2, img_size=[32, 32]).img_size == 32
    for wrong in ("24x41", "24x", "x40", "24x40x8", "0x40"):
        with pytest.raises(UserError, match=r"patch_size|number"):
            parse_architecture(f"{ARCH}{wrong}")


def test_positions_are_resampled_from_the_grid_of_their_source(ancestor):
    square = load_pretrained(str(ancestor)).tensors["pos_embed"]
    for size, grid in (("32x128", [4, 16]), ("96x160", [12, 20])):  # 4 x 16 patches are as many as 8 x 8
        made = init(source=ancestor, arch=f"{ARCH}{size}", method="weight_selection").pos_embed
        assert torch.allclose(made, resample_abs_pos_embed(square, grid), atol=1e-6)
    wide = load_pretrained(str(ancestor)).architecture.replace(img_size=(32, 128))
    fitted = wide.replace(img_size=64).fit_input_sizes({"pos_embed": made_like(wide)}, wide)
    assert not torch.allclose(fitted["pos_embed"], made_like(wide), atol=0.1)
    assert torch.allclose(fitted["pos_embed"], resample_abs_pos_embed(made_like(wide), [8, 8], [4, 16]), atol=1e-6)


def made_like(architecture):
    """Positions of an architecture with random numbers."""
    return torch.randn(architecture.build().pos_embed.shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("method", ["weight_selection", "weight_subcloning", "structured_pruning", "mimetic", "random"])
def test_starts_serve_rectangles(ancestor, method):
    source = {} if method in ("mimetic", "random") else {"source": ancestor}
    arch = "depth=2,embed_dim=128,num_heads=2,patch_size=8,img_size=32x128"
    model = init(arch=arch, method=method, num_classes=3, **({"head": 3} if source else {}), **source)
    assert model(torch.zeros(1, 3, 32, 128)).shape == (1, 3)

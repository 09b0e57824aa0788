"""Every initializer starts descendants of every family of ViTs: shallower, deeper, narrower."""

from pathlib import Path

import pytest
import timm
import torch

from lgx.architectures import ViTArchitecture
from lgx.artifacts.export import write_descendant
from lgx.artifacts.learngene import SUFFIX
from lgx.initialization import Initializer, initialize
from lgx.methods import registry
from tests.support.extras import need_torch_pruning
from tests.support.families import EACH, tiny
from tests.support.learngenes import save_source, start_from

CLASSES = registry.initializer_classes()
OF_FAMILIES = [name for name, kind in CLASSES.items() if not kind.predicts_heads and name != "RandomStart"]
CHANGES: tuple[dict[str, int], ...] = (
    {}, {"depth": 3}, {"depth": 6}, {"embed_dim": 16, "num_heads": 1}, {"depth": 3, "embed_dim": 16, "num_heads": 1},
)  # fmt: skip


def _descendants(initializer: Initializer, source: ViTArchitecture) -> list[ViTArchitecture]:
    """The source's network, and those changed ones that the initializer can fill."""
    changed = [source.replace(**change) for change in CHANGES]
    if not initializer.reads_source:
        return changed
    sizes = initializer.sizes()
    return [
        architecture
        for architecture in changed
        if sizes.depth[0] <= architecture.depth <= sizes.depth[1]
        and sizes.embed_dim[0] <= architecture.embed_dim <= sizes.embed_dim[1]
    ]


@pytest.fixture(params=OF_FAMILIES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("family", EACH)
def test_the_most_changed_descendant_trains_and_gives_the_same_logits_in_plain_timm(name, family, tmp_path):
    source, initializer = _initializer(name, family, tmp_path)
    _check(_descendants(initializer, source)[-1], initializer, tmp_path)


def _initializer(name: str, family: str, folder: Path) -> tuple[ViTArchitecture, Initializer]:
    if name == "StructuredPruning":
        need_torch_pruning()
    source = tiny(family, depth=4)
    if not CLASSES[name].reads_source:
        return source, CLASSES[name]()
    return source, start_from(CLASSES[name], save_source(CLASSES[name], folder / f"final{SUFFIX}", network=source))


def _check(architecture: ViTArchitecture, initializer: Initializer, folder: Path) -> None:
    images = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    start = initialize(architecture, initializer, head="new")
    assert any(taken.startswith("blocks.") for taken in start.taken)
    model = start.model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.nn.functional.cross_entropy(model(images), torch.tensor([0, 1])).backward()
    optimizer.step()
    write_descendant(folder / "out", model, architecture)
    plain = timm.create_model(f"local-dir:{folder / 'out'}", pretrained=True).eval()
    with torch.no_grad():
        torch.testing.assert_close(plain(images), model.eval()(images), atol=1e-6, rtol=0)

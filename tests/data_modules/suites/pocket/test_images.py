"""The Pocket Decathlon: deterministic, disjoint splits, quick, safe to generate from several processes."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from data_modules import PocketDecathlon
from data_modules.suites.pocket.tasks import POCKET, POCKET_TASKS, SPLITS, PocketTask, draw_task

FAST: tuple[PocketTask, ...] = ("digits", "silhouettes")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pocket")


@pytest.mark.parametrize(
    "task", [task if task in FAST else pytest.param(task, marks=pytest.mark.slow) for task in POCKET_TASKS]
)
def test_a_task_matches_its_description_and_no_image_is_in_two_splits(task: PocketTask) -> None:
    info, drawn = POCKET.info(task), draw_task(task)
    images = np.concatenate([drawn[split][0] for split in SPLITS])
    assert images.dtype == np.uint8
    assert images.shape[1:] == (32, 32, 3)
    assert tuple(len(drawn[split][0]) for split in SPLITS) == info.sizes
    assert len({image.tobytes() for image in images}) == len(images)
    for split in SPLITS:
        labels = drawn[split][1]
        assert set(labels.tolist()) == set(range(info.num_classes))
        assert np.bincount(labels).min() >= len(labels) // info.num_classes - 4
    assert images.std() > 10


@pytest.mark.parametrize(
    "task", ["digits", *(pytest.param(task, marks=pytest.mark.slow) for task in ("silhouettes", "glyphs"))]
)
def test_the_same_seed_gives_the_same_bytes(task: PocketTask, tmp_path: Path) -> None:
    digests = []
    for name in ("a", "b"):
        POCKET.prepare(tmp_path / name, task)
        folder = POCKET.folder(tmp_path / name, task)
        digests.append([(p.name, hashlib.sha256(p.read_bytes()).hexdigest()) for p in sorted(folder.iterdir())])
    assert digests[0] == digests[1]
    assert [name for name, _ in digests[0]] == [
        "index.json", "test-000000.tar", "train-000000.tar", "val-000000.tar",
    ]  # fmt: skip
    assert not np.array_equal(draw_task("signs", 0)["val"][0], draw_task("signs", 1)["val"][0])


def test_a_task_is_known_before_it_is_made_and_made_by_prepare_data(root: Path) -> None:
    module = PocketDecathlon(task="digits", root=str(root), batch_size=32)
    assert (module.task.name, module.num_classes, module.task.num_train) == ("pocket_digits", 10, 1_258)
    module.prepare_data()
    before = (root / "pocket" / "digits").stat().st_mtime_ns
    module.prepare_data()
    assert (root / "pocket" / "digits").stat().st_mtime_ns == before
    module.setup("fit")
    batch = next(iter(module.train_dataloader()))
    assert batch.inputs.shape == (32, 3, 32, 32)
    assert -1 <= batch.inputs.min() < batch.inputs.max() <= 1
    assert batch.task == "pocket_digits"
    assert sum(len(b.targets) for b in module.val_dataloader()) == 180

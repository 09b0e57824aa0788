"""What holds for the splits of every image set."""

import torch

from data_modules import ImageDataModule

SPLITS = ("train", "val", "test")


def contents(module: ImageDataModule) -> dict[str, list[tuple[bytes, int]]]:
    """Pixels and class of every image, by split."""
    return {
        split: [(image.tobytes(), label) for image, label in (images[i] for i in range(len(images)))]
        for split, images in ((s, module.read(s)) for s in SPLITS)
    }


def check_splits(module: ImageDataModule) -> None:
    """The splits are disjoint, labels are known in advance, and batches have the form that methods expect."""
    splits = contents(module)
    pixels = {split: {data for data, _ in examples} for split, examples in splits.items()}
    assert all(splits.values())
    assert not pixels["train"] & pixels["val"]
    assert not (pixels["train"] | pixels["val"]) & pixels["test"]
    for split in SPLITS:
        assert [int(label) for label in module.read(split).labels] == [label for _, label in splits[split]]
    module.setup("fit")
    batch = next(iter(module.train_dataloader()))
    task = module.task
    assert batch.inputs.shape == (module.batch_size, task.in_chans, task.img_size, task.img_size)
    assert batch.targets.dtype == torch.int64
    assert 0 <= batch.targets.min() <= batch.targets.max() < task.num_classes
    assert batch.task == module.info.name

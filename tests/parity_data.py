"""Small data sets that depend on no other code: they are the same for every version of lgx."""

import json
from pathlib import Path

import numpy as np
from PIL import Image


def write_images(root: Path, sizes: dict[str, int], seed: int = 0) -> None:
    """Write ``root/<split>/<class>/<k>.png``, noisy pictures of three patterns.

    Args:
        root: Folder of the data set.
        sizes: Images per split, spread evenly over the classes.
        seed: Seed of the noise.
    """
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:16, :16]
    patterns = [(x - 8) ** 2 + (y - 8) ** 2 < 20, abs(x - y) < 3, (x + y) % 6 < 3]
    for split, size in sizes.items():
        for k in range(size):
            pixels = patterns[k % 3][..., None] * rng.uniform(100, 220, 3) + rng.normal(30, 12, (16, 16, 3))
            path = root / split / "abc"[k % 3] / f"{k:03d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)


def write_masks(folder: Path) -> None:
    """Write PASCAL VOC 2012's files: three colours are background, class 1 and class 20."""
    rng, names = np.random.default_rng(0), [f"2007_{i:06d}" for i in range(28)]
    for part in ("JPEGImages", "SegmentationClass", "ImageSets/Segmentation"):
        (folder / part).mkdir(parents=True)
    for name in names:
        colours = rng.integers(0, 3, (3, 4)).repeat(8, 0).repeat(8, 1)
        pixels = np.eye(3)[colours] * 200 + rng.normal(20, 10, (24, 32, 3))
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"JPEGImages/{name}.jpg", quality=95)
        mask = np.array([0, 1, 20])[colours].astype(np.uint8)
        Image.fromarray(mask).save(folder / f"SegmentationClass/{name}.png")
    for split, chosen in (("train", names[6:]), ("val", names[:6])):
        (folder / f"ImageSets/Segmentation/{split}.txt").write_text("".join(f"{name}\n" for name in chosen))


def write_texts(root: Path) -> None:
    """Write CoLA's and RTE's files, and a vocabulary of single bytes."""
    from tokenizers.pre_tokenizers import ByteLevel

    for folder in ("cola/raw", "rte", "gpt2_vocab"):
        (root / folder).mkdir(parents=True)
    texts = [f"the {'long ' * (k % 5)}sentence {k}" for k in range(24)]
    cola = [f"gj04\t{k % 2}\t\t{text}\n" for k, text in enumerate(texts)]
    for name, count in (("in_domain_train", 24), ("in_domain_dev", 6), ("out_of_domain_dev", 4)):
        (root / f"cola/raw/{name}.tsv").write_text("".join(cola[:count]))
    rte = [f"{k}\t{text}\tother\t{'not_' * (k % 2)}entailment\n" for k, text in enumerate(texts)]
    for name, count in (("train", 24), ("dev", 6)):
        (root / f"rte/{name}.tsv").write_text("index\tsentence1\tsentence2\tlabel\n" + "".join(rte[:count]))
    tokens = [*sorted(ByteLevel.alphabet()), "th", "the", "Ġthe", "<|endoftext|>"]
    (root / "gpt2_vocab/encoder.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    (root / "gpt2_vocab/vocab.bpe").write_text("#version: 0.2\nt h\nth e\nĠ the\n", encoding="utf-8")

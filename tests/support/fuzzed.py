"""Small real files of every kind that lgx reads, their readers, and how to change values in them."""

import csv
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from data_modules import ADE20K, CoLA, IMDBSubset
from data_modules.images.transforms import MaskTransform
from data_modules.loading.samplers import TransformedExamples
from data_modules.own_images.class_folders import ImageFolderData
from data_modules.sets.segmentation import MaskedImages
from data_modules.shards.module import ShardedData
from lgx.architectures import Architecture, HFArchitecture, ViTArchitecture
from lgx.architectures.sets import read_architectures
from lgx.artifacts.export import write_descendant
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.artifacts.task_embeddings import TaskEmbeddings
from lgx.core.rows import Row, read_rows, write_rows
from lgx.core.task import Task
from lgx.hypernet import Hypernet, HypernetConfig
from lgx.initialization import initialize
from lgx.methods import Pretrained
from lgx.methods.initializers import initializer_for
from lgx.methods.lsamd.selection import SelectionRun, extract
from lgx.runs.sweeps import load_sweep
from tests.support import fake_data, fake_text
from tests.support.images import draw, write_images
from tests.support.learngenes import save_source

TINY = ViTArchitecture(2, 16, 2, patch_size=4, img_size=8, num_classes=3)
SMALL_HYPERNET = HypernetConfig(
    width=8, layers=1, heads=2, max_shape=(16, 16, 4, 4), rank=2, max_size=64, num_classes=3, task_width=4
)
GPT2 = HFArchitecture(1, 8, 2, max_len=16, vocab_size=32)
TASK = Task("shapes", 3, num_train=5, img_size=8, class_names=("a", "b", "c")).to_dict()


class Target(NamedTuple):
    """A file to damage, as ``make`` writes it into a folder, and its reader."""

    make: Callable[[Path], Path]
    read: Callable[[Path], Any]


def make_source(method: str) -> Callable[[Path], Path]:
    return lambda folder: save_source(Pretrained, folder / "a.learngene.safetensors", method, TINY.replace(depth=4))


def make_hypernet(folder: Path) -> Path:
    file = folder / "d.learngene.safetensors"
    tensors = {**Hypernet(SMALL_HYPERNET).state_dict(), "task_embeddings.shapes": torch.ones(4)}
    Learngene("tal", TINY, tensors, "t", TASK, hypernet=SMALL_HYPERNET.to_dict(), tasks={"shapes": TASK}).save(file)
    return file


def make_embeddings(folder: Path) -> Path:
    file = folder / "e.safetensors"
    TaskEmbeddings({"shapes": torch.ones(4)}, "teacher", {"shapes": 5}, {"shapes": TASK}).save(file)
    return file


def make_checkpoint(folder: Path) -> Path:
    file = folder / "f.ckpt"
    about = {"method": "ancestor", "architecture": TINY.to_dict(), "task": TASK, "epochs": 1}
    state = {f"network.{name}": tensor for name, tensor in TINY.build().state_dict().items()}
    torch.save({"state_dict": state, "lgx": about, "pytorch-lightning_version": "2.6"}, file)
    return file


def make_selection(folder: Path) -> Path:
    file = folder / "g.ckpt"
    about = {"method": "lsamd", "architecture": TINY.to_dict(), "ancestor": "t", "routing": "batch"}
    about |= {"tasks": {"shapes": TASK, "stripes": TASK}}
    state = {f"network.base.{k}": v for k, v in TINY.build().state_dict().items() if not k.startswith("head.")}
    for i, share in enumerate(([0.9, 0.1], [0.8, 0.6])):
        for what in ("base_share", "probability"):
            state[f"network.branches.{i}.{what}"] = torch.tensor(share)
    torch.save({"state_dict": state, "lgx": about}, file)
    return file


def make_hypernet_checkpoint(folder: Path) -> Path:
    file = folder / "h.pt"
    config = {**SMALL_HYPERNET.to_dict(), "task_width": None}
    torch.save({"state_dict": Hypernet(HypernetConfig(**config)).state_dict(), "hypernet": config}, file)
    return file


def make_folder(architecture: Architecture) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        write_descendant(folder / "model", architecture.build(), architecture)
        return folder / "model" / "config.json"

    return make


def make_shards(folder: Path) -> Path:
    fake_data.toy_shards(folder)
    return sorted(folder.rglob("train-*.tar"))[0]


def read_shards(file: Path) -> None:
    for in_memory in (True, False):
        module = ShardedData(name=file.parent.name, root=str(file.parent.parent), in_memory=in_memory, batch_size=4)
        module.setup("fit")
        next(iter(module.train_dataloader()))


def make_images(suffix: str, **options: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        write_images(folder, {"train": 3, "val": 3})
        file = folder / "train" / "circle" / f"picture{suffix}"
        draw(0, np.random.default_rng(0)).save(file, **options)
        return file

    return make


def read_images(file: Path) -> None:
    module = ImageFolderData(str(file.parents[2]), img_size=8, augment="crop_flip")
    for example in module.transformed(module.read("train"), train=True):
        assert example[0].shape == (3, 8, 8)


def make_mask(folder: Path) -> Path:
    draw(0, np.random.default_rng(0)).save(folder / "image.png")
    Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16) % 150).save(folder / "mask.png")
    return folder / "mask.png"


def read_mask(file: Path) -> None:
    pair = (file.parent / "image.png", file)
    task = Task("ade20k", 150, kind="segmentation", img_size=8)
    TransformedExamples(MaskedImages([pair], ADE20K.meanings, "ade20k train"), MaskTransform(task), joint=True)[0]


def make_text(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        fake_text.write_vocabulary(fake_text.write_sets(folder) / "gpt2_vocab")
        return folder / name

    return make


def read_text(file: Path) -> None:
    root = next(parent for parent in file.parents if (parent / "gpt2_vocab").is_dir())
    kind = CoLA if "cola" in file.parts else IMDBSubset
    kind(root=str(root), vocab_size=fake_text.SIZE, batch_size=2).setup("fit")


def make_results(folder: Path) -> Path:
    rows = [Row("sws", "6-Small", "shapes", "test", 1, "acc", 0.5, seed, 12, "runs/a") for seed in range(3)]
    write_rows(folder / "results.csv", rows)
    return folder / "results.csv"


def make_architectures(folder: Path) -> Path:
    lines = [json.dumps({"name": "x", **TINY.replace(depth=depth).to_dict()}) for depth in (1, 2, 3)]
    (folder / "set.jsonl").write_text("\n".join(lines))
    return folder / "set.jsonl"


def make_sweep(folder: Path) -> Path:
    run = {"name": "sws-{depth}", "config": "run.yaml", "options": {"model.arch": "{depth}-Small", "data.seed": 1}}
    content = {"experiment": "demo", "seeds": [0, 1], "runs": [{**run, "matrix": {"depth": [3, 6]}}]}
    (folder / "run.yaml").write_text("model: Ancestor\n")
    (folder / "sweep.yaml").write_text(yaml.safe_dump(content))
    return folder / "sweep.yaml"


def load_metadata(file: Path) -> dict[str, Any]:
    with safe_open(file, "pt") as opened:
        return {key: json.loads(text) for key, text in opened.metadata().items()}


def save_metadata(file: Path, content: dict[str, Any]) -> None:
    save_file(load_file(file), file, metadata={key: json.dumps(value) for key, value in content.items()})


def load_json(file: Path) -> Any:
    text = file.read_text()
    return [json.loads(line) for line in text.splitlines()] if file.suffix == ".jsonl" else json.loads(text)


def save_json(file: Path, content: Any) -> None:
    is_lines = file.suffix == ".jsonl" and isinstance(content, list)
    file.write_text("\n".join(map(json.dumps, content)) if is_lines else json.dumps(content))


def load_rows(file: Path) -> Any:
    return list(csv.reader(file.open()))


def save_rows(file: Path, content: Any) -> None:
    if isinstance(content, list) and all(isinstance(row, list) for row in content):
        with file.open("w", newline="", errors="surrogatepass") as opened:
            csv.writer(opened).writerows(content)


def start(file: Path) -> None:
    initialize(TINY.replace(depth=3), initializer_for(str(file)), head="new")


def read_source(file: Path) -> None:
    load_pretrained(str(file)).model(torch.ones(1, 3, 8, 8))


TARGETS: dict[str, Target] = {
    "learngene": Target(make_source("sws"), start),
    "ancestor": Target(make_source("ancestor"), read_source),
    "selected": Target(make_source("lsamd"), start),
    "hypernetwork": Target(make_hypernet, start),
    "embeddings": Target(make_embeddings, lambda file: TaskEmbeddings.load(file).of("shapes", str(file))),
    "checkpoint": Target(make_checkpoint, read_source),
    "selection": Target(make_selection, lambda file: extract([SelectionRun.load(file)])),
    "saved hypernetwork": Target(
        make_hypernet_checkpoint, lambda file: initialize(TINY, initializer_for(str(file), "logah"))
    ),
    "timm folder": Target(make_folder(TINY), lambda file: load_pretrained(str(file.parent))),
    "gpt2 folder": Target(make_folder(GPT2), lambda file: load_pretrained(str(file.parent))),
    "llama folder": Target(
        lambda folder: make_folder(GPT2.replace(kind="language", config='{"model_type":"llama"}'))(folder),
        lambda file: load_pretrained(str(file.parent)),
    ),
    "shard": Target(make_shards, read_shards),
    "index of shards": Target(lambda folder: make_shards(folder).parent / "index.json", read_shards),
    "png": Target(make_images(".png"), read_images),
    "jpg": Target(make_images(".jpg"), read_images),
    "webp": Target(make_images(".webp"), read_images),
    "bmp": Target(make_images(".bmp"), read_images),
    "ppm": Target(make_images(".ppm"), read_images),
    "gif called png": Target(make_images(".png", format="gif"), read_images),
    "mask": Target(make_mask, read_mask),
    "cola": Target(make_text("cola/raw/in_domain_train.tsv"), read_text),
    "imdb": Target(make_text("imdb_subset/train.jsonl"), read_text),
    "vocabulary": Target(make_text("gpt2_vocab/encoder.json"), read_text),
    "merges": Target(make_text("gpt2_vocab/vocab.bpe"), read_text),
    "results": Target(make_results, read_rows),
    "architectures": Target(make_architectures, lambda file: read_architectures(str(file), TINY)),
    "sweep": Target(make_sweep, load_sweep),
}

METADATA, JSON = (load_metadata, save_metadata), (load_json, save_json)
SAVED = (partial(torch.load, weights_only=True), lambda file, new: torch.save(new, file))
VALUES: dict[str, tuple[Callable[[Path], Any], Callable[[Path, Any], object]]] = {
    **dict.fromkeys(("learngene", "ancestor", "selected", "hypernetwork", "embeddings"), METADATA),
    **dict.fromkeys(("checkpoint", "selection", "saved hypernetwork"), SAVED),
    **dict.fromkeys(("gpt2 folder", "llama folder", "index of shards", "imdb", "vocabulary", "architectures"), JSON),
    "results": (load_rows, save_rows),
    "sweep": (lambda file: yaml.safe_load(file.read_text()), lambda file, new: file.write_text(yaml.safe_dump(new))),
}
"""How the values in a file are read and written."""

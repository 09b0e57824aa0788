"""A few images or texts, for initializers that measure a network on data; imports data modules."""

from pathlib import Path

import torch
from torch import Tensor

from data_modules.images.class_trees import TREE_NAMES, tree_split
from data_modules.images.examples import ImageFiles
from data_modules.own_images.label_table import TABLE, read_label_table
from data_modules.text.rows import read_files, read_texts, split_files
from data_modules.text.tokenizer import load_tokenizer, padded
from lgx.architectures import HFArchitecture
from lgx.artifacts.pretrained import PretrainedNetwork
from lgx.core.eval_transforms import eval_transform
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.host.safety import IMAGE_SUFFIXES, list_images
from lgx.initialization.width import evenly_spaced

_LONGEST, _MOST = 128, 10_000
"""Tokens that are read of a text; texts from which the sample is taken."""


def sample_inputs(network: PretrainedNetwork, data: str, count: int, method: str) -> Tensor:
    """Read inputs of a network at even distances in a folder; labels are not read.

    Even distances take images of many classes, and the same ones each time.

    Args:
        network: The network; texts are read with the tokenizer in its folder.
        data: Folder with images, at any depth, or with texts. Of splits only ``train`` is read, also of a table
            ``labels.csv``, so that no test example takes part in a start. Each line of a ``.txt`` file is a text; for a
            language model, each part between empty lines.
        count: How many; fewer where the folder holds fewer.
        method: Name of the method, for errors.

    Returns:
        Images (N, C, H, W), normalized for the network, or the first 128 tokens of texts, (N, 3, L).
    """
    architecture = network.require_architecture(method)
    if isinstance(architecture, HFArchitecture):
        return _text_batch(data, count, architecture, network.name)
    vit = network.require_vit(method)
    task = Task("sample", 0, in_chans=vit.in_chans, img_size=vit.img_size, mean=network.mean, std=network.std)
    return _image_batch(data, count, task)


def _image_batch(data: str, count: int, task: Task) -> Tensor:
    folder = Path(data)
    if not folder.is_dir():
        raise UserError(f"data {data}: is not a folder; give a folder with images, labels are not needed")
    train = tree_split(folder, TREE_NAMES["train"])
    if train is None and (folder / TABLE).is_file():
        table = read_label_table(folder / TABLE)
        names = [file for file, split in zip(table.files, table.splits, strict=True) if split == "train"]
    else:
        folder = train or folder
        names = [str(path.relative_to(folder)) for path in list_images(folder)[0]]
    if not names:
        raise UserError(f"data {data}: no images in {folder} or below (looked for {', '.join(IMAGE_SUFFIXES)})")
    chosen = [names[i] for i in evenly_spaced(len(names), min(count, len(names)))]
    files = ImageFiles(folder, chosen, [0] * len(chosen), f"data {data}")
    transform = eval_transform(task)
    return torch.stack([transform(files[i][0]) for i in range(len(files))])


def _text_batch(folder: str, count: int, architecture: HFArchitecture, tokenizer: str) -> Tensor:
    words = load_tokenizer(Path(tokenizer), architecture.vocab_size, "source")
    files = split_files(Path(folder), "data")["train"]
    rows = read_files(files, ["text"]) if architecture.kind == "language" else read_texts(files, ["text"])[1]
    texts = [text for text in rows[:_MOST]["text"] if isinstance(text, str) and text.strip()]
    if not texts:
        raise UserError(f"data {folder}: has no text in column 'text'")
    chosen = [texts[i] for i in evenly_spaced(len(texts), min(count, len(texts)))]
    length = min(_LONGEST, architecture.most_tokens)
    tokens = words(chosen, truncation=True, max_length=length, return_attention_mask=False)
    return padded(words, [dict(zip(tokens, values, strict=True)) for values in zip(*tokens.values(), strict=True)])

"""Write the files beside this one with a released version: ``PYTHONPATH=OLD python tests/data/released/make.py``.

The committed files were made with lgx 0.1.0, commit 0ccd4beec8. All runs start in a temporary folder and name
relative paths. Checkpoints, in which Lightning keeps absolute paths, are saved again with the paths made relative.
"""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from lgx.cli import main

HERE = Path(__file__).resolve().parent
DATA = {"shapes": {"train": 24, "val": 6, "test": 6}, "colours": {"train": 12, "val": 6, "test": 6}}
"""Image folders that the runs read: name -> images per split; the position in this table is the seed."""
KEPT = ["sws", "descendant", "logah", "lsamd"]
"""Runs that are kept whole; of all others the learngene."""
LEARNGENE = "trained/released/{}/seed0/best.learngene.safetensors"
SIZE = "embed_dim=8,num_heads=2,patch_size=4,img_size=16,mlp_ratio=2"
ARCH, SMALL, DEEP = f"depth=4,{SIZE}", f"depth=2,{SIZE}", f"depth=6,{SIZE}"
TEXT = "gpt2:depth=2,embed_dim=8,num_heads=2,max_len=24,vocab_size=260"
FIT = [
    "--model.optimizer=torch.optim.AdamW", "--model.optimizer.lr=0.003", "--experiment=released",
    "--trainer.accelerator=cpu", "--trainer.devices=1", "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false", "--test_end=true",
]  # fmt: skip
SHAPES = ["--data=ImageFolderData", "--data.root=shapes", "--data.img_size=16", "--data.batch_size=8"]
SEVERAL = [
    "--data=MultiTask", "--data.tasks=[shapes,colours]", "--data.img_size=16", "--data.batch_size=8",
    "--data.steps_per_epoch=4",
]  # fmt: skip
MASKS = ["--data=VOC12", "--data.root=masks", "--data.img_size=16", "--data.batch_size=8"]
TEXTS = ["--data=CoLA", "--data.root=texts", "--data.batch_size=8", "--data.max_len=24", "--data.vocab_size=260"]
HYPER = [
    "--model.width=4", "--model.layers=1", "--model.heads=2", "--model.max_shape=[8,8,4,4]", "--model.set_size=3",
    '--model.panel=["depth=2,embed_dim=8,num_heads=2"]',
]  # fmt: skip
LOW_RANK = [*HYPER, "--model.rank=2", "--model.max_size=128"]
TAUGHT = ["--model.ancestor", LEARNGENE.format("ancestor")]
INITIALIZERS = {
    "random": ["RandomStart"],
    "pretrained": ["Pretrained", f"source={LEARNGENE.format('ancestor')}"],
    "vanilla_lg": ["VanillaLG", f"source={LEARNGENE.format('ancestor')}", "layers=2"],
    "weight_selection": ["WeightSelection", f"source={LEARNGENE.format('ancestor')}"],
    "sws": ["StagewiseExpansion", f"learngene={LEARNGENE.format('sws')}", "order=front_last_mid"],
    "tleg": ["LinearExpansion", f"learngene={LEARNGENE.format('tleg')}"],
    "lsamd": ["SearchedExpansion", "learngene=lsamd.learngene.safetensors", "priority=last_first"],
    "tal": ["HypernetPrediction", f"hypernet={LEARNGENE.format('tal')}", "task=shapes", "noise=0.01"],
}


def started(initializer: str, *given: str) -> list[str]:
    """Options of a descendant's run."""
    options = [f"--model.initializer.{option}" for option in given]
    return ["--model=Finetune", f"--model.initializer={initializer}", *SHAPES, *options]


LEARNERS = {
    "ancestor": ["--model=Ancestor", *SHAPES],
    "sws": ["--model=SWS", *SHAPES, *TAUGHT, "--model.stages=[2,2]"],
    "simple_lg": ["--model=Distill", *SHAPES, *TAUGHT, f"--model.arch={SMALL}"],
    "mini_deit": ["--model=MiniDeiT", *SHAPES, *TAUGHT, "--model.stages=[2,2]"],
    "tleg": ["--model=TLEG", *SHAPES, *TAUGHT],
    "tleg_two_layers": ["--model=TLEG", *SHAPES, *TAUGHT, f"--model.arch={SMALL}"],
    "lsamd": ["--model=LSAMD", *SEVERAL, *TAUGHT, "--model.learning_rates={colours: 0.02}"],
    "ghn3": ["--model=GHN3", *SHAPES, *HYPER],
    "logah": ["--model=LoGAH", *SHAPES, *LOW_RANK],
    "tal": ["--model=TAL", *SEVERAL, *LOW_RANK, "--model.task_embeddings=task_embeddings.safetensors"],
    "segmentation": ["--model=Ancestor", *MASKS],
    "text": ["--model=Ancestor", *TEXTS, f"--model.arch={TEXT}"],
    "descendant": started(*INITIALIZERS["sws"]),
}
DESCENDANTS = {
    "ancestor": [f"--arch={ARCH}"],
    "sws": [f"--arch={DEEP}", "--order=front_last_mid"],
    "simple_lg": [f"--arch={DEEP}"],
    "mini_deit": [f"--arch={DEEP}"],
    "tleg": [f"--arch={DEEP}"],
    "tleg_two_layers": [f"--arch={DEEP}"],
    "lsamd": [f"--arch={DEEP}", "--priority=first", "--head=3"],
    "ghn3": [f"--arch={DEEP}"],
    "logah": [f"--arch={DEEP}"],
    "tal": [f"--arch={DEEP}", "--task=colours"],
    "segmentation": [f"--arch={ARCH}"],
    "text": [f"--arch={TEXT}"],
}
"""Learner -> options of ``lgx init`` beside its learngene."""
FILES = {name: LEARNGENE.format(name) for name in DESCENDANTS} | {"lsamd": "lsamd.learngene.safetensors"}
"""Learner -> its learngene file."""


def fit(folder: Path, name: str, options: list[str], epochs: int = 2, runs: str = "trained") -> Path:
    """Train, and return the run's folder."""
    model, *rest = options
    place = [f"--runs_dir={runs}", f"--name={name}", f"--trainer.max_epochs={epochs}"]
    main(["fit", model, *FIT, f"--model.arch={ARCH}", *place, *rest])
    return folder / runs / "released" / name / "seed0"


def relative(value: Any, folder: str) -> Any:
    """A checkpoint whose paths below ``folder`` are relative to it."""
    if isinstance(value, str):
        return value.removeprefix(folder)
    if isinstance(value, dict):
        for key in list(value):
            value[relative(key, folder)] = relative(value.pop(key), folder)
        return value
    if isinstance(value, list | tuple):
        return type(value)(relative(item, folder) for item in value)
    return value


def fingerprint(path: Path) -> float:
    """One number that depends on each parameter in a weights file, and on its place.

    The head of a ViT is left out: it may be random.
    """
    tensors = {name: tensor for name, tensor in load_file(path).items() if not name.startswith("head.")}
    number = 0.0
    for k, name in enumerate(sorted(tensors)):
        values = tensors[name].double().flatten()
        number += float(values @ torch.cos(torch.arange(len(values)).double() + k))
    return number


def stop_in_the_middle(folder: Path) -> None:
    """Keep a sweep that was stopped after two runs, and a study that was stopped in its second trial.

    The results of the sweep's second run are not yet collected.
    """
    for command in ("sweep", "tune"):
        main([command, f"{command}.yaml", "--runs_dir=trained"])
    swept, tuned = folder / "trained/swept", folder / "trained/tuned"
    for run in (swept / "sws/seed0", swept / "sws-3/seed0"):
        keep(run, folder, whole=False)
        for name in ("config.yaml", "results.csv", "summary.json", "finished.json"):
            shutil.copy(run / name, HERE / run.relative_to(folder))
    (HERE / "ended").mkdir()
    shutil.copy(swept / "measured.csv", HERE / "ended/swept.csv")
    shutil.copy(tuned / "trial1/seed0/results.csv", HERE / "ended/trial1.csv")
    header, *rows = (swept / "measured.csv").read_text().splitlines(keepends=True)
    first = [row for row in rows if ",trained/swept/sws/seed0," in row]
    (HERE / "trained/swept/measured.csv").write_text("".join([header, *first]))
    (HERE / "trained/tuned").mkdir()
    *lines, _ = (tuned / "study.journal").read_text().splitlines(keepends=True)
    (HERE / "trained/tuned/study.journal").write_text("".join(lines))


def keep(run: Path, folder: Path, whole: bool) -> None:
    """Copy what a run wrote beside this file."""
    target = HERE / run.relative_to(folder)
    (target / "checkpoints").mkdir(parents=True) if whole else target.mkdir(parents=True)
    for name in ("config.yaml", "results.csv", "summary.json") if whole else ():
        shutil.copy(run / name, target)
    for path in run.glob("*.learngene.safetensors"):
        shutil.copy(path, target)
    for path in run.glob("checkpoints/last.ckpt") if whole else ():
        checkpoint = torch.load(path, weights_only=True)
        torch.save(relative(checkpoint, f"{folder}/"), target / "checkpoints" / path.name)


def make(folder: Path) -> None:
    """Run everything below ``folder`` and keep what is small."""
    sys.path.insert(0, str(HERE.parents[1]))
    from parity_data import write_images, write_masks, write_texts

    torch.set_num_threads(1)
    for seed, (name, sizes) in enumerate(DATA.items()):
        write_images(folder / name, sizes, seed)
    write_masks(folder / "masks/voc12/VOCdevkit/VOC2012")
    write_texts(folder / "texts")
    for name, options in LEARNERS.items():
        keep(fit(folder, name, options), folder, name in KEPT)
        if name == "ancestor":
            embedded = ["--data=shapes,colours", "--out=task_embeddings.safetensors", "--accelerator=cpu"]
            main(["embed", "--ancestor", LEARNGENE.format(name), *embedded])
    main(["extract", "trained/released/lsamd/seed0", "--threshold=0", "--out=lsamd.learngene.safetensors"])
    for folder_made in ("configs", "four_epochs"):
        (HERE / folder_made).mkdir()
    for name, given in INITIALIZERS.items():
        shutil.copy(fit(folder, f"from_{name}", started(*given)) / "config.yaml", HERE / "configs" / f"{name}.yaml")
    for name in KEPT:
        run = fit(folder, name, LEARNERS[name], epochs=4, runs="whole")
        shutil.copy(run / "results.csv", HERE / "four_epochs" / f"{name}.csv")
    main(["init", "--learngene", LEARNGENE.format("sws"), f"--arch=depth=3,{SIZE}", "--out=exported"])
    shutil.copytree(folder / "exported", HERE / "exported")
    fingerprints = {}
    for name, given in DESCENDANTS.items():
        main(["init", "--learngene", FILES[name], *given, "--out=descendant.safetensors"])
        fingerprints[name] = fingerprint(folder / "descendant.safetensors")
    (HERE / "descendants.json").write_text(json.dumps(fingerprints, indent=2) + "\n")
    for file in HERE.glob("*.yaml"):
        shutil.copy(file, folder)
    stop_in_the_middle(folder)
    for name in ("task_embeddings.safetensors", "lsamd.learngene.safetensors"):
        shutil.copy(folder / name, HERE / name)


if __name__ == "__main__":
    for made in ("trained", "configs", "four_epochs", "exported", "ended"):
        shutil.rmtree(HERE / made, ignore_errors=True)
    with tempfile.TemporaryDirectory() as temporary:
        os.chdir(temporary)
        make(Path(temporary).resolve())

"""Every pair of options gives what plain torch and timm give, or is refused."""

import csv
import inspect
import io
import tarfile
from dataclasses import fields
from functools import cache
from pathlib import Path

import covertable
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from data_modules import VOC12, ImageFolderData, MultiLabelFolderData, ShardedData
from lgx.architectures import parse_architecture
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.core.rows import read_rows
from lgx.methods import Finetune
from lgx.methods.base import Method
from lgx.training.configuration import make_parser
from lgx.training.lightning_internals import option_strings
from tests.support import plain_training as plain
from tests.support.command_line import lgx
from tests.support.fake_masks import save_pair
from tests.support.ranks import on_two_processes

EPOCHS, BATCH, CLASSES = 3, 4, ("a", "b", "c")
NEAR = {"atol": 1e-5, "rtol": 1e-5}
FACTORS = {
    "data": ["folder", "cache", "shards", "stream", "multilabel", "masks"],
    "processes": [1, 2],
    "precision": ["32-true", "bf16-mixed", "64-true"],
    "average": [None, "ema", "swa"],
    "accumulate": [1, 2, 4],
    "val": ["given", "held", "none"],
    "optimizer": ["SGD", "AdamW", "Lamb"],
    "schedule": [None, "cosine", "poly"],
    "clip": [None, "norm", "value"],
    "normalization": ["start", "unknown", "options"],
    "class_weights": [False, True],
    "balanced": [False, True],
    "label_smoothing": [0.0, 0.2],
    "mixup": [0.0, 0.8],
    "cutmix": [0.0, 1.0],
    "split_batch": [False, True],
    "layer_decay": [1.0, 0.7],
    "freeze_epochs": [0, 1],
    "early_stop": [None, 1],
    "drop_path": [0.0, 0.3],
    "head": ["keep", "new"],
    "images": [24, 29],
    "limit_train": [None, 16],
    "absent": [False, True],
    "in_chans": [3, 1],
    "size": [(16, 16), (16, 24)],
    "resumed": [False, True],
}
BASE = {name: values[0] for name, values in FACTORS.items()}
_OF_CLASSES = ("class_weights", "balanced", "mixup", "cutmix")
REFUSED = [
    {"class_weights": True, "balanced": True},
    *({"data": "masks", name: FACTORS[name][1]} for name in _OF_CLASSES),
    *({"data": "multilabel", name: FACTORS[name][1]} for name in _OF_CLASSES),
    *({"data": "stream", name: FACTORS[name][1]} for name in ("class_weights", "balanced", "limit_train")),
    *({"data": data, "absent": True} for data in ("folder", "cache", "multilabel")),
    {"early_stop": 1, "val": "none"},
    {"average": "swa", "early_stop": 1},
    {"average": "swa", "resumed": True},
]
"""Pairs that one sentence refuses."""
MEANINGLESS = [{"data": "masks", "absent": True}, {"data": "masks", "val": "given"}]
"""Pairs that no data set can have: VOC12 lacks most of its classes here, and its official validation is the test."""
DATA = (ImageFolderData, MultiLabelFolderData, ShardedData, VOC12)
UNCOUNTED = {
    "model.compile": "computes the same", "model.dropout": "of texts",
    "model.label": "a name", "model.kind": "follows the data", "model.num_classes": "follows the data",
    "data.eval_batch_size": "how an evaluation is cut",
    "data.num_workers": "who reads", "data.worker_timeout": "who reads", "data.seed": "which draw",
    "data.split_seed": "which draw", "data.groups": "which images are held out", "data.shuffle_buffer": "which draw", "data.labels": "Finetune refuses false",
    "data.augment": "changes the recorded inputs alone", "data.transforms": "changes the recorded inputs alone",
    "config": "reads options", "overwrite": "which folder", "save_every": "when to save", "test_start": "measures alone",
    "test_end": "measures alone", "untrained": "of evaluations", "allow_non_finite": "of numbers that are not finite",
    "seed_everything": "which draw", "help": "prints", "trainer": "Lightning's", "checkpoint": "which checkpoint",
}  # fmt: skip
"""Options without a row in the table -> why they change no number."""


@cache
def rows(strength):
    """The array: each tuple of so many values of options that is neither refused nor meaningless is in a row."""
    never = [
        {"operator": "or", "conditions": [{"operator": "ne", "left": k, "value": v} for k, v in pair.items()]}
        for pair in (*REFUSED, *MEANINGLESS)
    ]
    return covertable.make(FACTORS, strength=strength, constraints=never)


def kind_of(row):
    return {"multilabel": "multilabel", "masks": "segmentation"}.get(row["data"], "classification")


def normalization_of(row):
    """Mean and std with which images must be read."""
    mean, std = {
        "start": ((0.4, 0.5, 0.6), (0.2, 0.3, 0.25)),
        "unknown": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        "options": ((0.3, 0.3, 0.4), (0.5, 0.4, 0.5)),
    }[row["normalization"]]
    return ([sum(v) / 3] for v in (mean, std)) if row["in_chans"] == 1 else (mean, std)


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """``sets(row)``: the folder of a data set, and its images by split: (file or bytes, target)."""
    root, known = tmp_path_factory.mktemp("sets"), {}

    def of(row):
        layout = {"folder": "folder", "cache": "folder", "stream": "shards"}.get(row["data"], row["data"])
        key = (layout, row["val"] == "given", row["images"], row["absent"], row["size"])
        if key not in known:
            known[key] = (root / str(len(known)), write(root / str(len(known)), *key))
        return known[key]

    return of


def write(folder, layout, has_val, images, absent, size):
    """Write a set; returns split -> [(file, target)]."""
    rng, examples, table = np.random.default_rng(0), {"train": [], "val": []}, []
    for k in range(images + 8 * has_val):
        split = "train" if k < images else "val"
        label = (0, 0, 0, 2 if absent and split == "train" else 1, 2)[k % 5]
        pixels = rng.integers(0, 150, (*size, 3), dtype=np.uint8)
        pixels[..., label] += 100
        place = {"folder": f"{split}/{CLASSES[label]}/{k:02d}.png"}.get(layout, f"images/{k:02d}.png")
        file, target = folder / place, label
        if layout == "masks":
            base = folder / "voc12/VOCdevkit/VOC2012"
            file, target = base / f"JPEGImages/{k:02d}.jpg", np.repeat(rng.integers(0, 3, (size[0], 1)), size[1], axis=1)
            target[: 2 + k % 12] = plain.VOID
            save_pair(file, base / f"SegmentationClass/{k:02d}.png", Image.fromarray(pixels), target)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(file)
        if layout == "multilabel":
            target = np.array([(c == label or (k + c) % 3 == 0) and (c != 1 or not absent) for c in range(3)], int)
        examples[split].append((file, target))
        table.append([place, *np.atleast_1d(target)[:3], split])
    if layout == "multilabel":
        with (folder / "labels.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["file", *CLASSES, "split"], *table])
    elif layout == "masks":
        lists = folder / "voc12/VOCdevkit/VOC2012/ImageSets/Segmentation"
        lists.mkdir(parents=True)
        for name, found in (("train", examples["train"]), ("val", examples["train"][:2])):
            (lists / f"{name}.txt").write_text("".join(f"{file.stem}\n" for file, _ in found))
    elif layout == "shards":
        (folder / "classes.txt").write_text("".join(f"{name}\n" for name in CLASSES))
        for split, found in examples.items():
            for first in range(0, len(found), 8):
                with tarfile.open(folder / f"{split}-{first:03d}.tar", "w") as tar:
                    for file, label in found[first : first + 8]:
                        for suffix, content in (("png", file.read_bytes()), ("cls", str(label).encode())):
                            member = tarfile.TarInfo(f"{file.stem}.{suffix}")
                            member.size = len(content)
                            tar.addfile(member, io.BytesIO(content))
    return examples


def options_of(row):
    """The options of the reference."""
    kind = kind_of(row)
    balanced = "balanced_acc" if row["class_weights"] or row["balanced"] else "acc"
    return row | {
        "kind": kind,
        "classes": 21 if kind == "segmentation" else 3,
        "epochs": EPOCHS,
        "seed": 0,
        "monitor": {"multilabel": "map", "segmentation": "miou"}.get(kind, balanced),
    }


def command(row, folder, out):
    """The command line of a row; further ones resume it."""
    options = options_of(row)
    height, width = row["size"]
    arch = f"depth=2,embed_dim=16,num_heads=2,patch_size={plain.PATCH},img_size={height}x{width}"
    arch += f",in_chans={row['in_chans']}"
    source = out / "start.learngene.safetensors"
    torch.manual_seed(1)
    start = {name: t + 0.1 * torch.randn_like(t) for name, t in plain.network(options).state_dict().items()}
    mean, std = map(list, normalization_of(row))
    task = {"name": "old", "mean": mean, "std": std} if row["normalization"] == "start" else {}
    architecture = parse_architecture(arch, num_classes=options["classes"], kind=options["kind"])
    if row["normalization"] == "unknown":
        source = out / "start.safetensors"
        save_file(start, source, {"kind": options["kind"]})
    else:
        Learngene("ancestor", architecture, start, task=task).save(source)
    optimizer, values = plain.OPTIMIZERS[row["optimizer"]]
    schedule = {"cosine": "lgx.components.optim.WarmupCosine", "poly": "lgx.components.optim.Poly"}
    data = {"masks": "VOC12", "multilabel": "MultiLabelFolderData", "folder": "ImageFolderData"}
    data |= {"cache": "ImageFolderData"}
    sharded = [f"--data.name={folder.name}", f"--data.in_memory={row['data'] == 'shards'}"]
    averages = {
        "ema": ["lightning.pytorch.callbacks.EMAWeightAveraging", {"decay": plain.EMA_DECAY}],
        "swa": [
            "lightning.pytorch.callbacks.StochasticWeightAveraging",
            {"swa_lrs": plain.SWA_RATE, "swa_epoch_start": plain.SWA_START},
        ],
    }
    kind, given = averages.get(row["average"], ("", {}))
    return [
        "fit", "--model=Finetune", f"--model.arch={arch}",
        "--model.initializer=Pretrained", f"--model.initializer.source={source}", f"--model.head={row['head']}",
        f"--model.optimizer={optimizer.__module__.split('.')[0]}.optim.{optimizer.__name__}",
        *(f"--model.optimizer.{name}={value}" for name, value in values.items()),
        f"--model.scheduler={schedule.get(row['schedule'], 'null')}",
        *(["--model.scheduler.warmup=0.25"] if row["schedule"] == "cosine" else []),
        f"--model.class_weights={row['class_weights']}", f"--model.label_smoothing={row['label_smoothing']}",
        f"--model.mixup={row['mixup']}", f"--model.cutmix={row['cutmix']}", f"--model.layer_decay={row['layer_decay']}",
        f"--model.freeze_epochs={row['freeze_epochs']}", f"--model.drop_path_rate={row['drop_path']}",
        f"--data={data.get(row['data'], 'ShardedData')}",
        f"--data.root={folder.parent if row['data'] in ('shards', 'stream') else folder}",
        *(sharded if row["data"] in ("shards", "stream") else []),
        f"--data.img_size=[{height},{width}]", f"--data.in_chans={row['in_chans']}", f"--data.batch_size={BATCH}",
        f"--data.cache_gib={float(row['data'] == 'cache')}", f"--data.balanced={row['balanced']}",
        *([f"--data.limit_train={row['limit_train']}"] if row["limit_train"] else []),
        *([f"--data.mean={mean}", f"--data.std={std}"] if row["normalization"] == "options" else []),
        *({"held": ["--data.val_fraction=0.25"], "none": ["--data.val_fraction=0"]}.get(row["val"], [])),
        f"--split_batch={row['split_batch']}", *(["--early_stop=1"] if row["early_stop"] else []),
        f"--runs_dir={out}", "--experiment=e", "--name=r", "--trainer.accelerator=cpu", "--trainer.logger=false",
        f"--trainer.devices={row['processes']}", f"--trainer.strategy={'ddp' if row['processes'] > 1 else 'auto'}",
        f"--trainer.max_epochs={EPOCHS}", f"--trainer.accumulate_grad_batches={row['accumulate']}",
        f"--trainer.precision={row['precision']}", "--trainer.enable_progress_bar=false",
        *([f"--trainer.gradient_clip_val={plain.CLIP[row['clip']]}"] if row["clip"] else []),
        *([f"--trainer.gradient_clip_algorithm={row['clip']}"] if row["clip"] else []),
        "--trainer.callbacks+=tests.support.probes.RecordBatches", f"--trainer.callbacks.file={out}/record",
        *([f"--trainer.callbacks+={kind}"] if kind else []),
        *(f"--trainer.callbacks.{name}={value}" for name, value in given.items()),
    ]  # fmt: skip


def commands(row, sets, out):
    """The command line of a row; where it is resumed, first one that ends within the second epoch."""
    out.mkdir(parents=True, exist_ok=True)
    line = command(row, sets(row)[0], out)
    return [[*line, f"--trainer.max_steps={stop_of(row)}"], [*line, "--ckpt_path=last"]] if row["resumed"] else [line]


def size_of(row):
    """Training examples."""
    size = row["images"] - round(0.25 * row["images"]) * (row["val"] == "held")
    return min(size, row["limit_train"] or size)


def global_batch(row):
    return BATCH * (1 if row["split_batch"] else row["processes"])


def stop_of(row):
    """An update within the second epoch; the first one of a single-update epoch."""
    updates = -(-(size_of(row) // global_batch(row)) // row["accumulate"])
    return updates + (updates > 1)


def recorded(row, out):
    """Batches by epoch, step and process; validation batches; the weights of the start."""
    parts = [[torch.load(f) for f in sorted(out.glob(f"record-*-{rank}.pt"))] for rank in range(row["processes"])]
    batches = []
    for rank, found in enumerate(parts):
        for epoch, step, *batch in (entry for part in found for entry in part["trained"]):
            batches += [[]] * (epoch == len(batches))
            batches[epoch] = batches[epoch] + [[]] * (step == len(batches[epoch]))
            batches[epoch][step] = [*batches[epoch][step], tuple(batch)]
            assert len(batches[epoch][step]) == rank + 1, "a batch was missed, or was read twice"
    validation = [batch for found in parts for batch in found[0]["validated"]]
    return batches, [torch.cat(parts) for parts in zip(*validation, strict=True)], parts[0][0]["start"]


def truth(row, examples):
    """The images of a split as plain Pillow and numpy read them, (N, C, H, W), and their targets."""
    mean, std = (np.reshape(v, (-1, 1, 1)) for v in normalization_of(row))
    mode = "L" if row["in_chans"] == 1 else "RGB"
    images = [np.atleast_3d(np.asarray(Image.open(file).convert(mode))).transpose(2, 0, 1) for file, _ in examples]
    return (
        torch.tensor(np.stack([(image / 255 - mean) / std for image in images])),
        torch.tensor(np.stack([target for _, target in examples])),
    )


def numbers_of(inputs, targets, known):
    """The number of each example; each must be one of the images, with its target."""
    images, answers = known
    distance = (inputs.double()[:, None] - images[None]).abs().flatten(2).amax(2)
    assert distance.amin(1).max() < 1e-5, "an image was read otherwise than by Pillow"
    numbers = distance.argmin(1)
    assert torch.equal(targets, answers[numbers])
    return numbers.tolist()


def check_examples(row, batches, validation, examples):
    """Each epoch reads each training image at most once, and leaves out as many as fill no batch; or draws balanced."""
    known, full = truth(row, examples["train"]), size_of(row) // global_batch(row)
    used = set()
    for steps in batches:
        numbers = numbers_of(*map(torch.cat, zip(*(batch for ranks in steps for batch in ranks), strict=True)), known)
        assert len(steps) == full
        assert len(numbers) == full * global_batch(row)
        assert row["balanced"] or len(set(numbers)) == len(numbers)
        used |= set(numbers)
    assert len(used) <= size_of(row)
    if row["val"] != "none":
        held = numbers_of(*validation, truth(row, examples["val"]) if row["val"] == "given" else known)
        assert len(set(held)) == len(held) == (8 if row["val"] == "given" else round(0.25 * row["images"]))
        assert row["val"] == "given" or not used & set(held)
    if row["balanced"]:
        drawn = torch.cat([targets for steps in batches for ranks in steps for _, targets in ranks])
        assert drawn.bincount().max() < 1.4 * len(drawn) / len(drawn.unique()), "a class is drawn more often"


def check(row, sets, out):
    """Compare a finished row with the reference."""
    batches, validation, start = recorded(row, out)
    examples = sets(row)[1]
    check_examples(row, batches, validation, examples)
    options = options_of(row) | {"stop_at": stop_of(row) if row["resumed"] else 0}
    counts = class_counts(row, examples, batches, validation) if row["class_weights"] else None
    for name, tensor in load_file(next(out.glob("start.*safetensors"))).items():
        same = torch.equal(tensor, start[name].float())
        assert same == (row["head"] == "keep" or not name.startswith("head.")), name
    expected = plain.train(options, start, batches, counts, tuple(validation) if row["val"] != "none" else None)
    assert len(batches) == max(1, len(expected.validations) if row["val"] != "none" else EPOCHS)
    run = out / "e/r/seed0"
    final = run / "checkpoints/final.ckpt"
    found = load_checkpoint(final if final.is_file() else run / "checkpoints/last.ckpt")
    assert found["global_step"] == expected.steps
    weights = expected.average if row["average"] else expected.weights
    for name, tensor in weights.items():
        own = found["state_dict"][f"network.{name}"]
        torch.testing.assert_close(own.double(), tensor.double(), **NEAR, msg=lambda text, name=name: f"{name}: {text}")
    measured = [r for r in read_rows(run / "results.csv") if r.split == "val"]
    for epoch, scores in enumerate(expected.validations, start=1):
        own = {r.metric: r.value for r in measured if r.epochs == epoch}
        assert own == pytest.approx({name: scores[name] for name in own}, abs=NEAR["atol"])
        assert set(own) >= {"loss", options["monitor"]}
    if options["kind"] != "segmentation":  # whose epoch is the mean of its images
        losses = [r.value for r in read_rows(run / "results.csv") if r.split == "train"]
        assert losses == pytest.approx(expected.losses, abs=NEAR["atol"])
    if expected.validations:
        best = load_checkpoint(run / "checkpoints/best.ckpt")["lgx"]["epochs"]
        assert best == expected.best_epoch(options["monitor"])


def class_counts(row, examples, batches, validation):
    """Training images of each class; an epoch reads all 16 of a limited set."""
    if row["limit_train"]:
        return torch.cat([targets for ranks in batches[0] for _, targets in ranks]).bincount(minlength=3)
    held = validation[1].bincount(minlength=3) if row["val"] == "held" else 0
    return torch.tensor([label for _, label in examples["train"]]).bincount(minlength=3) - held


def label(row):
    return " ".join(f"{name}={value}" for name, value in row.items() if value != BASE[name])


def disagreements(chosen, sets, folder):
    """What is wrong with the rows that are run, by row."""
    lines, ends, wrong = {}, {}, {}
    for k, row in enumerate(chosen):
        for n, line in enumerate(commands(row, sets, folder / str(k))):
            if row["processes"] == 2:
                lines[f"{k}.{n}"] = line
            else:
                done = lgx(*line)
                ends[f"{k}.{n}"] = done.err if done.code else ""
    ends |= on_two_processes(lines, folder)[0] if lines else {}
    for k, row in enumerate(chosen):
        try:
            assert not (errors := [end[-500:] for name, end in ends.items() if name.startswith(f"{k}.") and end]), errors
            check(row, sets, folder / str(k))
        except Exception as error:
            wrong[label(row)] = repr(error)[:300]
    return "\n\n".join(f"{row}\n{error}" for row, error in wrong.items())


@pytest.mark.parametrize("processes", FACTORS["processes"])
@pytest.mark.parametrize("strength", [2, pytest.param(3, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
def test_options_agree_with_plain_training(strength, processes, sets, tmp_path, monkeypatch):
    monkeypatch.setenv("LGX_ALLOW_IMPORTS", "tests")
    chosen = [row for row in rows(strength) if row["processes"] == processes]
    assert not (wrong := disagreements(chosen, sets, tmp_path)), f"of {len(chosen)} rows:\n{wrong}"


@pytest.mark.parametrize("pair", REFUSED, ids=str)
def test_a_refused_pair_is_one_sentence(pair, sets, tmp_path, monkeypatch):
    monkeypatch.setenv("LGX_ALLOW_IMPORTS", "tests")
    done = lgx(*commands(BASE | pair, sets, tmp_path)[0])
    assert done.code == 2
    assert "Traceback" not in done.err


def test_every_option_has_a_row_or_changes_no_number(sets, tmp_path):
    own = {f"model.{name}" for kind in (Finetune, Method) for name in inspect.signature(kind).parameters}
    own |= {f"data.{field.name}" for kind in DATA for field in fields(kind)}
    words = [name.removeprefix("--") for name in option_strings(make_parser("fit")) if name.startswith("--")]
    own |= {word for word in words if "." not in word and not word.startswith(("no_", "print_")) and word[-1] != "+"}
    lines = [line for row in rows(2) for line in commands(row, sets, tmp_path)]
    covered = {word.split("=")[0].removeprefix("--") for line in lines for word in line}
    assert own - covered == {*UNCOUNTED, "model.kwargs"}

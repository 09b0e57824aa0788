"""Every pair of options gives what plain torch and timm give, or is refused."""

import csv
import inspect
from dataclasses import fields
from functools import cache

import covertable
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from data_modules import VOC12, ImageFolderData, MultiLabelFolderData, ShardedData
from lgx.architectures import parse_architecture
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.export import write_descendant
from lgx.artifacts.learngene import Learngene
from lgx.core.rows import read_rows
from lgx.methods import Finetune
from lgx.methods.base import Method
from lgx.training.configuration import make_parser
from lgx.training.lightning_internals import option_strings
from tests.support import plain_training as plain
from tests.support.command_line import ACCELERATOR, lgx, refusal
from tests.support.fake_masks import save_pair
from tests.support.picture_files import tar
from tests.support.ranks import on_two_processes

EPOCHS, BATCH, CLASSES, NEAR = 3, 4, ("a", "b", "c"), 1e-5
MODEL = {
    "class_weights": [False, True],
    "label_smoothing": [0.0, 0.2],
    "mixup": [0.0, 0.8],
    "cutmix": [0.0, 1.0],
    "layer_decay": [1.0, 0.7],
    "freeze_epochs": [0, 1],
    "drop_path_rate": [0.0, 0.3],
    "head": ["keep", "new"],
}
DATA = {"balanced": [False, True], "limit_train": [None, 16], "in_chans": [3, 1]}
FACTORS = {
    "data": ["folder", "cache", "shards", "stream", "multilabel", "masks"],
    "processes": [1, 2],
    "precision": ["32-true", "bf16-mixed", "64-true"],
    "average": [None, "ema"],
    "accumulate": [1, 2, 4],
    "val": ["given", "held", "none"],
    "optimizer": ["SGD", "AdamW", "Lamb"],
    "schedule": [None, "cosine", "poly", "steps"],
    "clip": [None, "norm", "value"],
    "normalization": ["start", "folder", "options"],
    "split_batch": [False, True],
    "early_stop": [None, 1],
    "resumed": [False, True],
    "images": [24, 29],
    "absent": [False, True],
    "size": [(16, 16), (16, 24)],
    **MODEL,
    **DATA,
}
BASE = {name: values[0] for name, values in FACTORS.items()}
FORMULAS = [
    ["class_weights", "label_smoothing", "mixup", "cutmix", "accumulate", "processes"],
    ["optimizer", "freeze_epochs", "layer_decay", "clip"],
]
"""Options of one formula, of which any three are in a row: two alone may hide behind a third."""
_OF_CLASSES = ("class_weights", "balanced", "mixup", "cutmix")
REFUSED = [
    {"class_weights": True, "balanced": True},
    *({"data": data, name: FACTORS[name][1]} for data in ("masks", "multilabel") for name in _OF_CLASSES),
    *({"data": data, "absent": True} for data in ("folder", "cache", "multilabel")),
    {"early_stop": 1, "val": "none"},
]
"""Pairs that one sentence refuses."""
MEANINGLESS = [{"data": "masks", "absent": True}, {"data": "masks", "val": "given"}]
"""Pairs that no data set can have: VOC12 lacks most of its classes here, and its official validation is the test."""
MODULES = {"masks": VOC12, "multilabel": MultiLabelFolderData, "folder": ImageFolderData, "shards": ShardedData}
UNCOUNTED = {
    "gives no other number": ["model.compile", "model.kwargs", "model.label"],
    "follows the data": ["model.kind", "model.num_classes"],
    "of texts": ["model.dropout"],
    "Finetune refuses false": ["data.labels"],
    "how data are read": [
        "data.shard_cache_gib",
        "data.num_workers",
        "data.worker_timeout",
    ],
    "which random draw": ["data.groups", "data.seed", "data.split_seed", "seed_everything"],
    "changes the recorded inputs alone": ["data.augment", "data.resize", "data.value_range"],
    "what is saved or measured": ["checkpoint", "overwrite", "save_every", "test_end", "test_start", "untrained"],
    "of the command line": ["config", "help", "trainer"],
}
"""Why options without a row change no number."""
NORMALIZATIONS = {
    "start": ([0.4, 0.5, 0.6], [0.2, 0.3, 0.25]),
    "folder": ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    "options": ([0.3, 0.3, 0.4], [0.5, 0.4, 0.5]),
}
SCHEDULES = {
    "cosine": "WarmupCosine --model.scheduler.warmup=0.25",
    "poly": "Poly",
    "steps": "StepLR --model.scheduler.step_size=2 --model.scheduler.gamma=0.5",
}
AVERAGES = {"ema": f"EMAWeightAveraging --trainer.callbacks.decay={plain.EMA_DECAY}"}


@cache
def rows(strength):
    """The array: each tuple of so many values of options that is neither refused nor meaningless is in a row."""
    never = [
        {"operator": "or", "conditions": [{"operator": "ne", "left": k, "value": v} for k, v in pair.items()]}
        for pair in (*REFUSED, *MEANINGLESS)
    ]
    threes = [{"fields": names, "strength": 3} for names in FORMULAS]
    return covertable.make(FACTORS, strength=strength, constraints=never, sub_models=threes)


def layout_of(row):
    return {"cache": "folder", "stream": "shards"}.get(row["data"], row["data"])


def normalization_of(row):
    """Mean and std with which images must be read."""
    both = NORMALIZATIONS[row["normalization"]]
    return both if row["in_chans"] == 3 else tuple([sum(values) / 3] for values in both)


def steps_of(row):
    """Examples of a training set, of a step on all processes, and steps of an epoch."""
    size = row["images"] - round(0.25 * row["images"]) * (row["val"] == "held")
    size, batch = min(size, row["limit_train"] or size), BATCH * (1 if row["split_batch"] else row["processes"])
    return size, batch, size // batch


def options_of(row):
    """The options of the reference. A resumed run ends within its second epoch first, if an epoch has some updates."""
    kind = {"multilabel": "multilabel", "masks": "segmentation"}.get(row["data"], "classification")
    updates = -(-steps_of(row)[2] // row["accumulate"])
    metric = "balanced_acc" if row["class_weights"] or row["balanced"] else "acc"
    own = {"kind": kind, "classes": 21 if kind == "segmentation" else 3, "epochs": EPOCHS, "seed": 0}
    own["monitor"] = {"multilabel": "map", "segmentation": "miou"}.get(kind, metric)
    return row | own | {"stop_at": (updates + (updates > 1)) * row["resumed"]}


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """``sets(row)``: the folder of a data set, and its images by split: (file, target)."""
    root, known = tmp_path_factory.mktemp("sets"), {}

    def of(row):
        key = (layout_of(row), row["val"] == "given", row["images"], row["absent"], row["size"])
        if key not in known:
            folder = root / str(len(known))
            known[key] = folder, write(folder, *key)
        return known[key]

    return of


def write(folder, layout, has_val, images, absent, size):
    """Write a set; class a is frequent, and b may be absent from training. Masks have 2 to 13 void rows."""
    rng, examples, table = np.random.default_rng(0), {"train": [], "val": []}, []
    masks = folder / "voc12/VOCdevkit/VOC2012"
    for k in range(images + 8 * has_val):
        split = "train" if k < images else "val"
        label = (0, 0, 0, 2 if absent and split == "train" else 1, 2)[k % 5]
        pixels = rng.integers(0, 150, (*size, 3), dtype=np.uint8)
        pixels[..., label] += 100
        place, target = f"{split}/{CLASSES[label]}/{k:02d}.png", label
        if layout == "masks":
            place = f"JPEGImages/{k:02d}.jpg"
            target = np.repeat(rng.integers(0, 3, (size[0], 1)), size[1], axis=1)
            target[: 2 + k % 12] = plain.VOID
            save_pair(masks / place, masks / f"SegmentationClass/{k:02d}.png", Image.fromarray(pixels), target)
        else:
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(folder / place)
        if layout == "multilabel":
            has = np.array([(c == label or (k + c) % 3 == 0) and (c != 1 or not absent) for c in range(3)])
            target = np.where((np.arange(3) + 7 * k) % 5, has, plain.VOID)  # the others are unknown
            table.append([place, *np.where(target == plain.VOID, -1, target), split])
        examples[split].append(((masks if layout == "masks" else folder) / place, target))
    if layout == "multilabel":
        with (folder / "labels.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["file", *CLASSES, "split"], *table])
    elif layout == "masks":
        (masks / "ImageSets/Segmentation").mkdir(parents=True)
        (masks / "ImageSets/Segmentation/train.txt").write_text("".join(f"{k:02d}\n" for k in range(images)))
    elif layout == "shards":
        (folder / "classes.txt").write_text("\n".join(CLASSES))
        for split, found in examples.items():
            for first in range(0, len(found), 8):
                members = []
                for file, label in found[first : first + 8]:
                    members += [(file.name, file.read_bytes()), (f"{file.stem}.cls", str(label).encode())]
                (folder / f"{split}-{first:03d}.tar").write_bytes(tar(members))
    return examples


def write_start(row, architecture, folder):
    """The start's file, or its folder."""
    options = options_of(row)
    torch.manual_seed(2)  # with 1, a rounding to bfloat16 differs in one row, where float32 and float64 agree
    start = {name: t + 0.1 * torch.randn_like(t) for name, t in plain.network(options).state_dict().items()}
    mean, std = normalization_of(row)
    described = parse_architecture(architecture, num_classes=options["classes"], kind=options["kind"])
    if row["normalization"] == "folder":
        network = described.build()
        network.load_state_dict(start)
        write_descendant(folder / "start", network, described, tuple(mean), tuple(std))
        return folder / "start"
    task = {"name": "old", "mean": mean, "std": std} if row["normalization"] == "start" else {}
    Learngene("ancestor", described, start, task=task).save(folder / "start.learngene.safetensors")
    return folder / "start.learngene.safetensors"


def commands(row, folder, out):
    """The command line of a row; where it is resumed, first one that ends within an epoch."""
    out.mkdir(parents=True, exist_ok=True)
    (height, width), layout, (mean, std) = row["size"], layout_of(row), normalization_of(row)
    arch = f"depth=2,embed_dim=16,num_heads=2,patch_size={plain.PATCH},img_size={height}x{width}"
    arch += f",in_chans={row['in_chans']}"
    optimizer, values = plain.OPTIMIZERS[row["optimizer"]]
    line = [
        "fit", "--model=Finetune", f"--model.arch={arch}", *(f"--model.{name}={row[name]}" for name in MODEL),
        "--model.initializer=Pretrained", f"--model.initializer.source={write_start(row, arch, out)}",
        f"--model.optimizer={optimizer.__module__.split('.')[0]}.optim.{optimizer.__name__}",
        *(f"--model.optimizer.{name}={value}" for name, value in values.items()),
        *f"--model.scheduler={SCHEDULES.get(row['schedule'], 'null')}".split(),
        f"--data={MODULES[layout].__name__}", f"--data.root={folder.parent if layout == 'shards' else folder}",
        *([f"--data.name={folder.name}", f"--data.in_memory={row['data'] == 'shards'}"] if layout == "shards" else []),
        *(f"--data.{name}={'null' if row[name] is None else row[name]}" for name in DATA),
        f"--data.img_size=[{height},{width}]", f"--data.batch_size={BATCH}",
        f"--data.cache_gib={float(row['data'] == 'cache')}",
        f"--data.val_fraction={ {'given': 0.1, 'held': 0.25, 'none': 0}[row['val']] }",
        *([f"--data.mean={mean}", f"--data.std={std}"] if row["normalization"] == "options" else []),
        f"--split_batch={row['split_batch']}", f"--early_stop={row['early_stop'] or 'null'}",
        f"--runs_dir={out}", "--experiment=e", "--name=r",
        f"--trainer.accelerator={ACCELERATOR}", "--trainer.logger=false",
        f"--trainer.devices={row['processes']}", f"--trainer.strategy={'ddp' if row['processes'] > 1 else 'auto'}",
        f"--trainer.max_epochs={EPOCHS}", f"--trainer.accumulate_grad_batches={row['accumulate']}",
        f"--trainer.precision={row['precision']}", "--trainer.enable_progress_bar=false",
        f"--trainer.gradient_clip_val={plain.CLIP.get(row['clip'], 'null')}",
        f"--trainer.gradient_clip_algorithm={row['clip'] or 'null'}",
        "--trainer.callbacks+=tests.support.probes.RecordBatches", f"--trainer.callbacks.file={out}/record",
        *(f"--trainer.callbacks+={AVERAGES[row['average']]}".split()
          if row["average"] else []),
    ]  # fmt: skip
    first = [[*line, f"--trainer.max_steps={options_of(row)['stop_at']}"]]
    return [*first, [*line, "--ckpt_path=last"]] if row["resumed"] else [line]


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
    return batches, tuple(map(torch.cat, zip(*validation, strict=True))), parts[0][0]["start"]


def numbers_of(row, inputs, targets, examples):
    """The number of each example, of which plain Pillow and numpy must read the same; and the targets agree."""
    mean, std = (np.reshape(values, (-1, 1, 1)) for values in normalization_of(row))
    pixels = [np.asarray(Image.open(file).convert("L" if row["in_chans"] == 1 else "RGB")) for file, _ in examples]
    images = np.stack([(np.atleast_3d(image).transpose(2, 0, 1) / 255 - mean) / std for image in pixels])
    distance = (inputs.double()[:, None] - torch.tensor(images)[None]).abs().flatten(2).amax(2)
    assert distance.amin(1).max() < NEAR, "an image was read otherwise than by Pillow"
    numbers = distance.argmin(1)
    assert torch.equal(targets, torch.tensor(np.stack([target for _, target in examples]))[numbers])
    return numbers.tolist()


def check_examples(row, batches, validation, examples):
    """Each epoch reads each training image at most once, or all classes equally often; none of validation's.

    Returns:
        Training images of each class, where an image has one.
    """
    size, batch, steps = steps_of(row)
    drawn, held = [], []
    for epoch in batches:
        flat = zip(*(part for ranks in epoch for part in ranks), strict=True)
        drawn += [numbers_of(row, *map(torch.cat, flat), examples["train"])]
        assert (len(epoch), len(drawn[-1])) == (steps, steps * batch)
        assert row["balanced"] or len(set(drawn[-1])) == len(drawn[-1])
    if row["val"] != "none":
        held = numbers_of(row, *validation, examples["val" if row["val"] == "given" else "train"])
        assert len(set(held)) == len(held) == (8 if row["val"] == "given" else round(0.25 * row["images"]))
    kept = {*range(row["images"])} - (set(held) if row["val"] == "held" else set())
    kept &= set(drawn[0]) if row["limit_train"] and not row["balanced"] and steps * batch == size else kept
    assert set().union(*drawn) <= kept
    if options_of(row)["kind"] != "classification":
        return None
    if row["balanced"]:
        often = np.bincount([examples["train"][k][1] for numbers in drawn for k in numbers])
        assert often.max() < 1.6 * often.sum() / (often > 0).sum(), "a class is drawn more often than the others"
    return torch.tensor([examples["train"][k][1] for k in kept]).bincount(minlength=3)


def check(row, examples, out):
    """Compare a finished row with the reference."""
    (batches, validation, start), options, run = recorded(row, out), options_of(row), out / "e/r/seed0"
    counts = check_examples(row, batches, validation, examples)
    of_folder = out / "start/model.safetensors"
    for name, tensor in load_file(of_folder if of_folder.is_file() else out / "start.learngene.safetensors").items():
        is_kept = row["head"] == "keep" or not name.startswith("head.")
        assert torch.equal(tensor, start[name].float()) == is_kept, f"{name} of the start"
    expected = plain.train(options, start, batches, counts, validation if row["val"] != "none" else None)
    assert len(batches) == (EPOCHS if row["val"] == "none" else len(expected.validations))
    final = run / "checkpoints/final.ckpt"
    found = load_checkpoint(final if final.is_file() else run / "checkpoints/last.ckpt")
    assert found["global_step"] == expected.steps
    for name, tensor in (expected.average if row["average"] else expected.weights).items():
        distance = (found["state_dict"][f"network.{name}"].double() - tensor.double()).abs().max()
        assert distance < NEAR, f"{name} differs by {distance:.1e}"
    measured = read_rows(run / "results.csv")
    for epoch, scores in enumerate(expected.validations, start=1):
        own = {r.metric: r.value for r in measured if (r.split, r.epochs) == ("val", epoch)}
        assert own == pytest.approx({name: scores[name] for name in own}, abs=NEAR)
        assert {*own} >= {"loss", options["monitor"]}
    if options["kind"] == "classification":  # others weigh their batches, not their labels, in this mean
        losses = [r.value for r in measured if r.split == "train"]
        assert losses == pytest.approx(expected.losses, abs=NEAR)
    if expected.validations:
        best = load_checkpoint(run / "checkpoints/best.ckpt")["lgx"]["epochs"]
        assert best == expected.best_epoch(options["monitor"])


@pytest.mark.parametrize("processes", FACTORS["processes"])
@pytest.mark.parametrize("strength", [2, pytest.param(3, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_options_agree_with_plain_training(strength, processes, sets, tmp_path):
    chosen = [row for row in rows(strength) if row["processes"] == processes]
    chosen = chosen[::3] if (strength, processes) == (2, 2) else chosen  # the rows of three options have all pairs
    lines = {
        f"{k}.{n}": line
        for k, row in enumerate(chosen)
        for n, line in enumerate(commands(row, sets(row)[0], tmp_path / str(k)))
    }
    if processes == 1:
        ends = {name: done.err if done.code else "" for name, line in lines.items() for done in [lgx(*line)]}
    else:
        ends, _ = on_two_processes(lines, tmp_path, 170 if strength == 2 else 1500)
    wrong = []
    for k, row in enumerate(chosen):
        try:
            assert [end for name, end in ends.items() if name.startswith(f"{k}.") and end] == []
            check(row, sets(row)[1], tmp_path / str(k))
        except Exception as error:
            wrong.append(f"{ {name: value for name, value in row.items() if value != BASE[name]} }: {error!r:.500}")
    assert not wrong, f"of {len(chosen)} rows {len(wrong)}:\n" + "\n".join(wrong)


@pytest.mark.parametrize("pair", REFUSED, ids=str)
def test_a_refused_pair_is_one_sentence(pair, sets, tmp_path):
    row = BASE | pair
    refusal(lgx(*commands(row, sets(row)[0], tmp_path)[0]))


def test_every_option_has_a_row_or_changes_no_number(sets, tmp_path):
    own = {f"model.{name}" for kind in (Finetune, Method) for name in inspect.signature(kind).parameters}
    own |= {f"data.{field.name}" for kind in MODULES.values() for field in fields(kind)}
    words = [name.removeprefix("--") for name in option_strings(make_parser("fit")) if name.startswith("--")]
    own |= {word for word in words if "." not in word and not word.startswith(("no_", "print_")) and word[-1] != "+"}
    lines = [line for row in rows(2) for line in commands(row, sets(row)[0], tmp_path)]
    covered = {word.split("=")[0].removeprefix("--") for line in lines for word in line}
    assert own - covered == {name for names in UNCOUNTED.values() for name in names}

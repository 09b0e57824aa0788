"""Attacks of ``make chaos`` on data, tables and weights, and signals to a whole group of processes."""

import csv
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from lgx.core.rows import read_rows
from tests.support.chaos_world import (
    INIT,
    LEARNGENE,
    RESUME,
    RUN,
    World,
    await_start,
    check_files,
    copy_finished,
    ended,
    send,
)  # fmt: skip
from tests.support.forks import finish, start
from tests.support.kills import contents, of_run

WORKERS = "--data.num_workers=2"
CELLS = ["", "-1", "nan", "inf", "1.5", "1e9", "x", "\ufeff", "=1+1", "a\nb", "2000000000000000000000", "\x00"]
DTYPES = [torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int64, torch.bool]


def own_images(world: World, folder: Path) -> Path:
    """A copy of the images beside a copy of the finished run."""
    copy_finished(world, folder)
    return Path(shutil.copytree(world.images, folder / "shapes"))


def accuracies(folder: Path) -> list[tuple[str, int, float]]:
    """What the run has measured."""
    rows = read_rows(folder / RUN / "results.csv")
    return [(row.split, row.epochs, row.value) for row in rows if row.metric == "acc"]


def classes(world: World, rng: random.Random, folder: Path) -> str:
    """A class has another name: refused, and the rows stay. The classes have another order: the same accuracy."""
    images = own_images(world, folder)
    names, before = sorted(path.name for path in (images / "train").iterdir()), accuracies(folder)
    is_renamed = rng.random() < 0.5
    if is_renamed:
        old, new = rng.choice(names), rng.choice(["aaa", "zzz", "00", "Circle"])
        for split in ("train", "val", "test"):
            (images / split / old).rename(images / split / new)
    else:
        (images / "classes.txt").write_text("\n".join(rng.sample(names, len(names))) + "\n")
    command = rng.choice(["test", "validate"])
    chosen = ["--config", RUN / "config.yaml", "--ckpt_path", rng.choice(["best", "last"]), f"--data.root={images}"]
    code = ended(start([command, *chosen], folder), folder)
    assert code == (2 if is_renamed else 0), f"{command}: {code}"
    assert set(before) <= set(accuracies(folder))
    return f"{command}, {'renamed' if is_renamed else 'other order'}: {code}"


def swapped(world: World, rng: random.Random, folder: Path) -> str:
    """An image is replaced by another one with its times: the run is not resumed. A whole copy is the same data."""
    images = own_images(world, folder)
    split, is_swapped = rng.choice(["train", "val"]), rng.random() < 0.7
    first, second = rng.sample(sorted((images / split).rglob("*.png")), 2)
    if is_swapped:
        kept = second.read_bytes()
        shutil.copy2(first, second)
        if rng.random() < 0.5:
            first.write_bytes(kept)
        os.utime(first, ns=(second.stat().st_mtime_ns,) * 2)
    before = contents(folder)
    code = ended(start(world.fit(RESUME, f"--data.root={images}", "--trainer.max_epochs=3"), folder), folder)
    assert code == (2 if is_swapped else 0), f"{split}: {code}"
    assert not is_swapped or contents(folder) == before
    return f"{split}, {'swapped' if is_swapped else 'copied'}: {code}"


def table(world: World, rng: random.Random, folder: Path) -> str:
    """A table of results was edited or cut: a sentence, or a comparison of what it says."""
    copy_finished(world, folder)
    file = folder / RUN / "results.csv"
    rows = list(csv.reader(file.read_text().splitlines()))
    row, column, cell = rng.randrange(len(rows)), rng.randrange(len(rows[0])), rng.choice(CELLS)
    rows[row][column] = cell
    with file.open("w", newline="", encoding=rng.choice(["utf-8", "utf-8-sig", "utf-16"])) as out:
        csv.writer(out, delimiter=rng.choice([",", ",", ";"])).writerows(rows)
    if rng.random() < 0.3:
        file.write_bytes(file.read_bytes()[: rng.randrange(file.stat().st_size)])
    code = ended(start(["compare", "runs", "--out", "report"], folder), folder)
    assert (folder / "report/report.html").exists() == (code == 0)
    return f"{rows[0][column]} of row {row} is {cell!r}: {code}"


def dtype(world: World, rng: random.Random, folder: Path) -> str:
    """Weights are of another type, or not finite: refused, or the same weights as far as the type can tell."""
    copy_finished(world, folder)
    file = folder / LEARNGENE
    tensors = load_file(file)
    with safe_open(file, "pt") as opened:
        metadata = opened.metadata()
    kind = rng.choice([*DTYPES, "nan", "inf"])
    names = rng.sample(sorted(tensors), rng.choice([1, len(tensors)]))
    changed = dict(tensors)
    for name in names:
        if isinstance(kind, str):
            changed[name] = torch.full_like(tensors[name], float(kind))
        else:
            changed[name] = tensors[name].to(kind)
    save_file(changed, file, metadata)
    code = ended(start(INIT, folder), folder)
    is_weight = isinstance(kind, torch.dtype) and kind.is_floating_point
    assert code == 2 or is_weight, f"{kind} is accepted"
    if code == 0:
        start_of = load_file(folder / "descendant/model.safetensors")
        whole = [name for name in start_of if name in tensors and start_of[name].shape == tensors[name].shape]
        assert whole
        assert all(torch.allclose(start_of[n], tensors[n], rtol=0.01, atol=1e-3) for n in whole)
    return f"{len(names)} of {kind}: {code}"


def group(world: World, rng: random.Random, folder: Path) -> str:
    """All processes of a run with loader processes get SIGTERM, once or twice: it is saved, and resumed bit for bit."""
    done = []
    for _ in range(rng.randint(1, 2)):
        process = start(world.fit(RESUME, "--overwrite", WORKERS), folder)
        await_start(process)
        process.join(rng.random() * 4 * world.seconds)
        if process.exitcode is None:
            send(process, signal.SIGTERM)
        done.append(ended(process, folder))
        assert done[-1] not in (1, 2), (folder / "log").read_text()[-1500:]
        check_files(folder)
    finish(world.fit(RESUME, "--overwrite", WORKERS), folder)
    assert of_run(folder) == world.outcome(folder, WORKERS)
    return f"{done}"


DATA_CASES: list[Callable[[World, random.Random, Path], str]] = [classes, swapped, table, dtype, group]

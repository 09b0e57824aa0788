"""``make chaos``: random attacks on runs and files, each of which must end in a sentence or in the undisturbed result.

The attacks are pairs of commands, kills, limits, edits, taken places, hostile words, and changed data and files.
``python -m tests.support.chaos --seed 0 --cases 300`` runs them; ``--only 17`` repeats one.
"""

import argparse
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.support.chaos_data import DATA_CASES
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
from tests.support.forks import Command, finish, start
from tests.support.images import write_images
from tests.support.kills import contents, of_run

AVERAGES: list[tuple[str, ...]] = [
    (),
    ("--trainer.callbacks+=EMAWeightAveraging", "--trainer.callbacks.decay=0.5"),
    (
        "--trainer.callbacks+=StochasticWeightAveraging", "--trainer.callbacks.swa_lrs=0.01",
        "--trainer.callbacks.swa_epoch_start=1",
    ),
]  # fmt: skip
ANEW = ("--model.optimizer.lr=0.01",)


def pair(world: World, rng: random.Random, folder: Path) -> str:
    """Two commands at the same time, on a fresh or on a finished run."""
    began_finished = rng.random() < 0.5
    if began_finished:
        copy_finished(world, folder)
    commands: dict[str, Command] = {
        "fit": world.fit(),
        "resume": world.fit(RESUME),
        "overwrite": world.fit("--overwrite"),
        "resume or overwrite": world.fit(RESUME, "--overwrite"),
        "test": ["test", *world.fit(RESUME)[1:]],
        "compare": ["compare", "runs", "--out", "report"],
        "init": INIT,
        "export": ["export", RUN / "checkpoints/last.ckpt", "--out", "model"],
    }
    names = [rng.choice(["fit", "resume", "overwrite", "resume or overwrite"]), rng.choice(list(commands))]
    folder.mkdir(parents=True, exist_ok=True)
    first = start(commands[names[0]], folder, log="log0")
    time.sleep(rng.random() * world.seconds)
    second = start(commands[names[1]], folder, log="log1")
    codes = ended(first, folder, "log0"), ended(second, folder, "log1")
    check_files(folder)
    assert not list(folder.rglob("*.old")), "an earlier run stays aside"
    finish(world.fit(RESUME), folder)
    found, expected = of_run(folder), world.outcome(folder)
    if "test" in names:  # it may measure the checkpoint of another moment, and write its rows last
        found, expected = (
            (weights, step, [row for row in rows if row[0] != "test"], learngene)
            for weights, step, rows, learngene in (found, expected)
        )
    assert found == expected
    return f"{names[0]} and {names[1]}, {'finished' if began_finished else 'fresh'}: {codes}"


def kill(world: World, rng: random.Random, folder: Path) -> str:
    """A run is killed or interrupted at random moments, once to three times, and resumed."""
    options = rng.choice([*AVERAGES, ANEW])
    replaces = options == ANEW
    if replaces:
        copy_finished(world, folder)
    done = []
    for _ in range(rng.randint(1, 3)):
        process = start(world.fit(RESUME, "--overwrite", *options), folder)
        await_start(process)
        process.join(rng.random() * 1.3 * world.seconds)
        number = rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        if process.exitcode is None:
            send(process, number)
        done.append(f"{number.name}:{ended(process, folder)}")
        check_files(folder)
    finish(world.fit(RESUME, "--overwrite", *options), folder)
    assert of_run(folder) == world.outcome(folder, *options)
    return f"{' '.join(options) or 'plain'}: {' '.join(done)}"


LIMITS = {resource.RLIMIT_FSIZE: "FSIZE", resource.RLIMIT_NOFILE: "NOFILE", resource.RLIMIT_AS: "AS"}


def limit(world: World, rng: random.Random, folder: Path) -> str:
    """A command meets a limit of files, file sizes or memory; without the limit it succeeds."""
    name = rng.choice(["fit", "init", "compare", "overwrite"])
    if name != "fit":
        copy_finished(world, folder)
    commands = {
        "fit": world.fit(RESUME),
        "overwrite": world.fit(RESUME, "--overwrite", *ANEW),
        "init": INIT,
        "compare": ["compare", "runs", "--out", "report"],
    }
    kind = rng.choice(list(LIMITS))
    highest = {resource.RLIMIT_FSIZE: 400_000, resource.RLIMIT_NOFILE: 64}
    value = rng.randint(16, highest[kind]) if kind in highest else rng.randint(6, 10) << 30
    code = ended(start(commands[name], folder, {kind: value}), folder)
    check_files(folder)
    finish(commands[name], folder)
    if name in ("fit", "overwrite"):
        assert of_run(folder) == world.outcome(folder, *(ANEW if name == "overwrite" else ()))
    return f"{name} with {LIMITS[kind]} {value}: {code}"


EDITS = [
    "--model.optimizer.lr=0.3", "--model.optimizer.weight_decay=0.5", "--model.label_smoothing=0.2",
    "--data.augment=crop_flip", "--model.mixup=0.4", "--model.drop_path_rate=0.2", "--trainer.precision=bf16-mixed",
    "--trainer.accumulate_grad_batches=3", "--trainer.gradient_clip_val=0.1", "--data.limit_train=32",
    "--data.batch_size=8", "--trainer.callbacks+=EMAWeightAveraging", "--data.img_size=8", "--model.dropout=0.1",
    "--model.cutmix=0.4", "--data.val_fraction=0.3", "--data.split_seed=3", "--model.label=other",
    "--model.scheduler.warmup_epochs=2", "--trainer.limit_train_batches=2", "--trainer.val_check_interval=0.5",
]  # fmt: skip


def edit(world: World, rng: random.Random, folder: Path) -> str:
    """A finished run is resumed with other options: refused, and nothing changes."""
    copy_finished(world, folder)
    before = contents(folder)
    options = rng.sample(EDITS, rng.randint(1, 3))
    code = ended(start(world.fit(RESUME, *options), folder), folder)
    assert code == 2, f"{options} are accepted"
    assert contents(folder) == before
    return " ".join(options)


def taken(world: World, rng: random.Random, folder: Path) -> str:
    """A command is to write where somebody else's file or folder is: refused, and nothing changes."""
    copy_finished(world, folder)
    (folder / "work").mkdir()
    (folder / "work/thesis.txt").write_text("years")
    (folder / "thesis.safetensors").write_text("years")
    (folder / "notes.csv").write_text("a,b\n1,2\n")
    place = rng.choice(["work", "work/thesis.txt", "thesis.safetensors", "notes.csv", RUN, LEARNGENE, "runs", "."])
    command: Command = rng.choice(
        [
            INIT[:-1],
            ["compare", "runs", "--out"],
            ["export", RUN / "checkpoints/last.ckpt", "--out"],
            ["sample", "ViTs-1K", "--count", "3", "--out"],
            ["embed", "--ancestor", LEARNGENE, "--data", world.images, "--out"],
        ]
    )
    before = contents(folder)
    code = ended(start([*command, place], folder), folder)
    after = contents(folder)
    changed = {name for name in before if after.get(name) != before[name]}
    assert not changed, f"{command[0]} --out {place} changed {changed}"
    return f"{command[0]} --out {place}: {code}"


WORDS = [
    "", " ", ".", "..", "../../evil", "/etc/passwd", "a/b", "a\nb", "a\tb", "x" * 300, "\u202ename", "ü", "u\u0308",
    "$x^$", "=1+1", "'", '"', "`id`", "{seed}", "{", "nan", "inf", "-1", "1e400", "4294967296", "99999999999999999999",
    "null", "true", "[]", "{}", "!!python/object:os.system", "*", "\\", "a,b", "http://x/y",
]  # fmt: skip
PLACES = [
    "--name", "--experiment", "--seed_everything", "--model.optimizer.lr", "--model.arch", "--data.root",
    "--data.batch_size", "--data.num_workers", "--trainer.max_epochs", "--trainer.precision", "--checkpoint.filename",
    "--checkpoint.monitor", "--ckpt_path", "--model.label", "--save_every", "--trainer.devices", "--data.seed",
]  # fmt: skip


def words(world: World, rng: random.Random, folder: Path) -> str:
    """An option has a hostile value: a sentence or a result, and nothing is written outside."""
    inside = folder / "inside"
    inside.mkdir(parents=True)
    place, word = rng.choice(PLACES), rng.choice(WORDS)
    if rng.random() < 0.3:
        copy_finished(world, inside)
        place = rng.choice(["--metric", "--split", "--out", "--methods", "--baseline", "--tasks"])
        command: Command = ["compare", "runs", f"{place}={word}"]
    else:
        command = world.fit("--trainer.max_steps=20", f"{place}={word}")  # also of endless epochs
    code = ended(start(command, inside), inside)
    assert [path.name for path in folder.iterdir()] == ["inside"]
    check_files(inside)
    return f"{command[0]} {place}={word!r}: {code}"


CASES: list[Callable[[World, random.Random, Path], str]] = [pair, kill, limit, edit, taken, words, *DATA_CASES]


def make_world(folder: Path) -> World:
    """Make images, and train the run once."""
    images = write_images(folder / "shapes", {"train": 48, "val": 9, "test": 12})
    world = World(images, folder / "finished", {}, 0.0)
    finish(world.fit(), folder / "warm")
    seconds = finish(world.fit(), world.finished)
    (world.finished / "log").unlink()
    return World(images, world.finished, {(): of_run(world.finished)}, seconds)


def attack(world: World, seed: int, number: int, folder: Path) -> tuple[str, str | None]:
    """Run one case, by seed and number; what was done, and what was found. Without a find its folder is removed."""
    rng = random.Random(f"{seed}-{number}")
    case = CASES[number % len(CASES)]
    try:
        done = case(world, rng, folder)
    except Exception:
        return case.__name__, traceback.format_exc()
    shutil.rmtree(folder)
    return f"{case.__name__}: {done}", None


def main() -> None:
    """Run the cases, and exit with status 1 if one of them found something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--only", type=int)
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="chaos-"))
    world = make_world(place)
    print(f"an undisturbed run takes {world.seconds:.1f} s; files of what is found stay in {place}", flush=True)
    numbers = range(options.cases) if options.only is None else [options.only]
    found, began = 0, time.monotonic()
    for number in numbers:
        done, what = attack(world, options.seed, number, place / f"case{number}")
        print(f"{number:4} {done}" if what is None else f"{number:4} FOUND by {done}\n{what}", flush=True)
        found += what is not None
    print(f"{len(numbers)} cases, {found} found something, {time.monotonic() - began:.0f} s")
    if found:
        sys.exit(1)
    shutil.rmtree(place)


if __name__ == "__main__":
    main()

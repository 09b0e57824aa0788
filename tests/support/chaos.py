"""``make chaos``: random attacks on runs and files, each of which must end in a sentence or in the undisturbed result.

``python -m tests.support.chaos --seed 0 --cases 300`` runs them; ``--only 17`` repeats one.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.support.chaos_cases import CASES, World
from tests.support.images import write_images
from tests.support.kills import finish, of_run


def make_world(folder: Path) -> World:
    """Make images, and train the run once."""
    images = write_images(folder / "shapes", {"train": 48, "val": 9, "test": 12})
    world = World(images, folder / "finished", {}, 0.0)
    finish(world.fit(), folder / "warm")
    seconds = finish(world.fit(), world.finished)
    (world.finished / "log").unlink()
    return World(images, world.finished, {(): of_run(world.finished)}, seconds)


def attack(world: World, seed: int, number: int, folder: Path) -> tuple[str, str | None]:
    """Run one case.

    Args:
        world: What the cases share.
        seed: Seed of all cases.
        number: Number of the case.
        folder: Its folder, which is removed if nothing is found.

    Returns:
        What was done, and what was found; None for nothing.
    """
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

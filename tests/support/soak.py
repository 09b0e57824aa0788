"""``make soak``: an hour of TAL, preempted or killed every few minutes, and the same run without interruptions.

The interrupted run gets SIGTERM and SIGKILL in turn, and resumes each time with ``--ckpt_path last``. Then the same
number of steps is trained without interruptions: all logged losses and the final weights must be equal, bit for bit.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.host.files import atomic_path
from tests.support.paths import EXPERIMENTS

LGX = [sys.executable, "-m", "lgx"]
CONFIG = EXPERIMENTS / "tal/demo/stage2.yaml"
ANCESTOR = CONFIG.with_name("ancestor.yaml")
TASKS = ["pocket_digits", "pocket_motions", "pocket_roses", "pocket_silhouettes"]


def lgx(*args: object) -> None:
    """Run a command line to its end."""
    subprocess.run([*LGX, *map(str, args)], check=True, stdout=subprocess.DEVNULL)


def fit(runs: Path, *options: object) -> list[str]:
    """The command line of the run, without a schedule: the number of steps in an hour is unknown."""
    place = runs.parent
    task_option = f"--model.task_embeddings={place / 'tasks.safetensors'}"
    base = ["fit", "--config", CONFIG, "--runs_dir", runs, "--name", "soak", task_option, "--model.start=null"]
    base += ["--model.scheduler=null", f"--data.root={place / 'data'}", "--save_every=20", "--test_end=false"]
    base += ["--trainer.max_epochs=100000", "--trainer.log_every_n_steps=1", "--trainer.enable_progress_bar=false"]
    return [*LGX, *map(str, [*base, "--ckpt_path=last", *options])]


def resident(process: "subprocess.Popen[bytes]") -> float:
    """Memory of a process in MiB."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def live(command: list[str], seconds: float, end: signal.Signals | None, samples: list[tuple[float, float]]) -> int:
    """Let a process run, record its memory every second, and end it; ``None`` waits until it ends."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    began = time.monotonic()
    while process.poll() is None and (end is None or time.monotonic() - began < seconds):
        samples.append((time.monotonic() - began, resident(process)))
        time.sleep(1)
    if process.poll() is None and end is not None:
        process.send_signal(end)
    return process.wait()


def losses(run: Path) -> dict[int, set[float]]:
    """Every value of train/loss that was logged at a step."""
    found: dict[int, set[float]] = {}
    for file in sorted(run.glob("events.out.tfevents.*")):
        events = EventAccumulator(str(file), size_guidance={"scalars": 0})
        events.Reload()
        if "train/loss" in events.Tags()["scalars"]:
            for event in events.Scalars("train/loss"):
                found.setdefault(event.step, set()).add(event.value)
    return found


def growth(samples: list[tuple[float, float]]) -> float:
    """Growth in MiB from the middle, after the first validation and checkpoint, to the end: medians of tenths."""
    memory = [mib for _, mib in samples]
    middle, tenth = len(memory) // 2, max(1, len(memory) // 10)
    return median(memory[-tenth:]) - median(memory[middle : middle + tenth]) if memory else 0.0


def main() -> None:
    """Train with interruptions, repeat without, and compare; exit with 1 if they differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=4, help="minutes between preemptions, on average")
    parser.add_argument("--folder", type=Path, default=Path("runs/soak"))
    options = parser.parse_args()
    folder, rng = options.folder, random.Random(0)
    lgx("data", "prepare", "pocket", "--root", folder / "data")
    ancestor = folder / "ancestor.learngene.safetensors"
    if not ancestor.exists():
        lgx("fit", "--config", ANCESTOR, "--runs_dir", folder / "first", "--name=a", f"--data.root={folder / 'data'}",
            "--trainer.max_epochs=1", "--ckpt_path=last")  # fmt: skip
        (found,) = (folder / "first").rglob("best.learngene.safetensors")
        found.rename(ancestor)
    lgx("embed", "--ancestor", ancestor, "--root", folder / "data", "--data", ",".join(TASKS), "--out",
        folder / "tasks.safetensors")  # fmt: skip

    ends, longest = {"SIGTERM": 0, "SIGKILL": 0}, []
    began = time.monotonic()
    while (left := options.minutes * 60 - (time.monotonic() - began)) > 0:
        life = rng.uniform(0.5, 1.5) * options.every * 60
        last = life >= left
        end = signal.SIGTERM if last or sum(ends.values()) % 2 == 0 else signal.SIGKILL
        samples: list[tuple[float, float]] = []
        code = live(fit(folder / "interrupted"), min(life, left), end, samples)
        # -15: the signal came before training had begun.
        assert code in (143, -9, -15), f"the run ended by itself with {code}"
        ends[end.name] += 1
        longest = max(longest, samples, key=len)
    (interrupted,) = (path.parent for path in (folder / "interrupted").rglob("checkpoints"))
    state = load_checkpoint(interrupted / "checkpoints/last.ckpt")
    steps = state["global_step"]

    samples = []
    assert live(fit(folder / "uninterrupted", f"--trainer.max_steps={steps}"), 0, None, samples) == 0
    (whole,) = (path.parent for path in (folder / "uninterrupted").rglob("checkpoints"))
    expected = load_checkpoint(whole / "checkpoints/last.ckpt")
    one, other = losses(whole), losses(interrupted)
    report = {
        "minutes": options.minutes,
        "ends": ends,
        "steps": steps,
        "losses_compared": len(one.keys() & other.keys()),
        "losses_that_differ": sum(one[step] != other[step] for step in one.keys() & other.keys()),
        "weights_that_differ": sum(
            not torch.equal(tensor, state["state_dict"][name]) for name, tensor in expected["state_dict"].items()
        ),
        "memory_growth_mib": {"interrupted": round(growth(longest), 1), "uninterrupted": round(growth(samples), 1)},
    }
    print(json.dumps(report, indent=1))
    with atomic_path(folder / "soak.json") as temporary:
        temporary.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(int(bool(report["losses_that_differ"] or report["weights_that_differ"])))


if __name__ == "__main__":
    main()

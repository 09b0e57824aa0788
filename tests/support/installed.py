"""Use an installed lgx outside the repository: ``ENVIRONMENT/bin/python tests/support/installed.py``.

It runs with an environment that has lgx and its dependencies only, and imports nothing of the tests.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ARCH = "depth=1,embed_dim=8,num_heads=2,patch_size=8,img_size=16"
FIT = tuple(
    f"fit --model Ancestor --model.arch={ARCH} --model.optimizer=AdamW --model.optimizer.lr=0.001 "
    "--data ImageFolderData --data.root=images --data.img_size=16 --data.batch_size=4 --trainer.max_epochs=1 "
    "--experiment=installed --name=tiny".split()
)
LEARNGENE = "runs/installed/tiny/seed0/best.learngene.safetensors"
DEEPER = ARCH.replace("depth=1", "depth=2")
COMMANDS: dict[tuple[str, ...], str] = {
    ("--help",): "lgx COMMAND",
    ("data", "list"): "cifar100",
    ("doctor",): "no problem found",
    FIT: "",
    ("init", "--source", LEARNGENE, "--method=pretrained", "--arch", ARCH, "--num_classes=2", "--out=start"): "start",
    ("arch", DEEPER): "depth=2",
}
"""Command lines, and what each prints."""


def run(*words: str, cwd: Path) -> str:
    """Run lgx in a folder and give what it printed; anything but a success ends this program."""
    done = subprocess.run(
        [sys.executable, "-m", "lgx", *words], cwd=cwd, capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode:
        sys.exit(f"lgx {' '.join(words)}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def use(folder: Path) -> None:
    """Run each of the commands in an empty folder, and check what they leave."""
    from PIL import Image

    where = subprocess.run(
        [sys.executable, "-c", "import data_modules, lgx; print(lgx.__file__, data_modules.__file__, sep='\\n')"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    inside = [path for path in where.stdout.split() if Path(path).is_relative_to(ROOT) and ".venv" not in path]
    if inside:
        sys.exit(f"{inside[0]} is the repository's file, not that of an installation")
    for split, count in (("train", 8), ("test", 4)):
        for index in range(count):
            path = folder / "images" / split / ("red", "blue")[index % 2] / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (20, 20), ("red", "blue")[index % 2]).save(path)
    for words, expected in COMMANDS.items():
        out = run(*words, cwd=folder)
        if expected not in out:
            sys.exit(f"lgx {' '.join(words)} printed no {expected!r}:\n{out}")
        print(f"lgx {' '.join(words)[:100]}", flush=True)
    missing = [name for name in (LEARNGENE, "start/model.safetensors") if not (folder / name).is_file()]
    if missing:
        sys.exit(f"{missing[0]} was not written")


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as place:
        use(Path(place))

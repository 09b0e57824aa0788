"""Command lines of runs to plan."""

import json
from pathlib import Path

from lgx.architectures import parse_architecture
from lgx.planning import Plan, make_plan
from lgx.planning.configured import configure
from lgx.planning.plan import Steps, count_steps

WIDE = "depth=6,embed_dim=96,num_heads=3,patch_size=4,img_size=32"
LARGE = ["--data.img_size=32", f"--model.arch={WIDE}"]
HYPER = [
    "--model.width=32", "--model.layers=2", "--model.heads=4", '--model.panel=["depth=2,embed_dim=16,num_heads=2"]',
    "--model.max_shape=[512,512,16,16]",
]  # fmt: skip
LOW_RANK = [*HYPER, "--model.rank=16", "--model.max_size=4096"]
OFFLINE = ["--data=CIFAR10", "--data.root=nowhere", "--data.batch_size=64", "--data.img_size=32"]
VIT = f"--model.arch={WIDE.replace('depth=6', 'depth=2')}"
BASE = ["--model=Finetune", VIT, "--model.optimizer=torch.optim.AdamW", *OFFLINE]


def plan(*options: object) -> Plan:
    """Plan in this process; mistakes raise exceptions."""
    return make_plan([str(option) for option in options])


def steps_of(*options: object) -> Steps:
    """Only count the steps of a run on one process."""
    run = configure([str(option) for option in options])
    return count_steps(run.method, run.data, run.trainer, run.options, processes=1)[0]


def one_of(tmp_path: Path, arch: str) -> str:
    """A set of one architecture."""
    file = tmp_path / "one.jsonl"
    values = {k: v for k, v in parse_architecture(arch).to_dict().items() if k in ("depth", "embed_dim", "num_heads")}
    file.write_text(json.dumps(values | {"patch_size": 4}) + "\n")
    return f"--model.set={file}"


def run_folder(runs: Path, name: str) -> Path:
    return runs / "test" / name / "seed0"

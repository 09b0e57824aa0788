"""Record what every method computes through the command line, and compare two records bit by bit.

    PYTHONPATH=OLD python tests/parity.py record old
    PYTHONPATH=NEW python tests/parity.py record new
    python tests/parity.py compare old new

A record is ``OUT/record.json``: the training scalars of 20 steps of each method as hexadecimal floats, the SHA-256 of
each tensor of its learngene file, of each start that ``lgx init`` writes, of each task embedding, and all measured
values. Runs lie in ``OUT/work``. The script imports neither lgx nor data_modules: the same script records any version.
"""

import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from parity_data import write_images, write_masks, write_texts
from safetensors import safe_open
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

RUNS = "runs/parity"
LEARNGENE = f"{RUNS}/{{}}/seed0/best.learngene.safetensors"
CHECKPOINT = f"{RUNS}/{{}}/seed0/checkpoints/best.ckpt"
ANCESTOR, TEXT_ANCESTOR = LEARNGENE.format("ancestor"), LEARNGENE.format("text_ancestor")
TASKS, UNSEEN, TEXT_TASKS = "tasks.safetensors", "unseen.safetensors", "text_tasks.safetensors"
SEARCHED = "lsamd.learngene.safetensors"
SIZE = "embed_dim=16,num_heads=2,patch_size=4,img_size=16"
ARCH, DEEP, SHALLOW = (f"depth={depth},{SIZE}" for depth in (4, 7, 3))
TEXT = "gpt2:depth={},embed_dim=24,num_heads=3,max_len=40,vocab_size=260"
FIT = [
    "--model.optimizer=torch.optim.AdamW", "--model.optimizer.lr=0.003",
    "--model.scheduler=lgx.components.optim.WarmupCosine",
    "--runs_dir=runs", "--experiment=parity", "--seed_everything=0",
    "--trainer.accelerator=cpu", "--trainer.devices=1", "--trainer.max_steps=20", "--trainer.log_every_n_steps=1",
    "--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false", "--test_end=true",
]  # fmt: skip
SHAPES = ["--data=ImageFolderData", "--data.root=shapes", "--data.img_size=16", "--data.batch_size=8"]
SEVERAL = [
    "--data=MultiTask", "--data.tasks=[shapes,colours]", "--data.img_size=16", "--data.batch_size=8",
    "--data.steps_per_epoch=5",
]  # fmt: skip
SHORT_TEXTS = ["--data.root=texts", "--data.batch_size=4", "--data.max_len=40", "--data.vocab_size=260"]
ONE_TEXT = ["--data=CoLA", *SHORT_TEXTS]
TEXTS = ["--data=MultiText", "--data.tasks=[cola,rte]", "--data.steps_per_epoch=5", *SHORT_TEXTS]
MASKS = ["--data=VOC12", "--data.root=masks", "--data.img_size=16", "--data.batch_size=4", "--data.augment=crop_flip"]
HYPER = [
    "--model.width=16", "--model.layers=1", "--model.heads=2", "--model.max_shape=[32,32,4,4]", "--model.set_size=5",
    '--model.panel=["depth=2,embed_dim=16,num_heads=2","depth=3,embed_dim=24,num_heads=3"]', "--model.meta_batch=2",
]  # fmt: skip
LOW_RANK = [*HYPER, "--model.rank=4", "--model.max_size=1024"]
TEXT_HYPER = [*LOW_RANK, "--model.set=GPTs-1K", '--model.panel=["gpt2:depth=2,embed_dim=16,num_heads=2"]']
TAUGHT = [f"--model.ancestor={ANCESTOR}"]
STAGES = ["--model.stages=[2,2]"]
PROCESSES = ["--trainer.devices=2", "--trainer.strategy=ddp", "--data.batch_size=4"]
SEARCH = [*TAUGHT, "--model.threshold=1", "--model.learning_rates={colours: 0.02}"]
TUNED = [*LOW_RANK, "--model.layout=aligned", "--model.task_embeddings", TASKS]


def started(initializer: str, **options: object) -> list[str]:
    """Options of Finetune for one initializer; the model is the first, which others need."""
    given = [f"--model.initializer.{option}={value}" for option, value in options.items()]
    return ["--model=Finetune", f"--model.initializer={initializer}", *given, f"--model.arch={ARCH}", *SHAPES]


def learner(method: str, *options: str, data: list[str] = SHAPES, arch: str = ARCH) -> list[str]:
    """Options of one run of a method; the model is the first."""
    return [f"--model={method}", f"--model.arch={arch}", *data, *options]


# Runs of one stage read only files of the stages before.
STAGES_OF_RUNS: list[dict[str, list[str]]] = [
    {
        "ancestor": learner("Ancestor", "--model.label_smoothing=0.1", "--model.drop_path_rate=0.1"),
        "text_ancestor": learner("Ancestor", "--model.dropout=0.1", data=ONE_TEXT, arch=TEXT.format(2)),
    },
    {
        "sws": learner("SWS", *TAUGHT, *STAGES),
        "sws_mixed": learner("SWS", *TAUGHT, *STAGES, "--model.mixup=0.8", "--data.augment=randaugment"),
        "sws_ddp": learner("SWS", *TAUGHT, *STAGES, *PROCESSES),
        "tleg": learner("TLEG", *TAUGHT, "--model.temperature=2", "--model.alpha=0.7"),
        "mini_deit": learner("MiniDeiT", *TAUGHT, *STAGES),
        "wave": learner("WAVE", *TAUGHT, "--model.size=8"),
        "simple_lg": learner("Distill", *TAUGHT, arch=f"depth=2,{SIZE}"),
        "lsamd": learner("LSAMD", *SEARCH, data=SEVERAL),
        "lsamd_image": learner("LSAMD", *SEARCH, "--model.routing=image", data=SEVERAL),
        "lsamd_ddp": learner("LSAMD", *SEARCH, *PROCESSES, data=SEVERAL),
        "ghn3": learner("GHN3", *HYPER),
        "logah": learner("LoGAH", *LOW_RANK),
        "logah_ddp": learner("LoGAH", *LOW_RANK, *PROCESSES),
        "tal_features": learner("TAL", *LOW_RANK, "--model.layout=aligned", "--model.guidance=features", *TAUGHT),
        "tal_logits": learner("TAL", *LOW_RANK, "--model.guidance=logits", "--model.label=tal_plus", *TAUGHT),
        "segmentation": learner("Ancestor", data=MASKS),
        "text_finetune": learner(
            "Finetune", "--model.initializer=Pretrained", f"--model.initializer.source={TEXT_ANCESTOR}",
            "--model.head=new", "--model.dropout=0.1", data=ONE_TEXT, arch=TEXT.format(2),
        ),
        "text_logah": learner("LoGAH", *TEXT_HYPER, data=ONE_TEXT, arch=TEXT.format(2)),
    },
    {
        "tal": learner("TAL", *TUNED, f"--model.start={LEARNGENE.format('tal_features')}", data=SEVERAL),
        "text_tal": learner(
            "TAL", *TEXT_HYPER, f"--model.task_embeddings={TEXT_TASKS}", data=TEXTS, arch=TEXT.format(2)
        ),
        "random": started("RandomStart"),
        "random_again": [*started("RandomStart"), "--seed_everything=1"],
        "pretrained": started("Pretrained", source=ANCESTOR),
        "vanilla_lg": started("VanillaLG", source=ANCESTOR, layers=2),
        "weight_selection": started("WeightSelection", source=ANCESTOR),
        "from_sws": started("StagewiseExpansion", source=LEARNGENE.format("sws")),
        "from_tleg": started("LinearExpansion", source=LEARNGENE.format("tleg")),
        "from_lsamd": started("SelectedExpansion", source=SEARCHED),
    },
    {
        "from_tal": started("HypernetPrediction", source=LEARNGENE.format("tal"), noise=0.01),
        "from_sws_again": [
            *started("StagewiseExpansion", source=LEARNGENE.format("sws")), "--seed_everything=1",
        ],
    },
]  # fmt: skip
# Other commands that write files which later stages read, by the stage that they follow.
COMMANDS: dict[int, list[list[str]]] = {
    0: [
        ["embed", f"--ancestor={ANCESTOR}", "--data=shapes,colours", f"--out={TASKS}", "--accelerator=cpu"],
        ["embed", f"--ancestor={ANCESTOR}", "--data=unseen", f"--out={UNSEEN}", "--accelerator=cpu"],
        ["embed", f"--ancestor={TEXT_ANCESTOR}", "--data=cola,rte", "--root=texts", "--max_len=40",
         f"--out={TEXT_TASKS}", "--accelerator=cpu"],
    ],
    1: [["extract", f"{RUNS}/lsamd/seed0", "--threshold=1", f"--out={SEARCHED}"]],
}  # fmt: skip
INITS: dict[str, list[str]] = {
    "random": ["--num_classes=3", f"--arch={ARCH}", "--seed=3"],
    "pretrained": [f"--source={ANCESTOR}", "--method=pretrained", f"--arch={ARCH}"],
    "resampled": [f"--source={ANCESTOR}", f"--arch={ARCH.replace('img_size=16', 'img_size=24')}", "--head=5"],
    "vanilla_lg": [f"--source={ANCESTOR}", "--method=vanilla_lg", f"--arch={DEEP}", "--layers=2"],
    "weight_selection": [f"--source={ANCESTOR}", "--method=weight_selection", f"--arch={SHALLOW}", "--head=3"],
    **{name: [f"--source={LEARNGENE.format(name)}", f"--arch={DEEP}"]
       for name in ("sws", "simple_lg", "mini_deit", "tleg", "ghn3", "logah")},
    "sws_order2": [f"--source={LEARNGENE.format('sws')}", f"--arch={DEEP}", "--order=front_last_mid"],
    "sws_assigned": [f"--source={LEARNGENE.format('sws')}", f"--arch={DEEP}", "--strategy=random_assigned"],
    "lsamd": [f"--source={SEARCHED}", f"--arch={DEEP}", "--head=3"],
    "lsamd_cyclic": [f"--source={SEARCHED}", f"--arch={DEEP}", "--head=3", "--priority=first", "--repeat=cyclic"],
    "tal": [f"--source={LEARNGENE.format('tal')}", f"--arch={SHALLOW}", "--task=colours"],
    "tal_unseen": [f"--source={LEARNGENE.format('tal')}", f"--arch={SHALLOW}", "--task=unseen",
                   f"--task_embeddings={UNSEEN}", "--noise=0.1"],
    "text_pretrained": [f"--source={TEXT_ANCESTOR}", f"--arch={TEXT.format(2)}"],
    "text_tal": [f"--source={LEARNGENE.format('text_tal')}", f"--arch={TEXT.format(3)}", "--task=cola"],
}  # fmt: skip
EXPORT = ["export", CHECKPOINT.format("from_sws"), "--out=starts/exported"]
COMPARED = ["random", "random_again", "from_sws", "from_sws_again", "pretrained", "from_tleg", "from_tal", "ghn3"]
COMPARE = ["compare", *(f"{RUNS}/{name}" for name in COMPARED), "--out=compared", "--baseline=random"]


COLUMNS = {"run", "commit", "config", "hardware"}
"""Columns of results that name a place, a version or a machine."""
KEYS = {"ancestor", "lgx_version"}
"""Keys of a learngene's description that do."""

RENAMED_KEYS = {"search": "selection"}
"""Keys of a learngene's description that had another name before."""


def call(work: Path, *arguments: str, name: str) -> str:
    """Run one command line in a process of its own, and return what it printed.

    Raises:
        SystemExit: If it fails.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200"}
    command = [sys.executable, "-m", "lgx", *arguments]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
    (work / "logs").mkdir(exist_ok=True)
    (work / f"logs/{name}.txt").write_text(done.stdout + done.stderr)
    if done.returncode:
        raise SystemExit(f"{name} failed: {' '.join(arguments)}\n{done.stderr[-2000:]}")
    print(f"done {name}", flush=True)
    return done.stdout


def tensors_of(path: Path) -> dict[str, Any]:
    """The SHA-256 of each tensor of a safetensors file, and its description."""
    with safe_open(path, framework="np") as file:
        found = {name: file.get_tensor(name) for name in sorted(file.keys())}
        about = json.loads((file.metadata() or {}).get("lgx", "{}"))
        about = {RENAMED_KEYS.get(key, key): value for key, value in about.items()}
    digests = {
        name: f"{tensor.dtype} {tensor.shape} {hashlib.sha256(tensor.tobytes()).hexdigest()}"
        for name, tensor in found.items()
    }
    return {"tensors": digests, "about": about}


def rows_of(path: Path) -> list[dict[str, str]]:
    """Rows of a results file in a fixed order."""
    with path.open() as file:
        rows = [{k: v for k, v in row.items() if k not in COLUMNS} for row in csv.DictReader(file)]
    return sorted(rows, key=lambda row: sorted(row.items()))


def run_record(folder: Path) -> dict[str, Any]:
    """Training scalars, measured values, and learngene of a run."""
    events = EventAccumulator(str(next(folder.rglob("events.out.tfevents.*")).parent), size_guidance={"scalars": 0})
    events.Reload()
    scalars = {
        tag: [[event.step, float(event.value).hex()] for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
        if tag.startswith("train/")
    }
    assert len(scalars["train/loss"]) == 20, f"{folder}: {len(scalars['train/loss'])} steps instead of 20"
    learngenes = {path.name: tensors_of(path) for path in sorted(folder.glob("*.learngene.safetensors"))}
    return {"scalars": scalars, "results": rows_of(folder / "results.csv"), "learngenes": learngenes}


def record(out: Path) -> None:
    """Run everything and write ``out/record.json``."""
    work = out / "work"
    shutil.rmtree(work, ignore_errors=True)
    for seed, (name, train) in enumerate({"shapes": 40, "colours": 24, "unseen": 12}.items()):
        write_images(work / name, {"train": train, "val": 9, "test": 12}, seed)
    write_masks(work / "masks/voc12/VOCdevkit/VOC2012")
    write_texts(work / "texts")
    with ThreadPoolExecutor(2) as pool:
        for number, runs in enumerate(STAGES_OF_RUNS):
            lines = {name: ["fit", model, *FIT, f"--name={name}", *rest] for name, (model, *rest) in runs.items()}
            jobs = [pool.submit(call, work, *line, name=name) for name, line in lines.items()]
            [job.result() for job in jobs]
            commands = enumerate(COMMANDS.get(number, []))
            jobs = [pool.submit(call, work, *line, name=f"{line[0]}{number}{i}") for i, line in commands]
            [job.result() for job in jobs]
        starts = {name: ["init", f"--out=starts/{name}", *options] for name, options in INITS.items()}
        starts["exported"] = EXPORT
        [job.result() for job in [pool.submit(call, work, *o, name=f"init_{n}") for n, o in starts.items()]]
    call(work, *COMPARE, name="compare")
    where = subprocess.run([sys.executable, "-c", "import lgx; print(lgx.__file__)"], cwd=work, capture_output=True)
    found = {
        "lgx": where.stdout.decode().strip(),
        "runs": {n: run_record(next((work / RUNS / n).glob("seed*"))) for runs in STAGES_OF_RUNS for n in runs},
        "starts": {n: tensors_of(work / f"starts/{n}/model.safetensors") for n in starts},
        "files": {n: tensors_of(work / n) for n in (TASKS, UNSEEN, TEXT_TASKS, SEARCHED)},
        "table": [line for line in (work / "compared/results.md").read_text().splitlines() if line.startswith("|")],
        "compared": rows_of(work / "compared/results.csv"),
    }
    (out / "record.json").write_text(json.dumps(found, indent=1))
    print(f"recorded {found['lgx']} in {out / 'record.json'}")


def differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """What differs between two records; descriptions (``about``) may have more in the second."""
    if isinstance(one, dict) and isinstance(other, dict):
        described = "/about" in path
        for key in sorted(one.keys() - KEYS if described else one.keys() | other.keys()):
            where = f"{path}/{key}"
            if key in one and key in other:
                yield from differences(one[key], other[key], where)
            else:
                yield f"{where}: only in the {'first' if key in one else 'second'} record"
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (first, second) in enumerate(zip(one, other, strict=True)):
            yield from differences(first, second, f"{path}[{number}]")
    elif one != other:
        yield f"{path}: {str(one)[:120]} != {str(other)[:120]}"


def main() -> None:
    """``record OUT`` or ``compare A B``."""
    match sys.argv[1:]:
        case ["record", out]:
            record(Path(out).resolve())
        case ["compare", one, other]:
            first, second = (json.loads((Path(p) / "record.json").read_text()) for p in (one, other))
            print(f"first  {first.pop('lgx')}\nsecond {second.pop('lgx')}")
            found = list(differences(first, second))
            print("\n".join(found) or "equal")
            raise SystemExit(1 if found else 0)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()

"""Every method on two real processes, one pair for all, with tasks and architectures that change at every step."""

import json
import re
from functools import cache

import pytest
import torch

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.core.rows import read_rows
from lgx.methods.lsamd.selection import SelectionRun
from tests.support.command_line import arguments, lgx, ok
from tests.support.fake_text import SIZE, write_sets, write_vocabulary
from tests.support.images import write_images
from tests.support.ranks import on_two_processes

HYPER = [
    "--model.width=16", "--model.layers=1", "--model.heads=2", "--model.max_shape=[32,32,4,4]", "--model.set_size=5",
    '--model.panel=["depth=2,embed_dim=16,num_heads=2"]', "--model.meta_batch=2",
]  # fmt: skip
LOW_RANK = [*HYPER, "--model.rank=4", "--model.max_size=1024"]
STAGES = ["--model.stages=[2,2]"]
TEXT = f"hf:depth=2,embed_dim=24,num_heads=3,max_len=40,vocab_size={SIZE}"
LEARNGENE = "{ancestor}/final.learngene.safetensors"
ANCESTOR = f"--model.ancestor={LEARNGENE}"
SEVERAL = ["--data=MultiTask", "--data.tasks=[{first},{second}]", "--data.steps_per_epoch=4"]
TEXTS = [f"--model.arch={TEXT}", "--data.root={texts}", "--data.max_len=40", f"--data.vocab_size={SIZE}"]
TEXT_HYPER = ["--model.set=GPTs-1K", '--model.panel=["hf:depth=2,embed_dim=16,num_heads=2"]']
ONE_TEXT = ["--data=CoLA", *TEXTS]
TWO_TEXTS = ["--data=MultiText", "--data.tasks=[cola,mrpc]", "--data.steps_per_epoch=4", *TEXTS]
PLAIN_TEXT = [
    "--data=TextFiles", "--data.root={texts}/plain.txt", "--data.tokenizer={texts}/gpt2_vocab", "--data.max_len=8",
    f"--model.arch=hf:depth=2,embed_dim=24,num_heads=3,max_len=8,vocab_size={SIZE},type=llama",
]  # fmt: skip
PRETRAINED = ["--model.initializer=Pretrained", f"--model.initializer.source={LEARNGENE}"]
ACCUMULATE = "--trainer.accumulate_grad_batches=2"
EPSILON = "--model.optimizer.eps=1e-4"

RUNS = {
    "ancestor": ["Ancestor", ACCUMULATE],
    "finetune": ["Finetune", *PRETRAINED],
    "finetune_sharded": ["Finetune", *PRETRAINED, "--trainer.strategy=sharded"],
    "distill": ["Distill", ANCESTOR, ACCUMULATE],
    "sws": ["SWS", *STAGES, ANCESTOR, ACCUMULATE],
    "family": ["Family", ANCESTOR, '--model.sizes=["depth=2","depth=1,embed_dim=8"]', ACCUMULATE],
    "backbones": ["Backbones", ANCESTOR, '--model.sizes=["depth=2"]', "--data.labels=false", ACCUMULATE],
    "nested": ["Nested", "--model.least_depth=1", ANCESTOR, "--data.labels=false", ACCUMULATE],
    "tleg": ["TLEG", ACCUMULATE],
    "wave": ["WAVE", "--model.size=8", ACCUMULATE],
    "learngene_pool": ["LearngenePool", ANCESTOR, ACCUMULATE],
    "lets": ["LeTs", "--model.narrow_heads=1", "--model.narrow_depth=2", ACCUMULATE],
    "mini_deit": ["MiniDeiT", *STAGES, ACCUMULATE],
    "lsamd": ["LSAMD", ANCESTOR, *SEVERAL],
    "ghn3": ["GHN3", *HYPER, ACCUMULATE],
    "logah": ["LoGAH", *LOW_RANK],
    "tal_guided": ["TAL", *LOW_RANK, ANCESTOR, ACCUMULATE],
    "tal": ["TAL", *LOW_RANK, *SEVERAL, "--model.task_embeddings={tasks}"],
    "text_finetune": ["Finetune", *ONE_TEXT],
    "text_finetune_sharded": ["Finetune", *ONE_TEXT, "--trainer.strategy=sharded"],
    "text_ghn3": ["GHN3", *HYPER, *ONE_TEXT, *TEXT_HYPER],
    "text_logah_aligned": ["LoGAH", *LOW_RANK, *ONE_TEXT, *TEXT_HYPER, "--model.layout=aligned", ACCUMULATE],
    "text_llama": ["Ancestor", *PLAIN_TEXT, ACCUMULATE],
    "text_tal": ["TAL", *LOW_RANK, *TWO_TEXTS, *TEXT_HYPER, ACCUMULATE],
}


FAST = ("finetune", "finetune_sharded", "sws", "lsamd", "tal")
"""Runs of the fast tests; ``pytest -m slow`` has the others."""


@pytest.fixture(scope="module")
def finished(images, ancestor, tmp_path_factory):
    """Give a run's folder and how it ended on both processes; the fast or the slow runs are trained together."""

    @cache
    def train(is_fast):
        folder = tmp_path_factory.mktemp("ranks")
        sizes = {"first": 48, "second": 24}
        places = {name: write_images(folder / name, {"train": n, "val": 9, "test": 9}) for name, n in sizes.items()}
        texts, tasks = write_sets(folder / "texts"), folder / "tasks.safetensors"
        write_vocabulary(texts / "gpt2_vocab")
        (texts / "plain.txt").write_text("\n\n".join(f"the {number}th text" for number in range(60)))
        learngene = ancestor / "final.learngene.safetensors"
        ok(lgx("embed", "--ancestor", learngene, "--data", ",".join(map(str, places.values())), "--out", tasks))
        fill = {**places, "ancestor": ancestor, "texts": texts, "tasks": tasks}
        commands = {name: command(name, fill, images, folder) for name in RUNS if (name in FAST) == is_fast}
        return folder, on_two_processes(commands, folder)

    def of(name):
        folder, ends = train(name in FAST)
        return folder, [end[name] for end in ends]

    return of


def command(name, fill, images, folder):
    """The command line of a run on two processes."""
    method, *options = RUNS[name]
    own = [option.format(**fill) if option.count("{") == option.count("}") > 0 else option for option in options]
    args = arguments("fit", method, images, folder / "runs", f"--name={name}")
    if any(option.startswith("--data=") for option in own):
        args = [a for a in args if not a.startswith("--data")]
    if "--data=MultiTask" in own:
        own += ["--data.img_size=16"]
    own += ["--trainer.devices=2", "--data.batch_size=8", EPSILON]
    if "sharded" not in name:
        own += ["--trainer.strategy=ddp", "--trainer.callbacks+=tests.support.probes.RecordRank"]
        own += [f"--trainer.callbacks.folder={folder / 'record' / name}"]  # what each process ends with
    return [*args, *own]


def marked(names):
    """Names of runs, those outside of the fast ones marked as slow."""
    return [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", marked(name for name in RUNS if "sharded" not in name))
def test_ranks_end_bit_equal_and_count_every_sample_once(finished, name):
    folder, ends = finished(name)
    assert ends == ["", ""]
    first, second = (torch.load(folder / "record" / name / f"rank{rank}.pt") for rank in range(2))
    assert first
    for key, tensor in first.items():
        assert torch.equal(tensor, second[key]), key
    seen = [json.loads((folder / "record" / name / f"rank{rank}.json").read_text()) for rank in range(2)]
    assert seen[0]["seen"] != seen[1]["seen"]
    assert {k: v for k, v in seen[0].items() if k != "seen"} == {k: v for k, v in seen[1].items() if k != "seen"}
    counted = {row.n for row in read_rows(folder / "runs/test" / name / "seed0/results.csv") if row.split == "val"}
    assert counted == ({9} if "text" not in name else counted)


@pytest.mark.parametrize("name", marked(["finetune", "text_finetune"]))
def test_sharded_processes_train_the_same_as_whole_copies(finished, name):
    folder, ends = finished(f"{name}_sharded")
    assert ends == ["", ""]
    whole, shared = (
        load_checkpoint(folder / "runs/test" / run / "seed0/checkpoints/last.ckpt") for run in (name, f"{name}_sharded")
    )
    assert whole["state_dict"].keys() == shared["state_dict"].keys()
    for key, tensor in whole["state_dict"].items():
        torch.testing.assert_close(shared["state_dict"][key], tensor, rtol=0, atol=1e-5)
    assert {"train split", "data.batch_size x processes"} <= whole["lgx_run"]["data"].keys()
    assert whole["lgx_run"]["data"] == shared["lgx_run"]["data"]


def test_only_the_first_process_prints_and_a_selection_counts_every_image_once(finished):
    folder, _ = finished("finetune")
    first, second = ((folder / f"rank{rank}.log").read_text() for rank in range(2))
    assert [line for line in second.splitlines() if not line.startswith("[Gloo]")] == []  # torch before 2.12
    for name in FAST:
        assert first.count(f"run        {folder}/runs/test/{name}/seed0\n") == 1
    assert len(re.findall(r"^epoch +1/1  train loss .*  val accuracy .* after .*$", first, re.MULTILINE)) == len(FAST)
    assert first.count(" = 8 x 2 process(es) x ") == len(FAST)
    shares = SelectionRun.load(finished("lsamd")[0] / "runs/test/lsamd/seed0").selection.base_share
    assert len(shares) == 2
    assert all(round(9 * share, 4) == round(9 * share) for row in shares.values() for share in row)

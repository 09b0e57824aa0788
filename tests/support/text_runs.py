"""Short runs of tiny GPT-2s on tiny text sets, through the command line."""

import csv
from pathlib import Path

from tests.support.command_line import Result, lgx
from tests.support.fake_text import SIZE

ARCH = f"gpt2:depth=2,embed_dim=24,num_heads=3,max_len=40,vocab_size={SIZE}"
PANEL = '["gpt2:depth=2,embed_dim=16,num_heads=2","gpt2:depth=4,embed_dim=24,num_heads=3"]'
HYPER = [
    "--model.set=GPTs-1K", "--model.set_size=6", f"--model.panel={PANEL}", "--model.width=16", "--model.layers=1",
    "--model.heads=2", "--model.max_shape=[64,64,4,4]", "--model.rank=4", "--model.max_size=1024",
]  # fmt: skip


def words(root: Path, runs: Path, model: str, *options: object, data: str = "CoLA", arch: str = ARCH) -> list[object]:
    """The command line of a short run."""
    return [
        "fit", "--model", model, f"--model.arch={arch}", "--model.optimizer=torch.optim.AdamW",
        "--model.optimizer.lr=0.003", f"--data={data}", f"--data.root={root}", "--data.batch_size=4",
        "--data.max_len=40", f"--data.vocab_size={SIZE}", f"--runs_dir={runs}", "--experiment=test",
        "--trainer.accelerator=cpu", "--trainer.devices=1", "--trainer.max_epochs=1",
        "--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false", *options,
    ]  # fmt: skip


def run(*args, **kwargs) -> Result:
    """One short run."""
    return lgx(*words(*args, **kwargs))


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open() as file:
        return list(csv.DictReader(file))

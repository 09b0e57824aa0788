"""Two processes that run command lines one after another, in the environment that a launcher sets."""

import json
import os
import traceback
from pathlib import Path

import torch.distributed
from lightning.pytorch.utilities import rank_zero_only

from lgx.cli import main
from tests.support.command_line import free_port
from tests.support.forks import Command, fork

_WORLD = 2


def on_two_processes(commands: dict[str, Command], folder: Path, seconds: int = 170) -> list[dict[str, str]]:
    """Run command lines by their names on a pair of processes; of each process name -> error, empty without one."""
    jobs = {name: ([str(a) for a in args], free_port()) for name, args in commands.items()}
    pair = [fork(_work, (rank, jobs), folder, log=f"rank{rank}.log") for rank in range(_WORLD)]
    for process in pair:
        process.join(seconds)
    return [json.loads((folder / f"ends{rank}.json").read_text()) for rank in range(_WORLD)]


def _work(rank: int, jobs: dict[str, tuple[list[str], int]]) -> None:
    rank_zero_only.rank = rank  # Lightning reads it from the environment when it is imported
    ends = {}
    for name, (args, port) in jobs.items():
        os.environ.update(
            LOCAL_RANK=str(rank), NODE_RANK="0", WORLD_SIZE=str(_WORLD), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
        )  # fmt: skip
        try:
            main(args)
            ends[name] = ""
        except BaseException:
            ends[name] = traceback.format_exc()
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        Path(f"ends{rank}.json").write_text(json.dumps(ends))

"""One of several processes: runs command lines one after another, in the environment that a launcher sets."""

import json
import os
import sys
import traceback

import torch.distributed

from lgx.cli import main


def work(rank: int, world: int, file: str) -> None:
    """Run every command line of a JSON file; write how each ended into a second file."""
    ends = {}
    with open(file) as stream:
        jobs = json.load(stream)
    for name, job in jobs.items():
        os.environ.update(
            LOCAL_RANK=str(rank), NODE_RANK="0", WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(job["port"]),
        )  # fmt: skip
        try:
            main(job["args"])
            ends[name] = ""
        except BaseException:
            ends[name] = traceback.format_exc()
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        with open(f"{file}.{rank}", "w") as stream:
            json.dump(ends, stream)


if __name__ == "__main__":
    work(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])

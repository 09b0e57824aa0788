"""An MLflow server on this machine."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from tests.support.command_line import answers, wait_until


@contextmanager
def served(folder: Path, port: int) -> Iterator[str]:
    """Run ``mlflow server`` in a folder, and yield its address once it answers."""
    folder.mkdir(parents=True)
    uri = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--host=127.0.0.1", f"--port={port}", "--workers=1"]
    places = [f"--backend-store-uri=sqlite:///{folder}/mlflow.db", f"--artifacts-destination={folder}/artifacts"]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [*command, *places], cwd=folder, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONPATH": ""},
        )  # fmt: skip
        try:
            wait_until(lambda: answers(f"{uri}/health"), 120, "mlflow answers", (folder / "log").read_text)
            (folder / "pid").write_text(str(server.pid))
            yield uri
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, 15)
            server.wait(timeout=30)


class Stop(Callback):
    """Stop the server, by the file with its process group, at the end of the first step, and wait for its end."""

    def __init__(self, pid_file: str) -> None:
        self.pid = int(Path(pid_file).read_text())

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if batch_idx == 0:
            os.killpg(self.pid, 9)
            time.sleep(1)

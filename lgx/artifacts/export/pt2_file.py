"""Write networks as programs of torch.export, and run such files."""

import io
import json
import os
import zipfile
from pathlib import Path

import torch
from torch import Tensor, nn

from lgx.artifacts.export.about import WRITER, About
from lgx.artifacts.export.parity import Program, check_parity
from lgx.artifacts.export.program import trace
from lgx.artifacts.export.pt2_checks import ABOUT, checked_copy, read_about
from lgx.host.failures import foreign_errors
from lgx.host.files import atomic_path, folder_beside


def write_pt2(out: str | Path, model: nn.Module, about: About) -> float:
    """Write a network as a program of torch.export.

    Args:
        out: The file.
        model: The network, in eval mode.
        about: What the file says of it, as the extra file ``lgx.json``.

    Returns:
        The largest difference between logits of the written program and of the network.

    Raises:
        UserError: If the network cannot be traced, the program gives other logits, or the file cannot be written.
    """
    traced = trace(model, about, str(out))
    content = io.BytesIO()  # on a full disk torch's own writer would abort the process
    torch.export.save(traced, content, extra_files={ABOUT: json.dumps(about.to_texts())})
    with atomic_path(out) as temporary, folder_beside(temporary) as folder:
        file = folder / "model.pt2"
        file.write_bytes(content.getbuffer())
        difference = check_parity(model, run_pt2(file, str(out))[0], about, out)
        os.replace(file, temporary)
    return difference


def run_pt2(path: str | Path, name: str | None = None) -> tuple[Program, dict[str, str]]:
    """Load a program; :mod:`~lgx.artifacts.export.pt2_checks` makes sure that no code of the file runs.

    Args:
        path: The file.
        name: What messages call it; default its path.

    Returns:
        The program, and what the file says of it.

    Raises:
        UserError: If the file is damaged, or holds more than a program of plain operations.
    """
    path = Path(path)
    copy, texts = checked_copy(path, name)
    with foreign_errors(name or str(path), "torch.export cannot load it", "write it again with `lgx export`"):
        module = torch.export.load(copy).module()

    def program(values: Tensor) -> Tensor:
        with torch.no_grad():
            logits: Tensor = module(values)
        return logits

    return program, texts


def is_own_pt2(path: Path) -> bool:
    """Whether ``lgx export`` wrote a file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return read_about(archive).get("written_by") == json.dumps(WRITER)
    except Exception:  # a foreign file of any kind
        return False

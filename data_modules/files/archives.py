"""Unpack a user's archives with torchvision's functions, and link a user's folders."""

import tarfile
from pathlib import Path

from torchvision.datasets.utils import extract_archive

from data_modules.files.errors import guarded

# The standard library then refuses members outside the folder, links that leave it and devices.
tarfile.TarFile.extraction_filter = staticmethod(tarfile.data_filter)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive into a folder.

    Raises:
        UserError: If it is missing or damaged, or a member would be written outside the folder.
    """
    guarded(lambda: extract_archive(archive, folder), str(archive), "fetch it again")


def link(source: Path, folder: Path) -> None:
    """Make ``folder`` a link to ``source``; it may be an empty folder before."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.exists():
        folder.rmdir()
    folder.symlink_to(source.resolve(), target_is_directory=True)

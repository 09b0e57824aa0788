"""Unpack the Visual Decathlon from its official archives, task by task."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from data_modules.files.archives import unpack
from lgx.errors import UserError

DEVKIT = "http://www.robots.ox.ac.uk/~vgg/share/decathlon-1.0-devkit.tar.gz"
DATA = "http://www.robots.ox.ac.uk/~vgg/share/decathlon-1.0-data.tar.gz"
IMAGENET = "https://image-net.org/data/decathlon-1.0-data-imagenet.tar"


def bring(base: Path, name: str, source: str | Path) -> None:
    """Unpack what the official archives in ``source`` hold of a task to its place, where it is not there yet.

    Every task becomes a folder ``base/data/<name>`` of its own, all or nothing, so that ImageNet, which has an archive
    of its own, can be added later.

    Raises:
        UserError: If ``source`` lacks the devkit, or an archive is damaged.
    """
    folder = Path(source)
    devkit, common, imagenet = (folder / Path(url).name for url in (DEVKIT, DATA, IMAGENET))
    if not (base / "annotations").is_dir():
        if not devkit.exists():
            raise UserError(f"source: {devkit} with the labels of all tasks does not exist; download it from {DEVKIT}")
        _unpack(devkit, "decathlon-1.0/annotations", base / "annotations")
    place = base / "data" / name
    if place.exists():
        return
    if name == "imagenet12" and imagenet.exists():
        _unpack(imagenet, name, place)
    elif name != "imagenet12" and common.exists():
        with TemporaryDirectory(dir=base) as unpacked:
            unpack(common, Path(unpacked))
            for archive in Path(unpacked).rglob(f"{name}.tar"):
                _unpack(archive, name, place)


def what_to_fetch(names: Sequence[str], root: str | Path) -> str:
    """One sentence: which archives hold these tasks, and what to run then."""
    return (
        f"{', '.join(names)}: not below {Path(root) / 'decathlon'}; download {DEVKIT} (24 MB), {DATA} (406 MB) and "
        f"for decathlon_imagenet {IMAGENET} (6.5 GB, under ImageNet's terms of access) into a folder of your own, and "
        f"run `lgx data prepare {names[0] if len(names) == 1 else 'decathlon'} --root {root} --source FOLDER`"
    )


def _unpack(archive: Path, inside: str, target: Path) -> None:
    """Unpack an archive, and keep its folder ``inside`` at ``target``, which does not exist yet.

    Raises:
        UserError: If the archive is damaged or lacks the folder.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent) as unpacked:
        unpack(archive, Path(unpacked))
        inner = Path(unpacked, inside)
        if not inner.is_dir():
            raise UserError(f"{archive}: holds no {inside}/; expected the official archive, fetch it again")
        inner.rename(target)

"""Unpack or link the Visual Decathlon from its official archives, task by task."""

import io
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from data_modules.files.archives import check_member, check_name, link, members_of, open_tar
from lgx.errors import UserError
from lgx.host.files import atomic_path

DEVKIT = "http://www.robots.ox.ac.uk/~vgg/share/decathlon-1.0-devkit.tar.gz"
DATA = "http://www.robots.ox.ac.uk/~vgg/share/decathlon-1.0-data.tar.gz"
IMAGENET = "https://image-net.org/data/decathlon-1.0-data-imagenet.tar"


def bring(base: Path, name: str, source: str | Path) -> None:
    """Bring what ``source`` holds of a task to its place, where it is not there yet.

    Every task becomes a folder ``base/data/<name>`` of its own, all or nothing, so that ImageNet, which has an archive
    of its own, can be added later. ``source`` is a folder with the official archives, or with their unpacked
    ``annotations`` and ``data``, which are then linked.

    Raises:
        UserError: If ``source`` holds nothing of the Decathlon, or an archive is damaged or unsafe.
    """
    folder = Path(source)
    if not folder.is_dir():
        raise UserError(f"source: {folder} is not a folder; give the folder that holds the Decathlon's archives")
    tree = next((f for f in (folder, folder / "decathlon-1.0") if (f / "annotations").is_dir()), None)
    if tree is not None:
        for part in ("annotations", f"data/{name}"):
            if (tree / part).is_dir() and not (base / part).exists():
                link(tree / part, base / part)
        return
    if not (base / "annotations").is_dir():
        devkit = folder / Path(DEVKIT).name
        if not devkit.exists():
            raise UserError(
                f"source: {folder} has neither {devkit.name} nor a folder annotations/; the devkit holds the labels of "
                f"all tasks; download it from {DEVKIT}"
            )
        with devkit.open("rb") as file:
            _extract(file, devkit, ("decathlon-1.0", "annotations"), base / "annotations")
    if not (base / "data" / name).exists():
        _unpack_images(folder, name, base / "data" / name)


def what_to_fetch(names: Sequence[str], root: str | Path) -> str:
    """One sentence: which archives hold these tasks, and what to run then."""
    is_imagenet = [name == "decathlon_imagenet" for name in names]
    archives = [f"{DEVKIT} (24 MB)"]
    archives += [] if all(is_imagenet) else [f"{DATA} (406 MB)"]
    archives += [f"{IMAGENET} (6.5 GB, under ImageNet's terms of access)"] if any(is_imagenet) else []
    run = names[0] if len(names) == 1 else "decathlon"
    return (
        f"{', '.join(names)}: not below {Path(root) / 'decathlon'}; download {' and '.join(archives)} into a folder "
        f"of your own and run `lgx data prepare {run} --root {root} --source FOLDER`"
    )


def _unpack_images(folder: Path, name: str, target: Path) -> None:
    """Unpack the archive of the task alone, or that within the archive of all tasks except ImageNet."""
    own = folder / (Path(IMAGENET).name if name == "imagenet12" else f"{name}.tar")
    if own.exists():
        with own.open("rb") as file:
            _extract(file, own, (name,), target)
        return
    archive = folder / Path(DATA).name
    if not archive.exists():
        return
    with archive.open("rb") as file, open_tar(archive, file) as tar:
        for member in members_of(archive, tar):
            if PurePosixPath(member.name).name != f"{name}.tar":
                continue
            if isinstance(inner := tar.extractfile(member), io.BufferedReader):
                _extract(inner, archive, (name,), target)
                return


def _extract(file: io.BufferedReader, path: Path, inside: tuple[str, ...], target: Path) -> None:
    """Unpack the content of the folder ``inside`` of a tar stream to ``target``, all or nothing.

    Raises:
        UserError: If the archive is damaged or empty, or a member would be written outside or is a link or a device.
    """
    with atomic_path(target) as temporary:
        temporary.mkdir()
        with open_tar(path, file) as tar:
            for member in members_of(path, tar):
                check_name(path, member.name)
                parts = PurePosixPath(member.name).parts
                if parts[: len(inside)] == inside and len(parts) > len(inside):
                    check_member(path, member)
                    name = "/".join(parts[len(inside) :])
                    tar.extract(member.replace(name=name, deep=False), temporary, filter="data")
        if not any(temporary.iterdir()):
            raise UserError(f"{path}: holds no {'/'.join(inside)}/; expected the official archive, fetch it again")

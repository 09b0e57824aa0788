"""Bringing a set to its place: download, copy, unzip or link, checked and never half-done."""

import gzip
import os
import shutil
import urllib.error
import zlib
from pathlib import Path

from torchvision.datasets.utils import calculate_md5, check_integrity, download_url

from data_modules.archives import check_tar, unzip
from data_modules.images import guarded
from data_modules.official import Archive, OfficialData, tree_split
from lgx.core.files import atomic_path
from lgx.errors import UserError

FASHION_IDX = {
    "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
    "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
    "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
}
"""md5 of Fashion-MNIST's files once unpacked: distributions compress them anew, so the .gz files differ."""

_IDX_BYTES = 2**26
"""More than the largest of them has, and all that is unpacked of a file that is something else."""


def bring(kind: type[OfficialData], root: Path, source: Path | None, download: bool) -> None:
    """Bring a set to ``root/<name>``.

    Everything is put together in a temporary folder that becomes ``root/<name>`` in the end. Downloaded archives are
    kept in ``root/.downloads/<name>`` until then, so an interrupted download resumes at the archive under way.

    Args:
        kind: The set.
        root: Folder below which data sets lie.
        source: Where the user has the set, or its archives, already; None to download.
        download: Whether the network may be used.

    Raises:
        UserError: If something is missing, damaged, or cannot be fetched; the sentence says what to place where.
    """
    name, folder = kind.info.name, root / kind.info.name
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} exists but does not hold {name}; move it away and run again")
    if source is not None:
        _from_source(kind, folder, source)
        return
    if not kind.archives:
        raise UserError(f"{name} cannot be downloaded: {kind.manual.format(folder=folder)}")
    store = root / ".downloads" / name
    for archive in kind.archives:
        if not _is_whole(store / archive.filename, archive):
            if not download:
                raise UserError(_what_to_fetch(kind, root, "downloading is switched off"))
            _download(kind, archive, store, root)
    _unpack(kind, folder, store)
    shutil.rmtree(store)


def _from_source(kind: type[OfficialData], folder: Path, source: Path) -> None:
    name = kind.info.name
    if not source.is_dir():
        raise UserError(f"source: {source} is not a folder; give the folder that holds the files of {name}")
    trees = (tree_split(source, kind.tree_names[split]) for split in ("train", "test"))
    if all(trees):
        link(source, folder)
    elif kind.bring(source, folder):
        return
    elif name == "fashion_mnist" and (source / "train-images-idx3-ubyte.gz").exists():
        _copy_idx(folder, source)
    elif zips := [path for split in kind.tree_names.values() for n in split if (path := source / f"{n}.zip").exists()]:
        unzip(zips, folder)
    elif kind.archives and all((source / archive.filename).exists() for archive in kind.archives):
        for archive in kind.archives:
            if not _is_whole(source / archive.filename, archive):
                raise UserError(f"{source / archive.filename}: wrong md5, expected {archive.md5}; fetch it again")
        _unpack(kind, folder, source)
    else:
        wanted = ", ".join(archive.filename for archive in kind.archives) or kind.own_files
        raise UserError(
            f"source: {source} holds nothing that is known of {name}; expected class folders train/ and test/, or "
            f"train.zip and test.zip of such folders{', or ' + wanted if wanted else ''}"
        )


def link(source: Path, folder: Path) -> None:
    """Let ``folder``, which may be an empty folder now, be a link to ``source``."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.exists():
        folder.rmdir()
    folder.symlink_to(source.resolve(), target_is_directory=True)


def _copy_idx(folder: Path, source: Path) -> None:
    with atomic_path(folder) as temporary:
        raw = temporary / "FashionMNIST" / "raw"
        raw.mkdir(parents=True)
        for filename, md5 in FASHION_IDX.items():
            packed = source / f"{filename}.gz"
            try:
                with gzip.open(packed) as file:
                    (raw / filename).write_bytes(file.read(_IDX_BYTES))
            except (EOFError, zlib.error, gzip.BadGzipFile, FileNotFoundError) as error:
                raise UserError(f"{packed}: missing or damaged ({error}); install the package again") from error
            if (found := calculate_md5(raw / filename)) != md5:
                raise UserError(f"{packed}: its content has md5 {found}, expected {md5}; install the package again")


def _is_whole(path: Path, archive: Archive) -> bool:
    return bool(check_integrity(str(path), archive.md5))


def _download(kind: type[OfficialData], archive: Archive, store: Path, root: Path) -> None:
    # A name of its own while under way: a set without a published md5 could not tell a part from the whole.
    partial = f"{archive.filename}.part"
    try:
        (store / partial).unlink(missing_ok=True)
        download_url(archive.url, str(store), partial, archive.md5)
        os.replace(store / partial, store / archive.filename)
    except (urllib.error.URLError, OSError, RuntimeError) as error:
        (store / partial).unlink(missing_ok=True)
        for empty in (store, store.parent):
            if empty.is_dir() and not any(empty.iterdir()):
                empty.rmdir()
        reason = " ".join(str(getattr(error, "reason", error)).split())
        raise UserError(_what_to_fetch(kind, root, f"{archive.url} could not be downloaded ({reason})")) from error


def _what_to_fetch(kind: type[OfficialData], root: Path, why: str) -> str:
    name, urls = kind.info.name, " and ".join(archive.url for archive in kind.archives)
    return (
        f"{name}: {why}; fetch {urls} into a folder of your own and run "
        f"`lgx data prepare {name} --root {root} --source FOLDER`"
    )


def _unpack(kind: type[OfficialData], folder: Path, store: Path) -> None:
    module = kind(root=str(folder.parent))
    for archive in kind.archives:
        if archive.md5 is None:  # what has its publishers' checksum has its publishers' content
            check_tar(store / archive.filename)
    with atomic_path(folder) as temporary:
        for archive in kind.archives:
            place = temporary / archive.folder
            place.mkdir(parents=True, exist_ok=True)
            try:
                os.link(store / archive.filename, place / archive.filename)
            except OSError:  # another file system
                shutil.copyfile(store / archive.filename, place / archive.filename)
        what = f"{kind.info.name}: an archive in {store}"
        guarded(lambda: module.fetch(temporary), what, "delete it and run again")
        for archive in kind.archives:
            if archive.filename.endswith((".zip", ".tgz", ".gz")) and kind.info.name != "omniglot":
                (temporary / archive.folder / archive.filename).unlink(missing_ok=True)

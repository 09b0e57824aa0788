"""Prepare an image set: download, copy, unpack or link it, and check it, atomically."""

import os
import shutil
import urllib.error
from pathlib import Path

from torchvision.datasets.utils import check_integrity, download_url

from data_modules.files.archives import check_tar, link, unzip
from data_modules.files.errors import guarded
from data_modules.images.class_trees import tree_split
from data_modules.sets.official import Archive, OfficialData
from lgx.errors import UserError
from lgx.host.files import atomic_path


def bring(kind: type[OfficialData], root: Path, source: Path | None, download: bool) -> None:
    """Prepare a set in ``root/<name>``.

    The set is assembled in a temporary folder, which is finally renamed to ``root/<name>``. Downloaded archives are
    kept in ``root/.downloads/<name>`` until then, so that an interrupted download resumes at the same archive.
    ``source`` is a folder in which the user has the set, or its archives; None downloads them.

    Raises:
        UserError: If a file is missing or damaged, or cannot be downloaded; the sentence says what to do.
    """
    name, folder = kind.info.name, root / kind.info.name
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} exists but does not contain {name}; move it away and run again")
    if source is not None:
        _from_source(kind, folder, source)
        return
    if not kind.archives and not kind.manual:
        kind(root=str(root)).prepare_data()  # its module makes it
        return
    if not kind.archives:
        raise UserError(f"{name} cannot be downloaded: {kind.manual.format(folder=folder)}")
    store = root / ".downloads" / name
    for archive in kind.archives:
        if not check_integrity(store / archive.filename, archive.md5):
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
    elif zips := [path for split in kind.tree_names.values() for n in split if (path := source / f"{n}.zip").exists()]:
        unzip(zips, folder)
    elif kind.archives and all((source / archive.filename).exists() for archive in kind.archives):
        for archive in kind.archives:
            if not check_integrity(source / archive.filename, archive.md5):
                raise UserError(f"{source / archive.filename}: wrong md5, expected {archive.md5}; fetch it again")
        _unpack(kind, folder, source)
    elif kind.is_official_form(source):
        link(source, folder)
    else:
        has_trees = any(kind.tree_names.values())
        wanted = ["class folders train/ and test/, train.zip and test.zip with such folders"] if has_trees else []
        wanted += [kind.own_files or (f"{kind.marker}/" if kind.marker else "")]
        wanted += [", ".join(archive.filename for archive in kind.archives)]
        raise UserError(
            f"source: {source} holds no known files of {name}; expected {' or '.join(filter(None, wanted))}"
        )


def _download(kind: type[OfficialData], archive: Archive, store: Path, root: Path) -> None:
    # A temporary name until it is complete: without a published md5, a part looks like the whole.
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
        f"{name}: {why}; download {urls} into a folder of your own and run "
        f"`lgx data prepare {name} --root {root} --source FOLDER`"
    )


def _unpack(kind: type[OfficialData], folder: Path, store: Path) -> None:
    module = kind(root=str(folder.parent))
    for archive in kind.archives:
        if archive.md5 is None:  # a file with its publishers' checksum has their content
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
        guarded(lambda: module.unpack(temporary), what, "delete it and run again")
        for archive in kind.archives:
            if archive.filename.endswith((".zip", ".tgz", ".gz")) and not kind.keeps_archives:
                (temporary / archive.folder / archive.filename).unlink(missing_ok=True)

"""Prepare an image set: download, unpack or link it, and check it, atomically."""

import shutil
from pathlib import Path

from torchvision.datasets.utils import check_integrity, download_url

from data_modules.files.archives import link, unpack
from data_modules.images.class_trees import tree_split
from data_modules.sets.official import Archive, OfficialData
from lgx.errors import UserError
from lgx.host.files import atomic_path


def bring(kind: type[OfficialData], root: Path, source: Path | None) -> None:
    """Prepare a set in ``root/<name>``.

    The set is assembled in a temporary folder, which is finally renamed to ``root/<name>``. Downloaded archives are
    kept in ``root/.downloads/<name>`` until then, so that an interrupted download resumes at the same archive.
    ``source`` is a folder in which the user has the set, or its archives; None downloads them.

    Raises:
        UserError: If a file is missing or damaged, or cannot be downloaded; the sentence says what to do.
    """
    name = kind.info.name
    folder = root / kind.info.name
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} exists but does not contain {name}; move it away and run again")
    if source is not None:
        _from_source(kind, folder, source)
        return
    if not kind.archives and not kind.manual:
        kind(root=str(root)).prepare_data()  # its module makes it
        return
    if kind.manual:
        raise UserError(f"{name} cannot be downloaded: {kind.manual.format(folder=folder)}")
    store = root / ".downloads" / name
    for archive in kind.archives:
        if not check_integrity(store / archive.filename, archive.md5):
            _download(kind, archive, store, root)
    with atomic_path(folder) as temporary:
        kind.unpack(store, temporary)
    shutil.rmtree(store)


def _from_source(kind: type[OfficialData], folder: Path, source: Path) -> None:
    name = kind.info.name
    if not source.is_dir():
        raise UserError(f"source: {source} is not a folder; give the folder that holds the files of {name}")
    trees = (tree_split(source, kind.tree_names[split]) for split in ("train", "test"))
    zips = [path for split in kind.tree_names.values() for n in split if (path := source / f"{n}.zip").exists()]
    if all(trees):
        link(source, folder)
    elif zips:
        with atomic_path(folder) as temporary:
            for path in zips:
                unpack(path, temporary)
    elif kind.archives and all((source / archive.filename).exists() for archive in kind.archives):
        for archive in kind.archives:
            if not check_integrity(source / archive.filename, archive.md5):
                raise UserError(f"{source / archive.filename}: wrong md5, expected {archive.md5}; fetch it again")
        with atomic_path(folder) as temporary:
            kind.unpack(source, temporary)
    elif kind.is_official_form(source):
        link(source, folder)
    else:
        wanted = [", ".join(names) for names in kind.official_markers()]
        wanted += ["class folders train/ and test/, or both as zip files"] if any(kind.tree_names.values()) else []
        wanted += [", ".join(archive.filename for archive in kind.archives)] if kind.archives else []
        raise UserError(f"source: {source} holds no known files of {name}; expected {', or '.join(wanted)}")


def _download(kind: type[OfficialData], archive: Archive, store: Path, root: Path) -> None:
    # A temporary name until it is complete: without a published md5, a part looks like the whole.
    with atomic_path(store / archive.filename) as temporary:
        try:
            download_url(archive.url, temporary.parent, temporary.name, archive.md5)
        except (OSError, RuntimeError) as error:
            reason = " ".join(str(getattr(error, "reason", error)).split())
            name = kind.info.name
            urls = " and ".join(archive.url for archive in kind.archives)
            raise UserError(
                f"{name}: {archive.url} could not be downloaded ({reason}); download {urls} into a folder of your own "
                f"and run `lgx data prepare {name} --root {root} --source FOLDER`"
            ) from error

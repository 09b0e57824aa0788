"""``lgx data``: list the data sets, and prepare them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from data_modules.base import DatasetInfo
    from data_modules.catalogue import Suite
    from data_modules.decathlon import Decathlon
    from data_modules.glue import TextSet
    from data_modules.image_module import ImageDataModule
    from data_modules.official import OfficialData


def list_sets(root: str = "data", json: bool = False) -> None:
    """Show every data set: classes, sizes, license, source, and whether it lies on the disk.

    Sizes are those of the train, val and test splits as lgx makes them; a dash means that they follow from the files.

    Args:
        root: Folder below which data sets lie.
        json: Print JSON instead of a table.
    """
    from data_modules.catalogue import infos, is_present

    rows = [(info, is_present(info.name, root)) for info in infos()]
    if json:
        _print_json(rows)
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    wide = console.width >= 130
    hint = None if wide else "--json shows licenses and sources too"
    table = Table(title=f"Data sets (root: {root})", caption=hint)
    for heading in ("name", "here", "classes", "train", "val", "test"):
        table.add_column(heading, justify="left" if heading in ("name", "here") else "right", no_wrap=True)
    for heading in ("license", "source") if wide else ():
        table.add_column(heading, overflow="fold")
    for info, present in rows:
        sizes = ["-" if size is None else f"{size:,}" for size in info.sizes]
        words = (info.license, info.source) if wide else ()
        table.add_row(info.name, "yes" if present else "no", f"{info.num_classes:,}", *sizes, *words)
    console.print(table)


def prepare(
    name: str,
    root: str = "data",
    source: str | None = None,
    shards: bool = False,
    shard_size: int = 1000,
    download: bool = True,
) -> None:
    """Bring a data set to its place below ``root``, checked; image sets optionally as webdataset shards.

    Nothing is ever left half-written, and an interrupted preparation resumes. ``pocket`` makes all ten tasks of the
    Pocket Decathlon, ``mini`` all of the mini-Decathlon, and ``decathlon`` brings those tasks of the Visual Decathlon
    whose archives are there; the other names are those of ``lgx data list``. Text sets are linked from ``--source``, or
    need no preparing: ``--data.source hub`` reads them from the Hugging Face hub; those called ``pocket_…`` are made.

    Args:
        name: Name of the set, e.g. cifar100, or of a suite of sets: pocket, mini or decathlon.
        root: Folder below which data sets lie.
        source: Folder that holds the set's archives, class folders (train/, test/) or zip files of them already; for
            mini, one folder per task with its archives; for a text set its publishers' files, unpacked.
        shards: Write shards to ROOT/NAME_shards as well, to be read by the data module ShardedData.
        shard_size: Examples per shard.
        download: Whether the network may be used.

    Raises:
        UserError: If the name is unknown, or something is missing or damaged; one sentence says what to do.
    """
    from pathlib import Path

    from data_modules.catalogue import OFFICIAL, SUITES, TEXT_SETS, check_name, is_present, suite_of
    from lgx.errors import UserError

    check_name(name)
    if shard_size < 1:
        raise UserError(f"shard_size: expected at least 1, got {shard_size}")
    if suite := SUITES.get(name) or suite_of(name):
        names = [name] if name in suite.tasks else list(suite.tasks)
        if suite is SUITES["decathlon"]:
            _prepare_decathlon(suite, names, root, source, shards, shard_size)
        elif shards:
            raise UserError(f"--shards: the {suite.title} lies in shards already; leave it out")
        else:
            _prepare_suite(suite, names, root, source)
        return
    if name in TEXT_SETS:
        if shards:
            raise UserError(f"--shards: {name} is a text set, and texts need no shards; leave it out")
        _prepare_text(TEXT_SETS[name](root=root), source)
        return
    if not is_present(name, root):
        from data_modules.prepare import bring

        bring(OFFICIAL[name], Path(root), Path(source) if source else None, download)
    _finish(OFFICIAL[name](root=root), shards, shard_size)


def _finish(module: "OfficialData | Decathlon", shards: bool, shard_size: int) -> None:
    """Count what a prepared set holds, and write its shards."""
    from lgx.errors import UserError

    name = module.info.name
    counts = {split: len(module.read(split)) for split in ("train", "val", "test")}
    empty = [split for split, count in counts.items() if count == 0]
    if empty:
        raise UserError(f"{name}: the {empty[0]} split below {module.folder} is empty; remove it and prepare it again")
    print(f"{name}: {', '.join(f'{count:,} {split}' for split, count in counts.items())} images at {module.folder}")
    if shards:
        _write_shards(module, module.root_folder / f"{name}_shards", shard_size)


def _prepare_decathlon(
    suite: "Suite", names: list[str], root: str, source: str | None, shards: bool, shard_size: int
) -> None:
    """Unlike in the other suites, tasks may be absent: the archive of ImageNet is separate, large and restricted."""
    from data_modules.decathlon import Decathlon
    from data_modules.decathlon_prepare import bring_task, what_to_fetch
    from lgx.errors import UserError

    absent = []
    for name in names:
        task = suite.tasks[name]
        if not bring_task(root, task, source):
            absent.append(name)
            continue
        suite.prepare(root, task, None)
        _finish(Decathlon(task, root=root), shards, shard_size)
    if absent:
        remedy = what_to_fetch(absent, root)
        if len(absent) == len(names):
            raise UserError(remedy)
        print(remedy)


def _prepare_suite(suite: "Suite", names: list[str], root: str, source: str | None) -> None:
    from rich.progress import track

    missing = [name for name in names if not suite.is_present(root, suite.tasks[name])]
    for name in missing:
        suite.check(suite.tasks[name], source)
    for name in track(missing, f"preparing the {suite.title}", transient=True):
        suite.prepare(root, suite.tasks[name], source)
    print(f"{len(names)} {'task' if len(names) == 1 else 'tasks'} of the {suite.title} below {root}")


def _prepare_text(module: "TextSet", source: str | None) -> None:
    """Link a text set's folder to its place, and count what it holds."""
    from pathlib import Path

    from data_modules.prepare import link
    from lgx.errors import UserError

    name, folder = module.info.name, module.folder
    linked = not folder.exists() and source is not None
    if linked and source is not None:
        if not Path(source).is_dir():
            raise UserError(f"source: {source} is not a folder; give the folder that holds the files of {name}")
        link(Path(source), folder)
    if source is None:
        module.prepare_data()
    try:
        rows = {split: module.read(split) for split in ("train", "val", "test")}
    except UserError:
        if linked:
            folder.unlink()
        raise
    counts = [f"{len(found):,} {split}" for split, found in rows.items() if found is not None]
    held = "" if rows["val"] is not None else ", val held out of train"
    print(f"{name}: {', '.join(counts)} texts at {folder}{held}")


def _write_shards(module: "ImageDataModule", folder: "Path", shard_size: int) -> None:
    from dataclasses import replace

    from data_modules.shards import write_shards

    sizes = {}
    for split in ("train", "val", "test"):
        images = module.read(split)
        sizes[split] = len(images)
        info = replace(module.info, sizes=(sizes.get("train"), sizes.get("val"), sizes.get("test")))
        write_shards(images, folder, split, info, shard_size, progress=True)
    print(f"shards at {folder}; read them with --data ShardedData --data.name {folder.name}")


def _print_json(rows: "list[tuple[DatasetInfo, bool]]") -> None:
    import json as json_module

    sets = []
    for info, present in rows:
        sizes = dict(zip(("train", "val", "test"), info.sizes, strict=True))
        facts = {"name": info.name, "classes": info.num_classes, "sizes": sizes, "splits": info.splits}
        sets.append(facts | {"license": info.license, "source": info.source, "present": present})
    print(json_module.dumps(sets, indent=1))


COMMANDS = {"list": list_sets, "prepare": prepare}

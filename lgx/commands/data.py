"""``lgx data``: list the data sets, and prepare them."""

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse.typing import PositiveInt

from lgx.errors import UserError

if TYPE_CHECKING:
    from data_modules.images.module import ImageDataModule
    from data_modules.suites.suite import Suite
    from data_modules.text.module import TextSet


def list_sets(root: str = "data", json: bool = False) -> None:
    """Show every data set: classes, sizes, license, source, and whether its files are present.

    Sizes are those of the train, val and test splits as lgx makes them. A dash means that the size depends on the
    files.

    Example: lgx data list --json

    Args:
        root: Folder that contains the data sets.
        json: Print JSON instead of a table.
    """
    from lgx.core.markers import any_exist
    from lgx.core.readable import aligned

    # A table, because importing the data modules takes seconds.
    sets: list[dict[str, Any]] = json_module.loads(Path(__file__).with_name("data_sets.json").read_text("utf-8"))
    present = {facts["name"] for facts in sets if any_exist(Path(root), facts["markers"])}
    if json:
        shown = [{**facts, "present": facts["name"] in present} for facts in sets]
        print(json_module.dumps([{key: facts[key] for key in facts if key != "markers"} for facts in shown], indent=1))
        return
    lines = [("name", "here", "classes", "train", "val", "test")]
    for facts in sets:
        sizes = ["-" if size is None else f"{size:,}" for size in facts["sizes"].values()]
        here = "yes" if facts["name"] in present else "no"
        lines.append((facts["name"], here, f"{facts['classes']:,}", *sizes))
    print("\n".join(aligned(lines, left=2)))
    print(f"\nbelow {root}; --json shows licenses and sources too")


def prepare(
    name: str,
    root: str = "data",
    source: str | None = None,
    shards: bool = False,
    shard_size: PositiveInt = 1000,
    out: str | None = None,
) -> None:
    """Download, unpack or link a data set to its place below --root, and check it.

    The same command resumes an interrupted preparation. `pocket` generates the ten tasks of the Pocket Decathlon.
    `mini` downloads the mini-Decathlon. `decathlon` unpacks the archives of the Visual Decathlon that are in --source.
    `lgx data list` shows all other names. Text sets are linked from --source. Text sets named `pocket_…` are generated.
    Text sets on the Hugging Face hub (--data.source hub) need no preparation.

    Example: lgx data prepare cifar100 --root data

    Args:
        name: Name of the set, e.g. cifar100, or of a suite of sets: pocket, mini or decathlon.
        root: Folder that contains the data sets.
        source: Folder with the set's archives, class folders (train/, test/) or zip files of class folders. For mini:
            one folder of archives per task. For a text set: the unpacked files of its publishers.
        shards: Also write an image set as webdataset shards to OUT/NAME_shards. The data module ShardedData reads them.
        shard_size: Examples per shard.
        out: Folder for the shards; default: --root.
    """
    from data_modules.catalog import check_name, find_suite, is_present
    from data_modules.registry import IMAGE_SETS, TEXT_SETS
    from data_modules.sets.bring import bring

    check_name(name)
    if "://" in f"{root}{out}":
        raise UserError("--root, --out: expected a local folder, got a URL; copy the shards there afterwards")
    suite = find_suite(name)
    if shards and (name in TEXT_SETS or (suite is not None and suite.in_shards)):
        raise UserError(f"--shards: {name} is a text set, or is stored in shards already; leave it out")
    if out is not None and not shards:
        raise UserError("--out: is the place of shards; add --shards, or leave it out")
    if suite is not None:
        names = [name] if name in suite.tasks else list(suite.tasks)
        modules = _prepare_suite(suite, names, root, source)
    elif name in TEXT_SETS:
        _prepare_text(TEXT_SETS[name](root=root), source)
        return
    else:
        kind = IMAGE_SETS[name]
        if not is_present(name, root):
            bring(kind, Path(root), Path(source) if source else None)
        modules = [kind(root=root)]
    for module in modules:
        _finish(module, (out or root) if shards else None, shard_size)


def _prepare_suite(suite: "Suite[Any]", names: list[str], root: str, source: str | None) -> "list[ImageDataModule]":
    """Prepare tasks of a suite; files may be missing if the suite names where to get them.

    Returns:
        The data modules of the tasks whose images are counted.
    """
    from rich.progress import track

    for name in names:
        if not suite.is_present(root, suite.tasks[name]):
            suite.check(suite.tasks[name], source)
    shown = track(names, f"preparing the {suite.title}", transient=True) if suite.in_shards else names
    present = [name for name in shown if suite.prepare(root, suite.tasks[name], source)]
    absent = [name for name in names if name not in present]
    if absent:
        remedy = suite.what_to_fetch(absent, root)
        if not present:
            raise UserError(remedy)
        print(remedy)
    if suite.in_shards:
        print(f"{len(present)} task(s) of the {suite.title} below {root}")
        return []
    return [suite.module(suite.tasks[name], root) for name in present]


def _prepare_text(module: "TextSet", source: str | None) -> None:
    """Link a text set's folder to its place, and count its texts."""
    from data_modules.base import SPLITS
    from data_modules.files.archives import link

    name = module.info.name
    folder = module.folder
    if source is not None and not Path(source).is_dir():
        wrong = "is not a folder" if Path(source).exists() else "does not exist"
        raise UserError(f"--source: {source} {wrong}; give the folder with the files of {name}")
    linked = source is not None and not folder.exists()
    if source is None:
        module.prepare_data()
    elif linked:
        link(Path(source), folder)
    try:
        rows = {split: module.read(split) for split in SPLITS if split not in module.absent}
    except UserError as error:
        if linked:
            folder.unlink()
            raise UserError(f"--source: {str(error).replace(str(folder), str(source))}") from error
        raise
    counts = [f"{len(part):,} {split}" for split, part in rows.items()]
    held = "" if "val" in rows else ", val held out of train"
    print(f"{name}: {', '.join(counts)} texts at {folder}{held}")


def _finish(module: "ImageDataModule", out: str | None, shard_size: int) -> None:
    """Count the images of a prepared set, and write its shards below ``out``, if that is given."""
    name = module.info.name
    counts = {split: len(module.read(split)) for split in ("train", "val", "test")}
    empty = [split for split, count in counts.items() if count == 0]
    if empty:
        raise UserError(f"{name}: the {empty[0]} split below {module.folder} is empty; remove it and prepare it again")
    print(f"{name}: {', '.join(f'{count:,} {split}' for split, count in counts.items())} images at {module.folder}")
    if out is not None:
        _write_shards(module, out, shard_size)


def _write_shards(module: "ImageDataModule", out: str, shard_size: int) -> None:
    from dataclasses import replace

    from data_modules.shards.writing import write_shards

    folder = Path(out) / f"{module.info.name}_shards"
    sizes = dict[str, int]()
    for split in ("train", "val", "test"):
        images = module.read(split)
        sizes[split] = len(images)
        info = replace(module.info, sizes=(sizes.get("train"), sizes.get("val"), sizes.get("test")))
        write_shards(images, folder, split, info, shard_size, progress=True)
    print(f"shards at {folder}; read them with --data ShardedData --data.name {folder.name}")


COMMANDS = {"list": list_sets, "prepare": prepare}

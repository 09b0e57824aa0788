"""``lgx data``: list the image sets, and prepare them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from data_modules.base import DatasetInfo, ImageDataModule


def list_sets(root: str = "data", json: bool = False) -> None:
    """Show every image set: classes, sizes, licence, source, and whether it lies on the disk.

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
    table = Table(title=f"Image sets (root: {root})", caption=None if wide else "--json true shows the sources too")
    for heading in ("name", "here", "classes", "train", "val", "test"):
        table.add_column(heading, justify="left" if heading in ("name", "here") else "right", no_wrap=True)
    for heading in ("licence", "source")[: 2 if wide else 1]:
        table.add_column(heading, overflow="fold")
    for info, present in rows:
        sizes = ["-" if size is None else f"{size:,}" for size in info.sizes]
        words = (info.licence, info.source)[: 2 if wide else 1]
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
    """Bring an image set to its place below ``root``, checked, and optionally as webdataset shards.

    Nothing is ever left half-written, and an interrupted preparation resumes. ``pocket`` makes all ten tasks of the
    Pocket Decathlon; the other names are those of ``lgx data list``.

    Args:
        name: Name of the set, e.g. cifar100, or pocket.
        root: Folder below which data sets lie.
        source: Folder that holds the set's archives, class folders (train/, test/) or zip files of them already.
        shards: Write shards to ROOT/NAME_shards as well, to be read by the data module ShardedData.
        shard_size: Examples per shard.
        download: Whether the network may be used.

    Raises:
        UserError: If the name is unknown, or something is missing or damaged; one sentence says what to do.
    """
    from pathlib import Path

    from data_modules.catalogue import OFFICIAL, POCKET, check_name, is_present
    from lgx.errors import UserError

    check_name(name)
    if shard_size < 1:
        raise UserError(f"shard_size: expected at least 1, got {shard_size}")
    if name == "pocket" or name in POCKET:
        _prepare_pocket([name] if name in POCKET else list(POCKET), root)
        return
    if not is_present(name, root):
        from data_modules.prepare import bring

        bring(OFFICIAL[name], Path(root), Path(source) if source else None, download)
    module = OFFICIAL[name](root=root)
    counts = {split: len(module.read(split)) for split in ("train", "val", "test")}
    empty = [split for split, count in counts.items() if count == 0]
    if empty:
        raise UserError(f"{name}: the {empty[0]} split below {module.folder} is empty; remove it and prepare it again")
    print(f"{name}: {', '.join(f'{count:,} {split}' for split, count in counts.items())} images at {module.folder}")
    if shards:
        _write_shards(module, Path(root) / f"{name}_shards", shard_size)


def _prepare_pocket(names: list[str], root: str) -> None:
    from rich.progress import track

    from data_modules.catalogue import POCKET
    from data_modules.pocket import make_task

    for name in track(names, "making the Pocket Decathlon", transient=True):
        make_task(root, POCKET[name])
    print(f"{len(names)} pocket {'task' if len(names) == 1 else 'tasks'} at {root}/pocket")


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
        sets.append(facts | {"licence": info.licence, "source": info.source, "present": present})
    print(json_module.dumps(sets, indent=1))


COMMANDS = {"list": list_sets, "prepare": prepare}

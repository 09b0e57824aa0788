"""``lgx backbones``: timm's pretrained ViTs, and which of them lgx reads."""

import json as json_module
from dataclasses import asdict


def main(argv: list[str]) -> None:
    """Parse the command line, whose first word may be the filter, and print the list.

    Args:
        argv: What follows ``lgx backbones``.

    Raises:
        UserError: If an option is wrong, or no backbone has such a name.
    """
    from lgx.commands.run import call

    has_filter = bool(argv) and not argv[0].startswith("-")
    call("lgx backbones", backbones, ["--filter", *argv] if has_filter else argv)


def backbones(*, filter: str = "", json: bool = False) -> None:
    """List timm's pretrained ViTs: whether lgx reads each as an ancestor, its size, image size and license.

    Each model is built without memory and described. All of them take some minutes, a filter less: `lgx backbones
    dinov2`.

    Args:
        filter: A part of the name, or a pattern with *; it may stand first, without --filter.
        json: Print a JSON list instead of a table.

    Raises:
        UserError: If no backbone has such a name.
    """
    from rich.console import Console
    from rich.progress import track

    from lgx.artifacts.backbones import describe_backbone, names_of_backbones
    from lgx.errors import UserError

    names = names_of_backbones(filter)
    if not names:
        raise UserError(f"--filter {filter[:100]}: timm has no pretrained ViT of that name; leave it out to list all")
    found = [describe_backbone(name) for name in track(names, console=Console(stderr=True), transient=True)]
    if json:
        print(json_module.dumps([asdict(backbone) for backbone in found], indent=2))
        return
    width = max(map(len, names))
    print(f"{'backbone':<{width}}  read  parameters     px  license")
    for each in found:
        size = f"{each.parameters / 1e6:.1f} M" if each.parameters is not None else "unknown"
        pixels = max(each.img_size) if each.img_size else "-"
        note = (
            f"  ({each.reason})" if each.reason else "  (also predicted by hypernetworks)" if each.is_predicted else ""
        )
        read = "yes" if each.is_read else "no"
        print(f"{each.name:<{width}}  {read:<4}  {size:>10}  {pixels:>5}  {each.license or 'unknown'}{note}")
    read_ones, predicted = sum(each.is_read for each in found), sum(each.is_predicted for each in found)
    print(f"{read_ones} of {len(found)} are read; hypernetworks predict networks of the form of {predicted}")

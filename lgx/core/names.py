"""Check names of experiments and runs, which become folders, and names of methods in rows."""

import re

from lgx.errors import UserError

_SEED_FOLDER = re.compile(r"seed\d+")


def check_name(name: str, option: str) -> None:
    """Refuse a name that leads outside its folder, or that cannot be printed in one line.

    Parts that are joined by ``/`` are nested folders.

    Args:
        name: The name.
        option: The option or key that gives it, for the message.
    """
    check_line(name, option)
    parts = name.split("/")
    if not all(parts) or {".", ".."} & {*parts}:
        raise UserError(f"{option}: {name!r} is not the name of a subfolder; give words joined by /, without . and ..")
    reserved = next(filter(_SEED_FOLDER.fullmatch, parts), None)
    if reserved:
        raise UserError(
            f"{option}: {name!r} has the part {reserved}, which is reserved for folders of seeds; give another name"
        )


def check_line(text: str, option: str) -> None:
    """Refuse unprintable characters, for example tabs and characters that reverse text, and shell variables.

    Args:
        text: The text.
        option: The option or key that gives it, for the message.
    """
    wrong = next((c for c in text if not c.isprintable()), None)
    if wrong:
        raise UserError(
            f"{option}: {text[:100]!r} holds the character {wrong!r}, which cannot be printed; leave it out"
        )
    if "$" in text or text.startswith("~"):  # TensorBoard's logger would replace them, and write to another folder
        raise UserError(f"{option}: {text[:100]!r} holds $, or begins with ~, which lgx does not replace; leave it out")


def check_label(label: str | None, option: str) -> None:
    """Refuse a name of a method in rows that is not a single word, because commas separate methods in lists.

    Args:
        label: The name; None for the method's own.
        option: The option that gives it, for the message.
    """
    if label is not None and not label.replace("_", "").isalnum():
        raise UserError(f"{option}: expected letters, digits and underscores, got {label!r}")

"""The panel: held-out architectures that evaluation predicts."""

from lgx.architectures import Architecture, ViTArchitecture, name_of, parse_like
from lgx.errors import UserError


def make_panel(option: str, texts: tuple[str, ...], base: Architecture) -> list[Architecture]:
    """The architectures of a panel.

    Args:
        option: Name of the option, for messages.
        texts: Names or specs.
        base: Gives classes and the size of the inputs.

    Raises:
        UserError: If a text is no architecture, reads other inputs than the base, or is given twice.
    """
    members: list[Architecture] = []
    for text in texts:
        try:
            member = parse_like(text, base)
        except UserError as error:
            raise UserError(f"model.{option}: {error}") from error
        what, one, other = ("texts", "max_len", "vocab_size")
        if isinstance(base, ViTArchitecture):
            what, one, other = ("images", "img_size", "in_chans")
        if any(getattr(member, key) != getattr(base, key) for key in (one, other)):
            raise UserError(f"model.{option}: {text} takes other {what} than model.arch; leave out {one} and {other}")
        members.append(member)
    if not members or len({name_of(member) for member in members}) < len(members):
        raise UserError(f"model.{option}: expected at least one architecture, each only once")
    return members

"""Where the classes of a task stand among those of a trained network, by their names."""

from collections.abc import Sequence

from lgx.errors import UserError


def class_order(known: Sequence[str], wanted: Sequence[str], place: str) -> list[int] | None:
    """Where the classes of a task stand among those of a trained network.

    Args:
        known: Names of the network's classes, in index order; empty where unknown.
        wanted: Names of the task's classes, likewise.
        place: What the network comes from, for the message.

    Returns:
        The index of each wanted class among the known ones; None where both orders are the same or one is unknown.

    Raises:
        UserError: If the names are not the same; the sentence says which.
    """
    if not known or not wanted or tuple(known) == tuple(wanted):
        return None
    if set(known) != set(wanted) or len(known) != len(wanted):
        gone, new = (", ".join(map(ascii, sorted(names)[:5])) for names in ({*known} - {*wanted}, {*wanted} - {*known}))
        raise UserError(
            f"{place}: its classes are not those of the data, which lacks {gone or 'none'} and has {new or 'none'} "
            f"instead; give the classes the names of the training again, or train a new head"
        )
    places = {name: index for index, name in enumerate(known)}
    return [places[name] for name in wanted]

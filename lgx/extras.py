"""What is installed on demand, and what to say where it is absent."""

from collections.abc import Iterator
from contextlib import contextmanager

from lgx.errors import UserError

_NLP = ("transformers", "tokenizers", "datasets")


@contextmanager
def nlp_extra(what: str) -> Iterator[None]:
    """Import transformers and datasets inside the block.

    Args:
        what: What needs them, for the message.

    Raises:
        UserError: If one of them is not installed; the sentence says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _NLP:
            raise
        raise UserError(f"{what}: text needs {error.name}, which is not installed; pip install 'lgx[nlp]'") from error

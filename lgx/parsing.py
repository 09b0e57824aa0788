"""One way of reading arguments: mistakes become one sentence, and a configuration imports nothing foreign."""

import os
import re
from typing import Any

from jsonargparse import ArgumentError, Namespace, set_parsing_settings

from lgx.errors import UserError

ALLOWED_IMPORTS = ["lgx", "data_modules", "lightning", "torch.optim", "torch.nn", "torchmetrics", "timm"]


def restrict_imports() -> None:
    """Let configurations name classes of known packages only.

    A class path imports its module before anything checks the class, so a foreign configuration could run code.
    ``LGX_ALLOW_IMPORTS=mypackage,other`` admits a user's own classes.
    """
    own = [name for name in os.environ.get("LGX_ALLOW_IMPORTS", "").split(",") if name]
    set_parsing_settings(import_path_denylist=["*"], import_path_allowlist=[*ALLOWED_IMPORTS, *own])


def parse(parser: Any, argv: list[str]) -> Namespace:
    """Parse arguments with a parser that was made with ``exit_on_error=False``.

    Raises:
        UserError: For whatever is wrong with them, in one sentence.
    """
    restrict_imports()
    try:
        return parser.parse_args(argv)
    except ArgumentError as error:
        raise UserError(one_sentence(str(error))) from error


def one_sentence(message: str) -> str:
    """The telling parts of a parser's message, on one line."""
    lines = [re.sub(r"\s+", " ", line).strip(" -") for line in message.splitlines()]
    return "; ".join(line for line in lines if line)[:600]

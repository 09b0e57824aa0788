"""Pages of reference: each command and each public function and class, from their signatures and docstrings."""

import ast
import contextlib
import importlib
import inspect
import io
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from docstring_parser import Docstring
from docstring_parser import parse as parse_docstring

from lgx.cli import COMMANDS, TRAINING, main
from lgx.commands.run import SizeOptions

_MODULES = {"import": "import_weights"}
"""Command -> its module, where Python reserves the command's name."""


def commands() -> str:
    """A section for each command: what it does, an example, its options."""
    return "\n\n".join([*map(_of_training, TRAINING), *(text for name in COMMANDS for text in _of_command(name))])


def interface(*names: str) -> str:
    """A section for each function or class, given its dotted name."""
    return "\n\n".join(_of_object(name) for name in names)


def _of_training(command: str) -> str:
    return f"## lgx {command}\n\n{_printed_help(command)}"


def _of_command(command: str) -> Iterator[str]:
    """The sections of a command, one for each of its subcommands."""
    module = importlib.import_module(f"lgx.commands.{_MODULES.get(command, command)}")
    functions = getattr(module, "COMMANDS", None) or {"": getattr(module, module.__name__.rpartition(".")[2], None)}
    for name, function in functions.items():
        title = f"## lgx {command} {name}".rstrip()
        further = module.further_options() if hasattr(module, "further_options") else ()
        yield f"{title}\n\n{_of_function(function, further) if function else _printed_help(command)}"


def _printed_help(command: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([command, "--help"])
    return f"```text\n{out.getvalue().strip()}\n```"


def _of_function(function: Callable[..., None], further: Sequence[Any]) -> str:
    read = _docstring(function)
    text, _, example = _description(read).partition("Example: ")
    parameters = inspect.signature(function).parameters
    lines = []
    for entry in read.params:
        if entry.arg_name == "size":
            lines += [(f"`--{each.arg_name}`", each.description or "") for each in _docstring(SizeOptions).params]
        elif entry.arg_name in parameters and entry.arg_name != "options":
            lines.append((_option(parameters[entry.arg_name]), entry.description or ""))
    lines += [(f"`--{option.name}`", option.help) for option in further]
    code = f"```bash\n{example.strip()}\n```" if example else ""
    return "\n\n".join(part for part in (text.strip(), code, _table("option", lines)) if part)


def _option(parameter: inspect.Parameter) -> str:
    if parameter.default is inspect.Parameter.empty and parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
        return f"`{parameter.name.upper()}`"
    if parameter.default in (None, False, inspect.Parameter.empty):
        return f"`--{parameter.name}`"
    return f"`--{parameter.name} {parameter.default}`"


def _of_object(name: str) -> str:
    module, _, last = name.rpartition(".")
    thing = getattr(importlib.import_module(module), last)
    if inspect.isfunction(thing):
        return f"### {name}\n\n{_signature(thing)}\n\n{_body(thing)}"
    members = [f"- `{_short(member)}` {_first_sentence(member)}" for member in _members(thing)]
    return "\n\n".join(part for part in (f"### {name}", _body(thing), "\n".join(members)) if part)


def _members(kind: type) -> Iterator[Any]:
    """Public methods and properties that a class documents itself, in the order of its source."""
    for name, member in vars(kind).items():
        function = member.fget if isinstance(member, property) else inspect.unwrap(getattr(member, "__func__", member))
        if not name.startswith("_") and inspect.isfunction(function) and function.__doc__:
            yield member


def _tree(function: Any) -> ast.FunctionDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree


def _signature(function: Any) -> str:
    tree = _tree(function)
    returns = f" -> {ast.unparse(tree.returns)}" if tree.returns else ""
    return f"```py\n{function.__name__}({ast.unparse(tree.args)}){returns}\n```"


def _short(member: Any) -> str:
    if isinstance(member, property):
        return str(member.fget.__name__)
    function = inspect.unwrap(getattr(member, "__func__", member))
    names = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    return f"{function.__name__}({', '.join(names)})"


def _first_sentence(member: Any) -> str:
    return _plain(_docstring(member).short_description or "")


def _body(thing: Any) -> str:
    read = _docstring(thing)
    lines = [(f"`{entry.arg_name}`", entry.description or "") for entry in read.params]
    ends = [f"**Returns:** {read.returns.description}"] if read.returns and read.returns.description else []
    ends += [f"**Raises** `{entry.type_name}`: {entry.description}" for entry in read.raises]
    parts = (_description(read), _table("name", lines), *map(_plain, ends))
    return "\n\n".join(part for part in parts if part)


def _docstring(thing: Any) -> Docstring:
    return parse_docstring(inspect.getdoc(thing) or "")


def _description(read: Docstring) -> str:
    return _plain("\n\n".join(part for part in (read.short_description, read.long_description) if part))


def _table(title: str, lines: Sequence[tuple[str, str]]) -> str:
    if not lines:
        return ""
    body = [f"| {name} | {' '.join(_plain(text).split()).replace('|', chr(92) + '|')} |" for name, text in lines]
    return "\n".join([f"| {title} | meaning |", "| --- | --- |", *body])


def _plain(text: str) -> str:
    """Markdown of a text with references of Sphinx; ``<class>`` outside of code is no HTML."""
    text = re.sub(r":\w+:`~?([^`<]*?)`", lambda reference: f"`{reference[1].rpartition('.')[2]}`", text)
    parts = text.replace("``", "`").split("`")
    return "`".join(part if number % 2 else part.replace("<", "&lt;") for number, part in enumerate(parts))

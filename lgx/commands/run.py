"""Make a command line from a typed function, with jsonargparse."""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, get_args, get_origin

from docstring_parser import parse as parse_docstring
from jsonargparse import ActionYesNo, ArgumentParser

from lgx.errors import UserError
from lgx.training.parsing import parse

if TYPE_CHECKING:
    from lgx.initialization.sizing import Budget
    from lgx.methods.initializers import InitializerOption


_MODULES = {"import": "import_weights"}
"""Command -> its module, where Python reserves the command's name."""


@dataclass(frozen=True)
class SizeOptions:
    """Options of every command that chooses the size of a network. A parameter of this type becomes the options.

    Args:
        arch: The network: a name (6-Small), a specification (depth=6,embed_dim=384,num_heads=6,img_size=224), or a ViT
            of timm (timm:vit_small_patch14_dinov2; timm:deit_tiny_patch16_224,img_size=64,in_chans=1). Missing values
            are the source's; a narrower network has fewer heads of the same width. Without a source they are 12
            layers, width 192, 3 heads, patches of 16 px and images of 224 px. For text a name (6-GPT2) or a
            specification (hf:depth=6,embed_dim=384,num_heads=6,max_len=128). `ancestor` is the whole network of a
            family. With a budget (--params, --macs, --latency) only the fixed values: depth=6.
        params: Budget of parameters, e.g. 9M; chooses depth, width and MLP ratio. Of a family it chooses the network
            with the best validation score.
        macs: Budget of multiply-accumulates of one example, e.g. 1.2G; chooses like --params.
        latency: Budget of time of a forward pass on this machine, e.g. 5ms; chooses depth and width.
    """

    arch: str | None = None
    params: str | None = None
    macs: str | None = None
    latency: str | None = None

    def budgets(self) -> "list[Budget]":
        """The upper limits that are given."""
        limits = (self.params, self.macs, self.latency)
        if limits == (None, None, None):
            return []
        from lgx.initialization.sizing import parse_budgets

        return parse_budgets(*limits)


def run(command: str, argv: list[str]) -> None:
    """Parse ``argv`` for a command and run it.

    Args:
        command: Name of a module in this package. The module has a function of the same name, and perhaps a function
            ``further_options`` that lists options which no signature can list; or a dict ``COMMANDS`` of functions by
            subcommand; or a function ``main`` that parses its arguments itself.
        argv: What follows the command's name.
    """
    name = _MODULES.get(command, command)
    module = importlib.import_module(f"lgx.commands.{name}")
    if hasattr(module, "main"):
        module.main(argv)
        return
    functions: dict[str, Callable[..., None]] | None = getattr(module, "COMMANDS", None)
    if functions is None:
        further = module.further_options() if hasattr(module, "further_options") else None
        call(f"lgx {command}", getattr(module, name), argv, further)
    else:
        call_one_of(f"lgx {command}", functions, argv)


def call_one_of(program: str, functions: Mapping[str, Callable[..., None]], argv: Sequence[str]) -> None:
    """Call the function that the first argument names, see :func:`call`; list them if there is none."""
    if not argv or argv[0] in ("-h", "--help"):
        texts = {name: (inspect.getdoc(function) or "").splitlines()[0] for name, function in functions.items()}
        listed = "\n".join(f"  {name:<12}{text}" for name, text in texts.items())
        print(f"usage: {program} COMMAND [options]\n\n{listed}")
    elif argv[0] in functions:
        call(f"{program} {argv[0]}", functions[argv[0]], argv[1:])
    else:
        raise UserError(f"unknown command {argv[0]!r} of {program}; the commands are {', '.join(functions)}")


def call(
    program: str,
    function: Callable[..., None],
    argv: Sequence[str],
    options: Sequence["InitializerOption"] | None = None,
) -> None:
    """Parse a command line and call a function with the arguments.

    Required parameters become positional arguments (a list: one or more), booleans become flags, and keyword-only and
    other optional parameters become ``--options``.

    Args:
        program: What the help calls the command, e.g. ``lgx compare``.
        function: The function, with types and a docstring.
        argv: What follows the program's name.
        options: Further options, which the function gets as one mapping ``options``.
    """
    parameters = inspect.signature(function).parameters
    parser = make_parser(program, function, options)
    parsed: dict[str, Any] = vars(parse(parser, argv))
    # The types of jsonargparse that limit numbers derive from int.
    arguments = {
        name: value + 0 if isinstance(value, int) and not isinstance(value, bool) else value
        for name, value in parsed.items()
    }
    if options is not None:
        arguments["options"] = {option.name: arguments[option.name] for option in options}
    if "size" in parameters:
        arguments["size"] = SizeOptions(**{field.name: parsed[field.name] for field in fields(SizeOptions)})
    function(**{name: arguments[name] for name in parameters})


def make_parser(
    program: str, function: Callable[..., None], options: Sequence["InitializerOption"] | None = None
) -> ArgumentParser:
    """Make the parser of a function's arguments, see :func:`call`.

    Args:
        program: What the help calls the command.
        function: The function.
        options: Further options.
    """
    parameters = inspect.signature(function).parameters
    flags = {name: value for name, value in parameters.items() if value.annotation is bool}
    lists = {
        name: get_args(each.annotation) for name, each in parameters.items() if get_origin(each.annotation) is list
    }
    docstring = parse_docstring(inspect.getdoc(function) or "")
    helps = {entry.arg_name: entry.description for entry in docstring.params}
    text = "\n\n".join(part for part in (docstring.short_description, docstring.long_description) if part)
    text, _, example = text.partition("Example: ")
    parser = ArgumentParser(
        prog=program,
        description=text,
        epilog=example and f"example: {example}",
        exit_on_error=False,
        allow_abbrev=False,
    )
    for name, (item,) in lists.items():
        parser.add_argument(name, type=item, nargs="+", help=helps.get(name))
    if "size" in parameters:
        parser.add_class_arguments(SizeOptions, as_group=False)
    skipped: set[str | int] = {*lists, *flags, "size", "options"}
    parser.add_function_arguments(function, as_group=False, as_positional=True, skip=skipped)
    for name, parameter in flags.items():
        parser.add_argument(f"--{name}", action=ActionYesNo, default=parameter.default, help=helps.get(name))
    for option in options or ():
        parser.add_argument(f"--{option.name}", type=option.type, default=None, help=option.help)
    return parser

"""The group of all commands, and the conversion of typer's usage errors to one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final, get_args

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

import wse
from wse.cli.parameters import with_options
from wse.errors import BadInput, UnknownName
from wse.option import Panel

PANELS: Final = tuple(panel for panel in get_args(Panel) if panel)
"""Headings in order of appearance. Options without a heading are under "Options"."""

HELP_NAMES: Final = ("-h", "--help")


class PanelCommand(TyperCommand):
    """A command whose help lists its options under headings such as "Model" and "Output"."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, and refuse an option that is given more than once but does not repeat."""
        extra_words: list[str] = super().parse_args(ctx, list(args))
        if not ctx.resilient_parsing:  # which means that a shell completes the line
            parsed: list[Any] = self.make_parser(ctx).parse_args(args=list(args))[2]
            repeated = next((p for p in parsed if parsed.count(p) > 1 and not (p.multiple or p.is_flag)), None)
            if repeated is not None:
                ctx.fail(f"{_label(repeated)} is given {parsed.count(repeated)} times; give it once")
        return extra_words

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words after the command's name in the usage line, such as ``[OPTIONS]``."""
        return ["[OPTIONS]", *(_argument(p) for p in self.get_params(ctx) if p.param_type_name == "argument")]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options under each heading."""
        for title, rows in option_rows(self, ctx).items():
            with formatter.section(title):
                formatter.write_dl(rows)


def option_rows(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Return the arguments and options in a command's help, grouped by heading.

    Args:
        command: The command.
        ctx: Context of the command.

    Returns:
        For each heading, pairs of usage and description. Headings without entries are omitted.
    """
    rows: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Arguments", *PANELS)}
    parameters = command.get_params(ctx)
    own_panels = any(getattr(p, "rich_help_panel", None) for p in parameters)
    for parameter in parameters:
        record = parameter.get_help_record(ctx)
        if record is None:
            continue
        if parameter.param_type_name == "argument":
            rows["Arguments"].append((str(parameter.metavar), record[1]))
        else:
            last = "Output" if own_panels and "--help" in parameter.opts else "Options"
            rows[getattr(parameter, "rich_help_panel", None) or last].append(record)
    return {title: entries for title, entries in rows.items() if entries}


def _argument(parameter: Any) -> str:
    """Return an argument as the usage line shows it, with square brackets if it is optional."""
    text = str(parameter.metavar)
    return text if parameter.required or text.startswith("[") else f"[{text}]"


UsageError: Any = typer.BadParameter.__mro__[1]  # base class of typer's usage errors, which typer does not export


def _function(name: str) -> Callable[..., None]:
    """Return the function of a command: ``serve_sim`` in ``wse/cli/serve_sim.py`` for ``serve-sim``."""
    function_name = name.replace("-", "_")
    module_name = "catalogue" if name in ("models", "wafers", "gpus", "mappings") else function_name
    function: Callable[..., None] = getattr(import_module(f"wse.cli.{module_name}"), function_name)
    return function


COMMANDS: Final = {
    name: _function(name)
    for name in (
        *("run", "compile", "estimate", "compare", "serve-sim", "serve", "inspect", "view", "export"),
        *("validate", "claims", "pattern", "scenario", "sweep", "explore"),
        *("models", "wafers", "gpus", "mappings", "cache"),
    )
}
"""Function of each command, in the order of the help."""

SEARCHING: Final = frozenset(
    ("run", "compile", "estimate", "compare", "serve-sim", "serve", "validate", "claims", "scenario", "sweep")
)
"""Commands that search for layouts. They use the cache on disk and have the option ``--no-cache``."""

FIRST_COMMANDS: Final = """\
Predict the speed and cost of language models on wafers and GPUs, or run them on an emulated wafer.

  wse run                   a small model, bundled, on a small wafer
  wse inspect wse-run.h5    where the cycles of that run went
  wse estimate llama-3-8b   a large model on full-size wafers, from its config

wse --help lists all commands, wse COMMAND --help shows examples.
"""
"""Text that ``wse`` prints if no command is given."""


def command() -> Any:
    """Return the command ``wse`` with all of its subcommands.

    The parser of a subcommand is built only when it is requested.
    """
    app = typer.Typer(
        cls=Commands,
        rich_markup_mode=None,
        invoke_without_command=True,
        context_settings={"help_option_names": list(HELP_NAMES)},
    )
    app.callback()(_group)
    return get_command(app)


class Commands(TyperGroup):
    """The group of all commands in ``COMMANDS``.

    Its help lists the commands first and the options of the group last.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name, or None if there is none."""
        return _subcommand(cmd_name) if cmd_name in COMMANDS else None

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the summary line of each command, then the options of the group."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, str(f.__doc__).partition("\n")[0]) for name, f in COMMANDS.items()])
        with formatter.section("Options"):
            formatter.write_dl(option_rows(self, ctx)["Options"])


@cache
def _subcommand(name: str) -> Any:
    """Build the parser of a command. A process that calls several commands builds each parser once."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=PanelCommand)(with_options(COMMANDS[name], searches=name in SEARCHING))
    return get_command(app)


def _group(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,  # noqa: FBT002
) -> None:
    """Predict the speed and cost of language models on wafers and GPUs, or run them on an emulated wafer."""
    if version:
        typer.echo(f"wse {wse.__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(FIRST_COMMANDS, nl=False)


def usage_error(error: Exception, arguments: Sequence[str]) -> str | None:
    """Return a usage error as one line, or None for any other error.

    Args:
        error: Error raised by typer.
        arguments: Command-line arguments.
    """
    if not isinstance(error, UsageError):
        return None
    first = next((a for a in arguments if not a.startswith("-")), "")
    name = first if first in COMMANDS else ""
    place = f"{name}: " if name else ""
    remedy = f"wse {name} --help shows an example" if name else "wse --help lists the commands"
    context: Any = getattr(error, "ctx", None)
    option = getattr(error, "option_name", None)
    parameter: Any = getattr(error, "param", None)
    kind = type(error).__name__
    if kind == "NoSuchOption" and option is not None:
        listed_by = f"wse {name} --help" if name else "wse --help"
        other_commands = _commands_with(option)
        similar_options = [] if other_commands else _options(context)
        text = f"{place}{UnknownName('option', option, similar_options, listed_by=listed_by)}"
        if other_commands:
            text += f"; it is an option of {', '.join(f'`wse {command}`' for command in other_commands)}"
        setting = option.removeprefix("--").replace("-", "_")
        if name in ("sweep", "compare") and _can_be_swept(setting):
            text += f"; {'give' if name == 'sweep' else '`wse sweep` has'} --set {setting}=VALUE,..."
    elif _plain(error).startswith("no such command"):
        text = str(UnknownName("command", first, COMMANDS))
    elif kind == "MissingParameter":
        text = f"{place}{_label(parameter)} is missing; {remedy}"
    else:
        text = f"{place}{_plain(error)}; {remedy}"
    return str(BadInput(text))


def _commands_with(option: str) -> list[str]:
    """Return the names of the commands that have an option of a given name, such as ``--mesh``."""
    contexts = {name: typer.Context(_subcommand(name), help_option_names=list(HELP_NAMES)) for name in COMMANDS}
    return [name for name, context in contexts.items() if option in _options(context)]


def _can_be_swept(setting: str) -> bool:
    """Return whether `wse sweep` can vary an option, given its name in ``--set``."""
    from wse.studies.sweep.grid import known_fields

    return setting in known_fields()


def _plain(error: Exception) -> str:
    """Return the message of a typer error, with a lower-case first letter and no full stop."""
    text = str(getattr(error, "message", error)).rstrip(".")
    return text[:1].lower() + text[1:]


def _label(parameter: Any) -> str:
    """Return the long name of an option, or the placeholder of an argument in the usage line."""
    options = [name for name in getattr(parameter, "opts", []) if name.startswith("--")]
    return str(options[0]) if options else str(parameter.metavar or parameter.name).upper()


def _options(context: Any) -> list[str]:
    """Return the names of a command's options, such as ``--mesh``, excluding hidden options."""
    parameters = context.command.get_params(context) if context is not None else []
    visible_parameters = [p for p in parameters if not getattr(p, "hidden", False)]
    return [name for p in visible_parameters for name in (*p.opts, *p.secondary_opts) if name.startswith("--")]

"""Help of commands: options under headings, arguments by their metavar, plain text of any width."""

from __future__ import annotations

from typing import Any, Final

from typer.core import TyperCommand

PANELS: Final = (
    "Model",
    "Wafer and mapping",
    "GPUs",
    "Prompt",
    "Serving",
    "Sampling",
    "Drafts",
    "Trace",
    "Options",
    "Machines",
    "Output",
)
"""Headings in order of appearance. Options without a heading are under "Options"."""

HELP_NAMES: Final = ("-h", "--help")


class PanelCommand(TyperCommand):
    """A command whose help lists its options under headings such as "Model" and "Output"."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the texts after the command's name in the usage line, such as ``[OPTIONS]``."""
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
    """Return an argument as the usage line shows it, in brackets if it is optional."""
    text = str(parameter.metavar)
    return text if parameter.required or text.startswith("[") else f"[{text}]"

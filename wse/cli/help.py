"""Help of commands: options under the headings of their panels, arguments by their metavar, plain text of any width."""

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
"""Headings in the order in which they stand; options without one are under "Options"."""

HELP_NAMES: Final = ("-h", "--help")


class PanelCommand(TyperCommand):
    """A command whose help has its options in panels."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words behind the command's name in the line of its usage."""
        return ["[OPTIONS]", *(_argument(p) for p in self.get_params(ctx) if p.param_type_name == "argument")]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then the options of each panel."""
        for title, rows in option_rows(self, ctx).items():
            with formatter.section(title):
                formatter.write_dl(rows)


def option_rows(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Arguments and options that a command shows, as (how it is given, what it is), by heading."""
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
    return {title: those for title, those in rows.items() if those}


def _argument(parameter: Any) -> str:
    """Return an argument in the line of usage: in brackets where it may be left out."""
    text = str(parameter.metavar)
    return text if parameter.required or text.startswith("[") else f"[{text}]"

"""Generator of docs/reference/cli.md: every command with the same descriptions as ``--help``."""

from __future__ import annotations

import inspect
import re
from typing import Any, Final

from wse.cli.app import COMMANDS, command, option_rows
from wse.cli.reference import GENERATED
from wse.reports.table import markdown_table

_HEAD: Final = f"""\
# Command line

{GENERATED}

This page lists all commands of `wse` with their options. `wse COMMAND --help` shows the same. Every
command also accepts `--json`, which prints [these keys](json.md). Logs and progress go to stderr.

The exit code is 0 on success, 2 if the user can correct the command (with one line on stderr), and
1 if wse has a bug. `wse --install-completion` installs the completion of commands, options and
names in your shell. A *trace* is an HDF5 file that `wse run` or `wse estimate --trace` writes ([its
content](../../traces/FORMAT.md)).
"""


def page() -> str:
    """Return the content of docs/reference/cli.md, the reference page of all commands."""
    group = command()
    with group.make_context("wse", [], resilient_parsing=True) as context:
        sections = [_section(name, group.get_command(context, name), context) for name in COMMANDS]
    return "\n".join([_HEAD, *sections])


def _section(name: str, command: Any, parent: Any) -> str:
    """Return the section of a command: usage, description, and tables of its options.

    Args:
        name: Name of the command.
        command: The command.
        parent: Context of the group of all commands.
    """
    context = command.context_class(command, info_name=name, parent=parent)
    usage = " ".join(["wse", name, *command.collect_usage_pieces(context)])
    lines = [f"## wse {name}", "", f"    {usage}", "", _text(command.help), ""]
    for title, rows in option_rows(command, context).items():
        entries = [(option, doc) for option, doc in rows if "--help" not in option and option != "--json"]
        if entries:
            lines += markdown_table((title, ""), ((f"`{option}`", doc.replace("  [", " [")) for option, doc in entries))
            lines.append("")
    return "\n".join(lines)


def _text(text: str) -> str:
    """Return a command's docstring as Markdown.

    Examples become code blocks. A marker line (a line that contains only a backspace character)
    precedes them.
    """
    return re.sub(r"^ {2}", "    ", re.sub(r"\n*\x08\n", "\n\n", inspect.cleandoc(text)), flags=re.MULTILINE)

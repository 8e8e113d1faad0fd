"""``docs/reference/cli.md``: every command with its options, from the same descriptions as ``--help``.

``python -m wse.cli.reference`` prints it.
"""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any, Final

from wse.cli.app import COMMANDS, command
from wse.cli.help import option_rows

HEAD: Final = """# Command line

Every command of `wse` with its options, written by `python -m wse.cli.reference`; `wse COMMAND --help` shows
the same. All commands take `--json`, print logs and progress to stderr, and exit with 0, with 2 for what the user can
mend (one line on stderr), with 1 for a bug of ours. `wse --install-completion` has the shell complete commands, options
and the names of models, wafers and mappings.
"""


def reference() -> str:
    """The page."""
    group = command()
    with group.make_context("wse", [], resilient_parsing=True) as context:
        sections = [_section(name, group.get_command(context, name), context) for name in COMMANDS]
    return "\n".join([HEAD, *sections])


def _section(name: str, one: Any, parent: Any) -> str:
    context = one.context_class(one, info_name=name, parent=parent)
    usage = " ".join(["wse", name, *one.collect_usage_pieces(context)])
    lines = [f"## wse {name}", "", f"    {usage}", "", _text(one.help)]
    for title, rows in option_rows(one, context).items():
        kept = [(given, doc) for given, doc in rows if "--help" not in given and given != "--json"]
        if kept:
            lines += [
                "",
                f"| {title} | |",
                "|---|---|",
                *(f"| `{_cell(given)}` | {_cell(doc)} |" for given, doc in kept),
            ]
    return "\n".join([*lines, ""])


def _text(text: str) -> str:
    """A docstring as Markdown: examples, which stand behind a line of their own, as code."""
    return re.sub(r"^ {2}", "    ", re.sub(r"\n*\x08\n", "\n\n", inspect.cleandoc(text)), flags=re.MULTILINE)


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("  [", " [")


if __name__ == "__main__":
    sys.stdout.write(reference())

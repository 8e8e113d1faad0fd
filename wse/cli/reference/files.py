"""Generated reference pages: their paths, the functions that return them, and the kernel page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from wse.cli.reference import GENERATED, command_line, first_line, json_keys, python_api
from wse.reports.table import markdown_table
from wse_kernels.library import COMPUTE

_KERNELS_HEAD: Final = f"""\
# Kernels

{GENERATED}

Traces and `wse inspect` name a step by its compute kernel or by its communication pattern
(`reduce`, `all_reduce`, `multicast`, see the [glossary](../glossary.md#communication)). Letters in
brackets are sizes on a PE: M tokens, K inputs, N outputs, H heads, F features, T cache entries.
"""


def kernels_page() -> str:
    """Return the content of docs/reference/kernels.md, the table of compute kernels."""
    rows = ((f"`{name}`", first_line(kernel).replace("``", "`")) for name, kernel in COMPUTE.items())
    return "\n".join([_KERNELS_HEAD, *markdown_table(("kernel", "what it computes on a PE"), rows), ""])


FILES: Final[dict[str, Callable[[], str]]] = {
    "docs/reference/cli.md": command_line.page,
    "docs/reference/json.md": json_keys.page,
    "docs/reference/kernels.md": kernels_page,
    "docs/reference/python.md": python_api.page,
}
"""The functions that return the content of the pages, keyed by path."""

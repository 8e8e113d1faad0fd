"""Generator of docs/reference/kernels.md: every compute kernel with the first line of its docstring."""

from __future__ import annotations

from typing import Final

from wse.cli.reference.docstring import GENERATED, first_line
from wse.reports.markdown import markdown_table
from wse_kernels.library import COMPUTE

_HEAD: Final = f"""\
# Kernels

{GENERATED}

Traces and `wse inspect` name a step by its compute kernel or by its communication pattern
(`reduce`, `all_reduce`, `multicast`, see the [glossary](../glossary.md#communication)). Letters in
brackets are sizes on a PE: M tokens, K inputs, N outputs, H heads, F features, T cache entries.
"""


def page() -> str:
    """Return the content of docs/reference/kernels.md, the table of compute kernels."""
    rows = ((f"`{name}`", first_line(kernel).replace("``", "`")) for name, kernel in COMPUTE.items())
    return "\n".join([_HEAD, *markdown_table(("kernel", "what it computes on a PE"), rows), ""])

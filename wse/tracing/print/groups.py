"""Print-out of ``wse inspect --by``: cycles of each phase by cause, op, layer or another key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rich.console import Console

from wse.reports.table import Column, Table, number
from wse.reports.terminal import bar, count, heading, lines, percent, plural, printable, short_number
from wse.reports.terminal_table import print_table
from wse.tracing.print.folds import equal_layers_text, op_text
from wse.tracing.query.costs.groups import Group, GroupsView

OUTSIDE: Final = "outside of the layers"
MAX_GROUPS: Final = 20
"""Number of rows to print for each phase if the user requested no number."""


def print_groups(console: Console, view: GroupsView, top: int | None) -> None:
    """Print a table for each phase of a run, with the cycles of each group of steps.

    Cycles of the prefill phase are totals over all prompt chunks. Cycles of other phases are means
    per pass, unless the groups are tokens.

    Args:
        console: Console to print to.
        view: Groups of all phases.
        top: Number of groups to print for each phase. None prints ``MAX_GROUPS``.
    """
    row_count = MAX_GROUPS if top is None else top
    width = 8 if console.width < 90 else 20
    for phase, totals in view.phases.items():
        groups = [group for group in view.groups if group.phase == phase]
        passes = plural(totals.passes, "chunk" if phase == "prefill" else "pass" if totals.passes == 1 else "passe")
        is_mean = phase != "prefill" and view.by != "token"
        total_text = "of the whole prompt" if phase == "prefill" else "of each token"
        mean_text = "of a mean pass over several tokens" if phase == "verify" else "of a mean generated token"
        cycles_text = mean_text if is_mean else total_text
        heading(console, f"{phase.capitalize()} by {view.by}", f"{passes}; cycles {cycles_text}")
        columns = _columns(view.by, totals.passes if is_mean else 1, width)
        print_table(console, Table(columns=columns, rows=groups[:row_count]))
        if len(groups) > row_count:
            lines(console, [(f"and {count(len(groups) - row_count)} more", "--top N: more of them; --csv FILE: all")])


def _columns(by: str, passes: int, width: int) -> tuple[Column, ...]:
    """Return the columns of a table that has a row for each group of steps.

    Args:
        by: What the steps are grouped by, such as "op" or "cause".
        passes: Number of passes by which the amounts are divided.
        width: Width of the bars in characters.
    """

    def mean(text: Callable[[float], str], name: str) -> Callable[[Group], str]:
        """Return a function that formats a group's amount ``name`` as a mean per pass."""
        return lambda group: text(getattr(group, name) / passes)

    columns = (
        Column(key=by, title=by, cell=lambda group: _name(by, group), wraps=True, min_width=24),
        Column(key="cycles", title="cycles", cell=mean(count, "cycles"), numeric=True),
        number("fraction", "share", percent),
        Column(key="bar", cell=lambda group: bar(group.fraction, width, group.cause or "compute"), priority=1),
    )
    if by == "cause":
        return (*columns, Column(key="most_in", title="most of it in", cell=_most_in, wraps=True))
    ops = [number("count", "ops")] if by == "kind" else []
    return (
        *columns,
        *ops,
        Column(key="words", title="words", cell=mean(short_number, "words"), numeric=True, priority=2),
        Column(key="hops", title="hops", cell=mean(short_number, "hops"), numeric=True, priority=3),
        Column(key="mostly", title="mostly"),
    )


def _most_in(group: Group) -> str:
    """Return the op with the most cycles in a group of steps, and its percentage of the cycles.

    The result is "" if the op is unknown.
    """
    return "" if group.most_fraction is None else f"{printable(group.most_in)} {percent(group.most_fraction)}"


def _name(by: str, group: Group) -> str:
    """Return the display name of a group of steps, such as an op, a layer or a token.

    Args:
        by: What the steps are grouped by.
        group: The group.
    """
    if by == "token":
        return _token_name(group)
    if group.layers is not None:
        return _folded_name(by, group)
    if by == "layer" and (group.layer or 0) < 0:
        return OUTSIDE
    if by == "wafer" and (group.wafer or 0) < 0:
        return "the host"
    return printable(getattr(group, by)) or "no op"


def _folded_name(by: str, group: Group) -> str:
    """Return the name of a group that combines equal ops, equal layers, or a kind of op."""
    layers, number = group.layers or (), group.count or 1
    if by == "layer":
        return equal_layers_text(layers, number) if layers else OUTSIDE
    if by == "kind":
        return printable(group.kind) or "no op"
    return op_text(group.op or "", layers, number)


def _token_name(group: Group) -> str:
    """Return the display name of a pass group: its tokens as a range such as "3-5".

    A single token is shown with its index and text.
    """
    if group.token is None or group.tokens is None or group.token < 0:
        return "no token"
    if group.tokens > 1:
        return f"{group.token}-{group.token + group.tokens - 1}"
    return f"{group.token} {printable(group.text)!r}" if group.text else str(group.token)

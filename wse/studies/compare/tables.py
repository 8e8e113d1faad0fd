"""Tables of a comparison: the best rows, and all rows with their speeds, limits and traffic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from wse.reports.number_text import count, in_bytes, percent, rate_and_latency, seconds, short_number, three_figures
from wse.reports.result import column_of
from wse.reports.table import Column, Table
from wse.reports.terminal import printable
from wse.tracing.query.two_traces.comparison_row import ComparisonRow

_column = partial(column_of, ComparisonRow)


def _number(key: str, title: str, formatter: Callable[[Any], str], **settings: Any) -> Column:
    """Return a table column of formatted numbers for a field of `ComparisonRow`."""
    return _column(key, title, formatter=formatter, numeric=True, **settings)


def mapping_text(row: ComparisonRow) -> str:
    """Describe the mapping of a row with text such as "auto: pipeline".

    The text contains the requested mapping, the chosen mapping if it is a different one, and the
    objective for which the layout was chosen.
    """
    mapping = row.mapping if row.chosen is None else f"{row.mapping}: {row.chosen}"
    return printable(f"{mapping}{row.purpose}")


def link_text(row: ComparisonRow) -> str:
    """Format the bandwidth and latency of the inter-wafer link; empty for one wafer."""
    if row.link_bytes_per_s is None:
        return ""
    return rate_and_latency(row.link_bytes_per_s, row.link_latency_s)


def limit_text(row: ComparisonRow) -> str:
    """Return the cause on which most of a token's time is spent, such as "hops 58 %".

    The percentage is left out if the cycles of each cause are unknown. The text is empty if the
    cause is unknown.
    """
    if row.limited_by is None or row.cycles_by is None:
        return row.limited_by or ""
    return f"{row.limited_by} {row.cycles_by[row.limited_by] / sum(row.cycles_by.values()):.0%}".replace("%", " %")


def _all_users(row: ComparisonRow) -> str:
    """Format the total tokens/s of all users, with "≤" before an upper bound."""
    return f"{'' if row.tokens_per_s_exact else '≤ '}{count(row.tokens_per_s or 0.0)}"


def _users(row: ComparisonRow) -> str:
    """Format the number of users, such as "64" or "64 fit".

    The word "fit" means that more users would increase the throughput but do not fit.
    """
    return "" if row.users is None else f"{count(row.users)}{' fit' if row.saturated is False else ''}"


IMPOSSIBLE: Final = "Machines that cannot serve this"
"""Title of the table of impossible combinations, with the reasons."""
MAPPING: Final = _column("mapping", "mapping", doc="how ops and layers are distributed", cell=mapping_text)
DTYPE: Final = _column("dtype", "type", priority=5)
WAFERS: Final = _number("wafers", "wafers", count, doc="")
LINK: Final = _column("link_bytes_per_s", "link", doc="rate and latency of each link between wafers", cell=link_text)
ONE_USER: Final = _number("tokens_per_s_per_user", "one user", count, best="largest")
USERS: Final = _number(
    "users",
    "users",
    count,
    doc="concurrent users who saturate the machine; `fit`: whose KV caches fit, if they do not saturate it",
    cell=_users,
)
ALL_USERS: Final = _number("tokens_per_s", "all users", count, cell=_all_users, best="largest")
DOLLARS: Final = _number("usd_per_million_tokens", "USD/Mtok", three_figures, best="smallest", priority=1)
TTFT: Final = _number("ttft_s", "TTFT", seconds, best="smallest", priority=3)
CROSSING: Final = _number("crossing_fraction", "crossing", percent, priority=2)
LIMITED_BY: Final = _column(
    "limited_by",
    "most time",
    doc="the cause that takes most of a token's time, and its share",
    cell=limit_text,
    priority=4,
)
USERS_LIMITED_BY: Final = _column("users_limited_by", "users by", priority=4)
PROMPT: Final = _number("prefill_tokens_per_s", "prompt", count, best="largest", priority=3)
TRAFFIC: Final = (
    CROSSING,
    _number("wafer_link_bytes_per_token", "wafer links", in_bytes),
    _number("host_bytes_per_token", "host", in_bytes),
    _number("mesh_hops_per_token", "mesh hops", short_number, doc="hops of 32-bit words for a token", priority=1),
)
RESOURCES: Final = (
    _number("sram_fullest_pe_fraction", "SRAM", percent, priority=1),
    _number("power_w", "power", lambda watts: f"{watts / 1e3:,.0f} kW", priority=2),
    _number("joules_per_token", "energy", lambda joules: f"{three_figures(joules)} J", priority=2),
)
SPEEDS: Final = "speeds of one user and of all users in tokens/s"
"""Note on the columns `ONE_USER` and `ALL_USERS`."""
LIMIT: Final = _column("limit", "one user; all users", doc="", wraps=True)


def verdict_table(verdict: Sequence[str]) -> Table:
    """Return the verdict as a table with one sentence per row."""
    sentences = [{"sentence": sentence} for sentence in verdict]
    return Table(columns=(Column(key="sentence", wraps=True),), rows=sentences, title="Verdict")


def best_table(rows: Sequence[ComparisonRow], *, by_link: bool, footer: Sequence[tuple[str, str]]) -> Table:
    """Return the table of the best mappings for each wafer count.

    Args:
        rows: Best rows for each wafer count.
        by_link: Whether there are best rows for each inter-wafer link, so that a column must show
            the link.
        footer: (label, text) pairs to show below the table, such as prices.
    """
    link = (LINK,) if by_link else ()
    columns = (WAFERS, *link, MAPPING, DTYPE, ONE_USER, USERS, ALL_USERS, DOLLARS, TTFT, CROSSING, LIMITED_BY)
    title = "Best mappings by number of wafers" + (" and link" if link else "")
    note = f"{SPEEDS}; * best of a column"
    return Table(columns=columns, rows=rows, title=title, note=note, footer=footer)


def detail_tables(rows: Sequence[ComparisonRow], footer: Sequence[tuple[str, str]]) -> tuple[Table, ...]:
    """Return tables with all figures of the compared combinations, except impossible ones.

    The tables show speed and cost, traffic, SRAM and power, and limits.

    Args:
        rows: Rows of the possible combinations.
        footer: (label, text) pairs to show below the cost table, such as prices.
    """
    link = (LINK,) if any(row.link_bytes_per_s is not None for row in rows) else ()
    machine = (WAFERS, *link, MAPPING)
    speed = (*machine, DTYPE, ONE_USER, USERS, ALL_USERS, DOLLARS, PROMPT, LIMITED_BY, USERS_LIMITED_BY)
    by_limit: dict[str | None, ComparisonRow] = {}
    for row in rows:
        by_limit.setdefault(row.limit, row)
    limits = [*by_limit.values()]
    return (
        Table(columns=speed, rows=rows, title="Speed, users and cost", note=SPEEDS, footer=footer),
        Table(columns=(*machine, *TRAFFIC), rows=rows, title="Traffic of a token"),
        Table(columns=(*machine, *RESOURCES), rows=rows, title="SRAM, power and energy"),
        Table(columns=(*machine, LIMIT), rows=limits, title="Limits", note="one row for each distinct limit"),
    )


def notes(columns: Iterable[Column]) -> list[tuple[str, str]]:
    """Return the (title, explanation) pairs of all columns that have an explanation."""
    return list({column.title: (column.title, column.doc) for column in columns if column.doc}.values())


def machine_text(row: ComparisonRow) -> str:
    """Return a phrase such as "pipeline on 4", with the mapping and wafer count of a row."""
    return f"{mapping_text(row)} on {row.wafers:,}"


def reasons(rows: Sequence[ComparisonRow]) -> list[tuple[str, str]]:
    """Return the reasons why combinations of mapping and wafer count are impossible.

    Returns:
        A (combinations, reason) pair of strings for each distinct reason.
    """
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        if row.reason is not None:
            by_reason.setdefault(row.reason, []).append(machine_text(row))
    return [(", ".join(machines), printable(reason)) for reason, machines in by_reason.items()]

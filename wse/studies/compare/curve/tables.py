"""The tables of a comparison of wafers and GPUs: tiers, users at the same time, and published speeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from wse.reports.result import docs_of
from wse.reports.table import Column, Table
from wse.reports.terminal import count, printable, seconds, three_figures
from wse.serving.tiers import FAST_TIMES
from wse.studies.compare.curve.row import FAST, PLAIN, CurveRow
from wse.studies.compare.tables import dollars
from wse.studies.results.operating_points import DEFINITIONS
from wse.studies.results.published import PublicPoint


def price(number: float) -> str:
    """Dollars, with cents where they matter, and three digits of less than ten cents."""
    return dollars(number) if number >= 0.1 else f"{number:.3g}"


def _joules(number: float) -> str:
    return three_figures(number)


def _speed(row: Any) -> str:
    return three_figures(row.tokens_per_s_per_user)


def _column(key: str, title: str, **settings: Any) -> Column:
    return Column(**{"key": key, "title": title, "doc": docs_of(CurveRow)[key].text, **settings})


MACHINE: Final = _column("machine", "machine", wraps=True, min_width=24)
USERS: Final = _column("users", "users", formatter=count, numeric=True)
SPEED: Final = _column("tokens_per_s_per_user", "tok/s/user", cell=_speed, numeric=True)
ALL_USERS: Final = _column("tokens_per_s", "tok/s", formatter=count, numeric=True, priority=2)
DOLLARS: Final = _column("usd_per_million_tokens", "USD/Mtok", formatter=price, numeric=True)
RANGE: Final = _column(
    "usd_per_million_tokens_low",
    "low to high",
    doc="the same at both ends of the price's range",
    cell=lambda row: f"{price(row.usd_per_million_tokens_low)} to {price(row.usd_per_million_tokens_high)}",
    numeric=True,
    priority=3,
)
TTFT: Final = _column("ttft_s", "TTFT", formatter=seconds, numeric=True, priority=4)
DTYPE: Final = _column("dtype", "type", priority=1)
JOULES: Final = _column("joules_per_token", "J/token", formatter=_joules, numeric=True)
TIER: Final = _column("tier", "tier")
LINE: Final = (MACHINE, DTYPE, USERS, TTFT, SPEED, ALL_USERS, DOLLARS, RANGE, JOULES, TIER)


def curve_tables(
    rows: Sequence[CurveRow],
    public: Sequence[PublicPoint],
    plain_speed: float,
    *,
    detail: bool,
    footer: Sequence[tuple[str, str]],
) -> tuple[Table, ...]:
    """Return the tiers of machines with a best row, the best rows or all, and published speeds; prices below rows."""
    machines = {row.machine for row in rows if row.best or detail}
    shown = [row for row in rows if row.best or detail]
    title = "Users at a time" if detail else "Users at a time, where no machine of the kind is cheaper"
    return (
        _tier_table([row for row in rows if row.machine in machines], plain_speed),
        Table(columns=LINE, rows=shown, title=title, footer=[*DEFINITIONS, *footer]),
        *([public_table(public)] if public else []),
    )


def _tier_table(rows: Sequence[CurveRow], plain_speed: float) -> Table:
    """Return a row for each tier of a machine; the fast one with its speed and price over those of the plain one."""
    plain = {row.machine: row for row in rows if PLAIN in row.tiers}

    def times(key: str) -> Column:
        def cell(row: CurveRow) -> str:
            if row.tier != FAST or row.machine not in plain:
                return ""
            return f"{getattr(row, key) / getattr(plain[row.machine], key):.2g} x"

        title = "speed" if key == SPEED.key else "cost"
        return Column(key=f"{key}_over_plain", title=title, cell=cell, doc="over the plain tier", numeric=True)

    columns = (TIER, MACHINE, DTYPE, USERS, SPEED, times(SPEED.key), DOLLARS, times(DOLLARS.key), JOULES)
    return Table(
        columns=columns,
        rows=[
            replace(row, tier=tier)
            for machine in dict.fromkeys(row.machine for row in rows)
            for tier in (PLAIN, FAST)
            for row in rows
            if row.machine == machine and tier in row.tiers
        ],
        title="Tiers",
        note=f"plain: the most users of {plain_speed:g} tokens/s each, up to those that saturate the machine; fast: of "
        f"{FAST_TIMES * plain_speed:g} tokens/s",
    )


def public_table(public: Sequence[PublicPoint]) -> Table:
    """Published speeds of services of the model."""
    columns = (
        Column(key="system", title="service", wraps=True),
        Column(key="model", title="model", priority=2),
        Column(key="tokens_per_s_per_user", title="tok/s/user", cell=_speed, numeric=True),
        Column(key="usd_per_million_tokens", title="USD/Mtok", formatter=price, numeric=True),
        Column(key="drafts", title="drafts", priority=1),
        Column(key="by", title="by"),
        Column(key="date", title="date", formatter=printable),
    )
    return Table(columns=columns, rows=public, title="Published speeds", note="sources with --json")

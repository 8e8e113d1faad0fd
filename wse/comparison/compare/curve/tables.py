"""The tables of a comparison of wafers and GPUs: tiers, users at the same time, and published speeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from wse.comparison.compare.curve.public import PublicPoint
from wse.comparison.compare.curve.row import FAST, PLAIN, CurveRow
from wse.comparison.compare.tables import dollars
from wse.report.result import docs_of
from wse.report.table import Column, Table
from wse.report.terminal import count, printable, three_figures


def price(number: float) -> str:
    """Dollars, with cents where they matter, and three digits of less than ten cents."""
    return dollars(number) if number >= 0.1 else f"{number:.3g}"


def _joules(number: float) -> str:
    return three_figures(number)


def _speed(row: Any) -> str:
    return three_figures(row.tokens_per_s_per_user)


def _at_most(row: CurveRow) -> str:
    return f"{'' if row.exact else '≤ '}{_speed(row)}"


def _column(key: str, title: str, **settings: Any) -> Column:
    return Column(**{"key": key, "title": title, "doc": docs_of(CurveRow)[key].text, **settings})


MACHINE: Final = _column("machine", "machine", wraps=True, min_width=24)
USERS: Final = _column("users", "users", formatter=count, numeric=True)
SPEED: Final = _column("tokens_per_s_per_user", "a user", cell=_at_most, numeric=True)
ALL_USERS: Final = _column("tokens_per_s", "all users", formatter=count, numeric=True, priority=2)
DOLLARS: Final = _column("usd_per_million_tokens", "USD/M", formatter=price, numeric=True)
RANGE: Final = _column(
    "usd_per_million_tokens_low",
    "USD/M from, to",
    doc="the same at both ends of the price's range",
    cell=lambda row: f"{price(row.usd_per_million_tokens_low)} to {price(row.usd_per_million_tokens_high)}",
    numeric=True,
    priority=3,
)
JOULES: Final = _column("joules_per_token", "J/token", formatter=_joules, numeric=True)
TIER: Final = _column("tier", "tier")
LINE: Final = (MACHINE, USERS, SPEED, ALL_USERS, DOLLARS, RANGE, JOULES, TIER)


def curve_tables(rows: Sequence[CurveRow], public: Sequence[PublicPoint], *, detail: bool) -> tuple[Table, ...]:
    """The tiers of machines with a best row, the best rows or all, and published speeds."""
    machines = {row.machine for row in rows if row.best or detail}
    shown = [row for row in rows if row.best or detail]
    title = "Users at the same time" if detail else "Users at the same time, where no machine of the kind is cheaper"
    return (
        _tier_table([row for row in rows if row.machine in machines]),
        Table(columns=LINE, rows=shown, title=title, note="tokens/s"),
        *([public_table(public)] if public else []),
    )


def _tier_table(rows: Sequence[CurveRow]) -> Table:
    """A row for each tier of a machine; the fast one with its speed and price over those of the plain one."""
    plain = {row.machine: row for row in rows if row.tier == PLAIN}

    def times(key: str) -> Column:
        def cell(row: CurveRow) -> str:
            return "" if row.tier != FAST else f"{getattr(row, key) / getattr(plain[row.machine], key):.2g} x"

        title = "faster" if key == SPEED.key else "dearer"
        return Column(key=f"{key}_over_plain", title=title, cell=cell, doc="over the plain tier", numeric=True)

    columns = (TIER, MACHINE, USERS, SPEED, times(SPEED.key), DOLLARS, times(DOLLARS.key), JOULES)
    return Table(
        columns=columns,
        rows=[row for row in rows if row.tier],
        title="Tiers",
        note="plain: as many users as fit; fast: as many as get 2.5 times its speed, where one alone does",
    )


def public_table(public: Sequence[PublicPoint]) -> Table:
    """Published speeds of services of the model."""
    columns = (
        Column(key="system", title="service", wraps=True),
        Column(key="model", title="model", priority=2),
        Column(key="tokens_per_s_per_user", title="a user", cell=_speed, numeric=True),
        Column(key="usd_per_million_tokens", title="USD/M", formatter=price, numeric=True),
        Column(key="drafts", title="drafts", priority=1),
        Column(key="by", title="by"),
        Column(key="date", title="date", formatter=printable),
    )
    return Table(columns=columns, rows=public, title="Published speeds", note="tokens/s; sources with --json")

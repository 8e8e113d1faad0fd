"""Tables of a comparison of wafers and GPUs: service tiers, operating points, published speeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from wse.reports.number_text import count, range_text, seconds, three_figures
from wse.reports.result import column_of
from wse.reports.table import Column, Table
from wse.serving.goal import FAST_TIMES
from wse.studies.compare.curve.row import FAST, PLAIN, TIER_SEPARATOR, CurveRow
from wse.studies.results.operating_points import definitions
from wse.studies.results.published import BY_TEXTS, DRAFTS_TEXTS, PublicPoint, date_text


def _speed(row: Any) -> str:
    """Format a row's tokens/s per user with three significant digits."""
    return three_figures(row.tokens_per_s_per_user)


_column = partial(column_of, CurveRow)

MACHINE: Final = _column("machine", "machine", wraps=True, min_width=24)
USERS: Final = _column("users", "users", formatter=count, numeric=True)
SPEED: Final = _column("tokens_per_s_per_user", "tok/s/user", cell=_speed, numeric=True)
ALL_USERS: Final = _column("tokens_per_s", "tok/s", formatter=count, numeric=True, priority=2)
DOLLARS: Final = _column("usd_per_million_tokens", "USD/Mtok", formatter=three_figures, numeric=True)
RANGE: Final = _column(
    "usd_per_million_tokens_low",
    "price range",
    doc="the same at the low and high end of the machine's price range",
    cell=lambda row: range_text(row.usd_per_million_tokens_low, row.usd_per_million_tokens_high, three_figures),
    numeric=True,
    priority=3,
)
TTFT: Final = _column("ttft_s", "TTFT", formatter=seconds, numeric=True, priority=4)
DTYPE: Final = _column("dtype", "type", priority=1)
JOULES: Final = _column("joules_per_token", "J/token", formatter=three_figures, numeric=True)
TIER: Final = _column("tier", "tier")
LINE: Final = (MACHINE, DTYPE, USERS, TTFT, SPEED, ALL_USERS, DOLLARS, RANGE, JOULES, TIER)


def curve_tables(
    rows: Sequence[CurveRow],
    public: Sequence[PublicPoint],
    plain_speed: float,
    *,
    detail: bool,
    footer: Sequence[tuple[str, str]],
    tier_footer: Sequence[tuple[str, str]],
) -> tuple[Table, ...]:
    """Return up to three tables: service tiers, operating points, and published speeds.

    The table of published speeds is left out if there are none.

    Args:
        rows: Rows of all machines, each with the speed and cost for a number of users.
        public: Published speeds of services.
        plain_speed: Speed of the plain tier in tokens/s per user.
        detail: True to show all rows. False to leave out a row if another row is at least as fast
            and cheaper.
        footer: (label, text) pairs to show below the operating points, such as prices.
        tier_footer: (label, text) pairs to show below the service tiers.
    """
    machines = {row.machine for row in rows if row.best or detail}
    shown_rows = [row for row in rows if row.best or detail]
    titles = {column.title for column in LINE}
    meanings = dict(definitions()) | {SPEED.title: SPEED.doc}  # the definition refers to TPOT, which is no column
    meaning_lines = [line for line in meanings.items() if line[0] in titles]
    note = "" if detail else "rows with the cheapest token of wafers, or of one kind of GPUs, for their speed"
    return (
        _tier_table([row for row in rows if row.machine in machines], plain_speed, tier_footer),
        Table(columns=LINE, rows=shown_rows, title="Concurrent users", note=note, footer=[*meaning_lines, *footer]),
        *([public_table(public)] if public else []),
    )


def _tier_table(rows: Sequence[CurveRow], plain_speed: float, footer: Sequence[tuple[str, str]]) -> Table:
    """Return the table of service tiers, in which each row shows a machine in one or both tiers.

    In the plain tier, the machine has the maximum number of users at the plain speed. In the fast
    tier, it has the maximum number of users at `FAST_TIMES` that speed. If the two tiers of a
    machine have separate rows, columns state how much faster and more expensive the fast tier is.
    """
    plain = {row.machine: row for row in rows if PLAIN in row.tiers}

    def times(key: str) -> Column:
        """Return a column with a value divided by that of the same machine in the plain tier.

        Args:
            key: Name of the field of `CurveRow`, such as ``usd_per_million_tokens``.
        """

        def cell(row: CurveRow) -> str:
            """Format the ratio, which is 1 in the row of the plain tier itself."""
            return f"{getattr(row, key) / getattr(plain[row.machine], key):.2g} x"

        title = "speed / plain" if key == SPEED.key else "cost / plain"
        return Column(key=f"{key}_over_plain", title=title, cell=cell, doc="over the plain tier", numeric=True)

    ratios = (times(SPEED.key), times(DOLLARS.key)) if any(row.tier == FAST for row in rows) else ()
    dtype = DTYPE if len({row.dtype for row in rows}) == 1 else replace(DTYPE, priority=0)
    columns = (TIER, MACHINE, dtype, USERS, SPEED, DOLLARS, *ratios, JOULES)
    note = f"plain: the most users of {plain_speed:g} tokens/s each, up to those that saturate the machine; "
    note += f"fast: of {FAST_TIMES * plain_speed:g} tokens/s"
    note += "; speed / plain, cost / plain: relative to the plain tier of the same machine" if ratios else ""
    tier_names = TIER_SEPARATOR.join((PLAIN, FAST))
    if any(row.tier == tier_names for row in rows):
        note += f"; {tier_names}: one row for both tiers, with the same users, speed and cost"
    return Table(columns=columns, rows=[row for row in rows if row.tiers], title="Tiers", note=note, footer=footer)


def public_table(public: Sequence[PublicPoint]) -> Table:
    """Return the table of services' published speeds for the model."""
    columns = (
        Column(key="system", title="service", wraps=True),
        Column(key="model", title="model", priority=2),
        Column(key="tokens_per_s_per_user", title="tok/s/user", cell=_speed, numeric=True),
        Column(key="usd_per_million_tokens", title="USD/Mtok", formatter=three_figures, numeric=True),
        Column(key="drafts", title="drafts", cell=lambda row: DRAFTS_TEXTS[row.drafts], priority=1),
        Column(key="by", title="stated by", cell=lambda row: BY_TEXTS[row.by]),
        Column(key="date", title="date", formatter=date_text),
    )
    return Table(columns=columns, rows=public, title="Published speeds of services", note="sources with --json")

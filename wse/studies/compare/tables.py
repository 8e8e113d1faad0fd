"""The tables of a comparison: the best rows, all rows with their speed and their traffic, and what limits them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from wse.report.comparison_row import ComparisonRow
from wse.report.table import Column, Table
from wse.report.terminal import count, in_bytes, percent, seconds, short, shown

if TYPE_CHECKING:
    from wse.studies.compare.result import CompareResult


def if_known(key: str, text: Callable[[Any], str]) -> Callable[[ComparisonRow], str]:
    """The text of a value that not every row has."""

    def cell(row: ComparisonRow) -> str:
        value = getattr(row, key)
        return "" if value is None else text(value)

    return cell


def dollars(number: float) -> str:
    """Dollars, with cents where they matter."""
    return f"{number:,.0f}" if number >= 100 else f"{number:,.2f}"


def mapping_text(row: ComparisonRow) -> str:
    """The mapping that was asked for, and the one that it chose."""
    return shown(row.mapping if row.chosen is None else f"{row.mapping}: {row.chosen}")


def link_text(row: ComparisonRow) -> str:
    """The link between wafers; empty for one wafer."""
    if row.link_bytes_per_s is None:
        return ""
    rate = f"{row.link_bytes_per_s / 1e9:g} GB/s"
    return f"{rate} {seconds(row.link_latency_s)}" if row.link_latency_s else rate


def limit_text(row: ComparisonRow) -> str:
    """The cause that takes most of a token's time, with its share where all causes are known."""
    if row.limited_by is None or row.cycles_by is None:
        return row.limited_by or ""
    return f"{row.limited_by} {row.cycles_by[row.limited_by] / sum(row.cycles_by.values()):.0%}".replace("%", " %")


def _all_users(row: ComparisonRow) -> str:
    return f"{'' if row.tokens_per_s_exact else '≤ '}{count(row.tokens_per_s or 0.0)}"


MAPPING: Final = Column(key="mapping", title="mapping", doc="how ops and layers are spread", cell=mapping_text)
WAFERS: Final = Column(key="wafers", title="wafers", numeric=True, cell=if_known("wafers", count))
LINK: Final = Column(
    key="link_bytes_per_s", title="link", doc="rate and latency of each link between wafers", cell=link_text
)
ONE_USER: Final = Column(
    key="tokens_per_s_per_user",
    title="1 user",
    doc="tokens/s of one batch alone on the machine, for each user of it",
    cell=if_known("tokens_per_s_per_user", count),
    numeric=True,
    best="largest",
)
USERS: Final = Column(
    key="users",
    title="users",
    doc="in flight at once: as many as were asked for and as have room for their caches",
    cell=if_known("users", count),
    numeric=True,
)
ALL_USERS: Final = Column(
    key="tokens_per_s",
    title="all users",
    doc="tokens/s of them all",
    cell=_all_users,
    numeric=True,
    best="largest",
)
DOLLARS: Final = Column(
    key="usd_per_million_tokens",
    title="USD/M",
    doc="dollars of a million tokens of all users",
    cell=if_known("usd_per_million_tokens", dollars),
    numeric=True,
    best="smallest",
    priority=1,
)
TTFT: Final = Column(
    key="ttft_s",
    title="TTFT",
    doc="time to the first token of a prompt alone",
    cell=if_known("ttft_s", seconds),
    numeric=True,
    best="smallest",
    priority=3,
)
CROSSING: Final = Column(
    key="crossing_fraction",
    title="crossing",
    doc="share of a token's time that is between wafers",
    cell=if_known("crossing_fraction", percent),
    numeric=True,
    priority=2,
)
LIMITED_BY: Final = Column(
    key="limited_by",
    title="most time",
    doc="the cause that takes most of a token's time, and its share",
    cell=limit_text,
    priority=4,
)
USERS_LIMITED_BY: Final = Column(
    key="users_limited_by", title="users by", doc="what bounds how many users are served at once", priority=4
)
PROMPT: Final = Column(
    key="prefill_tokens_per_s",
    title="prompt",
    doc="tokens/s of a prompt alone on the machine",
    cell=if_known("prefill_tokens_per_s", count),
    numeric=True,
    best="largest",
    priority=3,
)
TRAFFIC: Final = (
    CROSSING,
    Column(
        key="wafer_link_bytes_per_token",
        title="wafer links",
        doc="bytes of a token of each user of a batch",
        cell=if_known("wafer_link_bytes_per_token", in_bytes),
        numeric=True,
    ),
    Column(
        key="host_bytes_per_token",
        title="host",
        doc="bytes from and to the host, likewise",
        cell=if_known("host_bytes_per_token", in_bytes),
        numeric=True,
    ),
    Column(
        key="mesh_hops_per_token",
        title="mesh hops",
        doc="of 32-bit words, likewise",
        cell=if_known("mesh_hops_per_token", short),
        numeric=True,
        priority=1,
    ),
    Column(
        key="sram_fullest_pe_fraction",
        title="SRAM",
        doc="of the fullest PE in use",
        cell=if_known("sram_fullest_pe_fraction", percent),
        numeric=True,
        priority=1,
    ),
    Column(
        key="power_w",
        title="power",
        doc="of all wafers",
        cell=if_known("power_w", lambda watts: f"{watts / 1e3:,.0f} kW"),
        numeric=True,
        priority=2,
    ),
    Column(
        key="joules_per_token",
        title="energy",
        doc="of a token at the wall, with all users in flight",
        cell=if_known("joules_per_token", lambda joules: f"{joules:.3g} J"),
        numeric=True,
        priority=2,
    ),
)


def verdict_table(result: CompareResult) -> Table:
    """The verdict, a sentence a row."""
    sentences = [{"sentence": sentence} for sentence in result.verdict]
    return Table(columns=(Column(key="sentence", folds=True),), rows=sentences, title="Verdict")


def best_table(result: CompareResult) -> Table:
    """The best rows of each number of wafers, and of each link where links were asked for."""
    link = (LINK,) if result.links_asked else ()
    columns = (WAFERS, *link, MAPPING, ONE_USER, USERS, ALL_USERS, DOLLARS, TTFT, CROSSING, LIMITED_BY)
    title = "The best on each number of wafers" + (" and each link" if link else "")
    return Table(columns=columns, rows=result.best, title=title, note="tokens/s; the best of a column is marked")


def detail_tables(rows: Sequence[ComparisonRow]) -> tuple[Table, Table]:
    """All rows that can be: speed, users and cost; traffic of a token and power."""
    link = (LINK,) if any(row.link_bytes_per_s is not None for row in rows) else ()
    speed = (WAFERS, *link, MAPPING, ONE_USER, USERS, ALL_USERS, DOLLARS, PROMPT, LIMITED_BY, USERS_LIMITED_BY)
    return (
        Table(columns=speed, rows=rows, title="Speed, users and cost"),
        Table(columns=(WAFERS, *link, MAPPING, *TRAFFIC), rows=rows, title="Traffic of a token, and power"),
    )


def notes(tables: Sequence[Table]) -> list[tuple[str, str]]:
    """What the columns of some tables mean, each once."""
    return list({c.title: (c.title, c.doc) for table in tables for c in table.columns if c.doc}.values())


def machine_text(row: ComparisonRow) -> str:
    """The mapping and the number of wafers."""
    return f"{mapping_text(row)} on {row.wafers:,}"


def reasons(rows: Sequence[ComparisonRow]) -> list[tuple[str, str]]:
    """Why combinations cannot be, each reason once, behind the combinations that it is of."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        if row.reason is not None:
            by_reason.setdefault(row.reason, []).append(machine_text(row))
    return [(", ".join(machines), shown(reason)) for reason, machines in by_reason.items()]

"""The result of ``wse compare`` with targets: rows in the order of what they are worth, and a sentence on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final

from wse.comparison.compare.tables import dollars
from wse.report.result import Doc, Result
from wse.report.shared_tables import with_settings_text
from wse.report.table import Column, Table, number, pair_table
from wse.report.terminal import WIDEST, count, printable, rate_and_latency, seconds


@dataclass(frozen=True, kw_only=True)
class RankedRow(Result):
    """Wafers with a mapping, and requests of a length, as they serve as many users as the targets leave."""

    prompt_len: Annotated[int, Doc("tokens of a prompt")]
    new_tokens: Annotated[int, Doc("generated tokens")]
    mapping: Annotated[str, Doc("the mapping that was asked for")]
    chosen: Annotated[str | None, Doc("the mapping that it chose, where that is another")] = None
    wafers: Annotated[int, Doc("number of wafers")]
    link_bytes_per_s: Annotated[float | None, Doc("rate of each link between wafers", "B/s")] = None
    link_latency_s: Annotated[float | None, Doc("latency of each link between wafers", "s")] = None
    keeps: Annotated[bool, Doc("whether it keeps the targets; true without any")]
    tokens_per_s_per_user: Annotated[float, Doc("tokens/s of a user of one batch alone", "1/s")]
    tpot_s: Annotated[float, Doc("time of a generated token of one batch alone", "s")]
    ttft_s: Annotated[float, Doc("time to the first token of a prompt alone", "s")]
    users: Annotated[int, Doc("users at the same time, of whom none waits longer than the target for a token")]
    tokens_per_s: Annotated[float, Doc("tokens/s of them all", "1/s")]
    tokens_per_s_per_wafer: Annotated[float, Doc("the same over the wafers", "1/s")]
    usd_per_million_tokens: Annotated[float, Doc("dollars of a million of their tokens", "USD")]
    pareto: Annotated[
        bool, Doc("whether no row of these lengths has more tokens/s of a user and no fewer of a wafer, or the reverse")
    ]


COLUMNS: Final = tuple(field.name for field in fields(RankedRow))
"""The columns of CSV files, in their order."""


@dataclass(frozen=True, kw_only=True)
class RankingResult(Result):
    """A model on wafers and mappings in an order: the cheapest that keep the targets, or the fastest without any."""

    inputs: Annotated[Mapping[str, Any], Doc("what was asked for, with defaults filled in")]
    targets: Annotated[Mapping[str, float], Doc("`ttft_s` and `tpot_s`, those that were given", "s")]
    tried: Annotated[int, Doc("rows that can be, of all lengths")]
    keeping: Annotated[int, Doc("rows of them that keep the targets")]
    rows: Annotated[tuple[RankedRow, ...], Doc("the rows that were asked for, the best first")]
    verdict: Annotated[tuple[str, ...], Doc("the answer, in sentences")]

    @property
    def title(self) -> str:
        """The model and the wafer, in a line."""
        inputs = self.inputs
        machine = with_settings_text(f"{inputs['wafer']}, {inputs['mesh']} PEs", inputs)
        return f"{printable(inputs['model'])} as {inputs['dtype']} on {printable(machine)}"

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """The verdict, and the rows."""
        sentences = pair_table([("", sentence) for sentence in self.verdict], self.title)
        return sentences, Table(columns=self._columns(), rows=self.rows, title="Best first", footer=self._footer())

    def _columns(self) -> tuple[Column, ...]:
        several_lengths = len({(row.prompt_len, row.new_tokens) for row in self.rows}) > 1
        several_links = len({(row.link_bytes_per_s, row.link_latency_s) for row in self.rows if row.wafers > 1}) > 1
        lengths = Column(key="lengths", title="lengths", cell=lambda row: f"{row.prompt_len}/{row.new_tokens}")
        keeps = Column(key="keeps", title="keeps", formatter=lambda keeps: "yes" if keeps else "no", priority=3)
        return (
            *([lengths] if several_lengths else []),
            number("wafers", "wafers"),
            *([Column(key="link", title="link", cell=_link, priority=6)] if several_links else []),
            Column(key="mapping", title="mapping", cell=_mapping, priority=2),
            *([keeps] if self.targets else []),
            number("tokens_per_s_per_user", "1 user", best="largest"),
            number("tpot_s", "TPOT", seconds, best="smallest", priority=7),
            number("ttft_s", "TTFT", seconds, best="smallest", priority=4),
            number("users", "users", priority=5),
            number("tokens_per_s_per_wafer", "a wafer", best="largest", priority=1),
            number("usd_per_million_tokens", "USD/M", dollars, best="smallest"),
            Column(key="pareto", formatter=lambda front: "◆" if front else ""),
        )

    def _footer(self) -> list[tuple[str, str]]:
        legend = (
            "1 user, a wafer: tokens/s; users: at once, each within the TPOT; USD/M: a million tokens of all of them"
        )
        waits = "TTFT: of a prompt that waits for no other (wse serve-sim has queues); ◆ on the Pareto front"
        hidden = self.tried - len(self.rows)
        return [
            ("", legend),
            ("", waits),
            *([("...", f"{hidden} of {self.tried} rows are not shown")] if hidden else []),
        ]


def _link(row: RankedRow) -> str:
    return "" if row.link_bytes_per_s is None else rate_and_latency(row.link_bytes_per_s, row.link_latency_s)


def _mapping(row: RankedRow) -> str:
    return printable(row.mapping if row.chosen is None else f"{row.mapping}: {row.chosen}")


def row_text(row: RankedRow) -> str:
    """A row in words: wafers, mapping, and what they give."""
    wafers = f"{row.wafers} wafer{'' if row.wafers == 1 else 's'}, {_mapping(row)}"
    numbers = f"{count(row.tokens_per_s_per_user)} tokens/s a user, the first after {seconds(row.ttft_s)}"
    return f"{wafers}: {numbers}, {dollars(row.usd_per_million_tokens)} USD a million with {row.users:,} at once"

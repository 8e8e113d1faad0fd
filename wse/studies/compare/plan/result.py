"""PlanResult: machines and replicas that serve users within latency limits, ranked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, fields, replace
from functools import partial
from typing import Annotated, Any, Final

from wse.arrays import F64
from wse.reports.intervals import RangeResult, percent_text
from wse.reports.number_text import count, plural, rate_and_latency, seconds, three_figures
from wse.reports.result import Doc, Result
from wse.reports.shared_tables import prefix_text, with_settings_text
from wse.reports.table import Column, Table, number, pair_table
from wse.reports.terminal import WIDEST, printable
from wse.serving.goal import COST, LATENCY, PURPOSES, THROUGHPUT
from wse.studies.compare.machine import GPU
from wse.studies.compare.result import AssumptionResult, cache_footer, price_footer
from wse.studies.compare.tables import IMPOSSIBLE
from wse.studies.results.operating_points import IN_FLIGHT, PRICE_RANGE, OperatingPointResult, definitions
from wse.studies.results.published import PublishedSpeed, published_table


class PlannedRow(OperatingPointResult):
    """A machine with the replica and user counts that best meet the requested limits.

    A machine consists of wafers or GPUs. A replica is one of several identical machines that share
    the users.
    """

    kind: Annotated[str, Doc("`wafer` or `gpu`")]
    name: Annotated[str, Doc("name of the wafer or GPU")]
    software: Annotated[str, Doc("mapping on wafers, serving stack on GPUs")]
    dtype: Annotated[str, Doc("element type of the weights")]
    prompt_len: Annotated[int, Doc("tokens of a prompt")]
    new_tokens: Annotated[int, Doc("output tokens of a request")]
    chips: Annotated[int, Doc("number of wafers or GPUs of one replica")]
    link_bytes_per_s: Annotated[
        float | None, Doc("bandwidth of links between wafers; absent if none was requested", "B/s")
    ] = None
    link_latency_s: Annotated[
        float | None, Doc("latency of links between wafers; absent if none was requested", "s")
    ] = None
    users_per_pass: Annotated[int | None, Doc("users of a pass through the stages of wafers; absent for GPUs")] = None
    max_users: Annotated[int, Doc("requests whose KV caches fit on all replicas at the same time")]
    keeps: Annotated[bool, Doc("whether there is room for the users and the limits are met")]
    excess: Annotated[float, Doc("largest ratio of a latency to its limit; 0 without limits")]
    pareto: Annotated[
        bool, Doc("whether no other row of these lengths is faster or cheaper without being worse in the other")
    ] = False
    ranges: Annotated[
        Mapping[str, RangeResult] | None, Doc("90 % intervals of figures of this row; keys are their names")
    ] = field(default=None, hash=False)
    within_limits: Annotated[
        float | None, Doc("fraction of the samples whose latencies are within the limits; absent without limits")
    ] = None

    @property
    def machine(self) -> str:
        """Description such as "2 x 8 h100 (vllm)": replicas, chips per replica, and software.

        The inter-wafer link is appended if links were requested.
        """
        chips = f"{self.chips:,} {printable(self.name)} ({printable(self.software)})"
        if self.link_bytes_per_s is not None:
            chips += f", {rate_and_latency(self.link_bytes_per_s, self.link_latency_s)}"
        return chips if self.replicas == 1 else f"{self.replicas:,} x {chips}"


RowSamples = dict[PlannedRow, Mapping[str, F64]]
"""Samples of the figures of rows: for each row, float64 ``[samples]`` keyed by field of the row."""


class CheaperResult(Result):
    """Whether the best wafers or the best GPUs are cheaper per token, and how certain this is."""

    prompt_len: Annotated[int, Doc("tokens of a prompt")]
    new_tokens: Annotated[int, Doc("output tokens of a request")]
    kind: Annotated[str, Doc("what is cheaper at the stated values: `wafer` or `gpu`")]
    ratio: Annotated[float, Doc("cost of a token on the others, divided by the cost on these")]
    share: Annotated[float, Doc("fraction of the samples in which these are cheaper")]
    samples: Annotated[int, Doc("number of samples of prices, constants and model errors")]
    break_even_usd_per_wafer_hour: Annotated[
        float, Doc("price of a wafer at which a token costs the same on these wafers as on these GPUs", "USD/h")
    ]


ORDERS: Final = {
    LATENCY: "Fastest requests first",
    THROUGHPUT: "Highest throughput first",
    COST: "Lowest cost per token first",
}
"""Title of the table of machines for each objective."""

ROOM: Final = (
    "room",
    "number of requests whose KV caches fit in the chosen layout at the same time (on GPUs at most the limit of the "
    "serving stack); the others wait until there is room",
)
FEWER_USERS: Final = (
    "requested users; a row is for fewer of them if there is room for no more, or if even one user exceeds a limit"
)
"""Meaning of the second number in an entry such as "48 of 60"."""
CHOSEN_USERS: Final = (
    "users",
    "concurrent requests, chosen as large as memory and limits allow, up to the number above which tok/s no longer "
    "rises (1 if even one user exceeds a limit)",
)
"""Meaning of the users of a row if none were requested."""
REQUEST: Final = ("request", "mean time from a request to its last token, by which rows are ordered")
"""Meaning of the column of request times, which is shown if the objective is latency."""
KEEPS_WITH_LIMITS: Final = ("meets", "whether all users are served within the limits, and in how many samples")
"""Meaning of the column that states whether a machine meets the limits."""

COLUMNS: Final = tuple(
    name
    for name in (*PlannedRow.__annotations__, *(field.name for field in fields(OperatingPointResult)))
    if name != "ranges"
)
"""Columns of CSV files: the machine first, then its operating point."""


class PlanResult(Result):
    """Ranking of machines and their replica counts by an objective, subject to latency limits.

    Machines that meet the limits come first, ordered by the objective. All other machines follow,
    ordered by how far they exceed the limits.
    """

    inputs: Annotated[Mapping[str, Any], Doc("the options with defaults filled in")]
    targets: Annotated[Mapping[str, float], Doc("the requested limits, `ttft_s` and `tpot_s`", "s")]
    users: Annotated[int | None, Doc("requested number of concurrent users")] = None
    think_s: Annotated[
        float | None, Doc("mean pause from the end of an answer to the user's next request; absent if none", "s")
    ] = None
    economics: Annotated[Mapping[str, AssumptionResult], Doc("price and power of a chip of each machine")]
    tried: Annotated[int, Doc("number of machines that were tried, for all lengths")]
    keeping: Annotated[int, Doc("number of machines that meet the limits")]
    rows: Annotated[tuple[PlannedRow, ...], Doc("the requested machines, best first")]
    impossible: Annotated[Mapping[str, str] | None, Doc("machines that are impossible, with the reasons")] = None
    published: Annotated[
        tuple[PublishedSpeed, ...] | None,
        Doc("published speeds of one user on these machines, and the ratio of the machine's fastest row to each"),
    ] = None
    cheaper: Annotated[
        tuple[CheaperResult, ...] | None, Doc("whether wafers or GPUs are cheaper, for each pair of lengths")
    ] = None
    verdict: Annotated[tuple[str, ...], Doc("sentences derived from the machines")]

    @property
    def title(self) -> str:
        """One line with the number of users, the model, and the prompt and answer lengths.

        The element type of the weights is included if all machines use the same type.
        """
        users = "" if self.users is None else f"{plural(self.users, 'user')} of "
        if self.think_s is not None:
            users = f"{plural(self.users or 0, 'user')}, each pausing {seconds(self.think_s)} between requests, of "
        dtype = f" as {self.rows[0].dtype}" if self._has_one_type else ""
        lengths = dict.fromkeys(f"{row.prompt_len:,} + {row.new_tokens:,}" for row in self.rows)
        text = (
            f"{users}{printable(self.inputs['model'])}{dtype}, {' and '.join(lengths)} tokens{prefix_text(self.inputs)}"
        )
        return with_settings_text(text, self.inputs)

    @property
    def _has_one_type(self) -> bool:
        """Whether the weights have the same element type on all machines."""
        return len({row.dtype for row in self.rows}) == 1

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return tables of the verdict, the ranked machines, published speeds and impossible machines.

        Args:
            detail: Whether to add a table of the users that fit, speeds, and energy per token.
            width: Not used.
        """
        verdict = pair_table([("", sentence) for sentence in self.verdict], self.title)
        title = ORDERS[self.inputs["objective"]]
        machines = Table(columns=self._columns(), rows=self.rows, title=title, footer=self._footer())
        details = (Table(columns=self._detail_columns(), rows=self.rows, title="Room, rates and energy"),)
        published = () if self.published is None else (published_table(self.published),)
        reasons = () if self.impossible is None else (pair_table([*self.impossible.items()], IMPOSSIBLE),)
        return verdict, machines, *published, *(details if detail else ()), *reasons

    def _machine_columns(self) -> tuple[Column, ...]:
        """Return the columns that identify a row: its machine and, if necessary, its lengths.

        If several length pairs are compared, a column of lengths (prompt tokens / new tokens) comes
        first.
        """
        lengths = Column(key="lengths", title="lengths", cell=lambda row: f"{row.prompt_len}/{row.new_tokens}")
        machine = Column(key="machine", title="machine", cell=lambda row: row.machine, wraps=True, min_width=20)
        return (lengths, machine) if len(self.inputs["lengths"]) > 1 else (machine,)

    def _detail_columns(self) -> tuple[Column, ...]:
        """Return the columns of the detailed table: users that fit, speeds, energy per token."""
        return (
            *self._machine_columns(),
            number("max_users", "room", count),
            number("users_per_pass", "users/pass", count),
            number("tpot_s", "TPOT", seconds),
            number("tokens_per_s", "tok/s", count),
            number("joules_per_token", "J/token", three_figures),
        )

    def _columns(self) -> tuple[Column, ...]:
        """Return the columns of the main table, which has one row per machine.

        A column states whether the machine meets the latency limits, if there are any, and another
        one for how many users there is room, if their number was given.
        """
        goal_columns = [Column(key="keeps", title="meets", cell=_keeps_text)] if self.targets else []
        if self.users is not None:
            goal_columns.append(number("max_users", "room", count, priority=3 if self.targets else 0))
        return (
            *self._machine_columns(),
            Column(key="dtype", title="type", priority=4 if self._has_one_type else 0),
            *goal_columns,
            number("users", "users", cell=partial(_users_text, requested_users=self.users)),
            *([IN_FLIGHT] if self.think_s is not None else []),
            number("ttft_s", "TTFT", seconds, priority=1),
            number("tpot_s", "TPOT", seconds, priority=0 if "tpot_s" in self.targets else 3),
            *([number("request_s", "request", seconds)] if self.inputs["objective"] == LATENCY else []),
            number("tokens_per_s_per_user", "tok/s/user", three_figures),
            number("tokens_per_s", "tok/s", count, priority=5),
            number("usd_per_million_tokens", "USD/Mtok", three_figures),
            replace(PRICE_RANGE, priority=3),
            number("usd_per_hour", "USD/h", three_figures, priority=2),
            number("joules_per_token", "J/token", three_figures, priority=4),
            Column(key="pareto", title="◆", formatter=lambda front: "◆" if front else ""),
        )

    def _footer(self) -> list[tuple[str, str]]:
        """Return the (label, text) lines below the table: definitions, prices, and omitted rows."""
        hidden, titles = self.tried - len(self.rows), {column.title for column in self._columns()}
        column_meanings = dict(definitions(self.think_s))
        if self.users is None and self.inputs["objective"] != LATENCY:
            column_meanings |= [CHOSEN_USERS]
        limits_text = (
            " among layouts within the limits or, if there are none, the nearest to them" if self.targets else ""
        )
        return [
            *[line for line in (KEEPS_WITH_LIMITS, ROOM, REQUEST, *column_meanings.items()) if line[0] in titles],
            *([(f"of {self.users:,}", FEWER_USERS)] if any(row.users < (self.users or 0) for row in self.rows) else []),
            ("layouts", f"each chosen for {PURPOSES[self.inputs['objective']]}{limits_text} (--objective)"),
            ("◆", "no other row is better in tok/s/user or USD/Mtok without being worse in the other"),
            *cache_footer(row.dtype for row in self.rows if row.kind == GPU),
            *price_footer(self.economics),
            *([("...", f"{plural(hidden, 'machine')} of {self.tried} not shown")] if hidden else []),
        ]


def _users_text(row: PlannedRow, requested_users: int | None) -> str:
    """Return a table entry with the number of users, such as "60", "60, 12 wait" or "48 of 60".

    In the second case, the KV caches of 12 requests do not fit at the same time as those of the
    others. In the third case, the row is for only 48 of the requested users.

    Args:
        row: The machine.
        requested_users: Number of users that all replicas together should serve; None if it was
            not requested.
    """
    users = f"{row.users:,}"
    if requested_users is not None and row.users < requested_users:
        users += f" of {requested_users:,}"
    waiting_requests = math.ceil(row.requests) - row.max_users
    return f"{users}, {waiting_requests:,} wait" if waiting_requests > 0 else users


def _keeps_text(row: PlannedRow) -> str:
    """Return a table entry on whether a machine meets the goal, such as "yes, 90 %" or "no".

    The percentage is the fraction of random samples in which the machine meets the latency limits.
    """
    if not row.keeps or row.within_limits is None:
        return "yes" if row.keeps else "no"
    return f"yes, {percent_text(row.within_limits)}"

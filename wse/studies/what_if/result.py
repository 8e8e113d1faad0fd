"""WhatIfResult: an estimate for each machine change, and the table that prints them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Final

from wse.hardware.number import unit_of
from wse.reports.number_text import count, hertz, plural, rate_and_latency, seconds, three_figures
from wse.reports.result import Doc, Result
from wse.reports.shared_tables import prefix_text, with_settings_text
from wse.reports.table import Column, Table, number
from wse.reports.terminal import WIDEST, printable
from wse.serving.goal import LATENCY
from wse.studies.results.operating_points import definitions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NO_EFFECT: Final = 0.005
"""Relative change of a figure below which a machine change counts as having no effect."""


class WhatIfRow(Result):
    """Estimate for a machine with one change, or for the unchanged machine.

    If the model cannot run on the changed machine, ``reason`` states why and the figures are None.
    """

    change: Annotated[str, Doc("short name or constant that is changed; absent for the unchanged machine")] = ""
    value: Annotated[str, Doc("new value, or a factor")] = ""
    numbers: Annotated[Mapping[str, tuple[float, ...]] | None, Doc("old and new value of each changed constant")] = None
    reason: Annotated[str | None, Doc("why the model cannot run with this change")] = None
    wafers: Annotated[int | None, Doc("number of wafers")] = None
    mapping: Annotated[str | None, Doc("the mapping that the search found")] = None
    batch: Annotated[int | None, Doc("users per pass in the chosen layout")] = None
    users: Annotated[int | None, Doc("users at a time, to whom the following numbers apply")] = None
    replicas: Annotated[int | None, Doc("replicas that share the users; `wafers` are those of one replica")] = None
    tokens_per_s_per_user: Annotated[float | None, Doc("tokens of a user after the first, 1 / TPOT", "1/s")] = None
    tokens_per_s: Annotated[float | None, Doc("output tokens of all users", "1/s")] = None
    ttft_s: Annotated[float | None, Doc("mean time to first token", "s")] = None
    max_users: Annotated[int | None, Doc("requests whose KV caches fit on all replicas, without drafts")] = None
    usd_per_million_tokens: Annotated[
        float | None, Doc("price of a million output tokens, prompts included", "USD")
    ] = None
    usd_per_million_tokens_low: Annotated[
        float | None, Doc("price of a million output tokens at the low end of the price range", "USD")
    ] = None
    usd_per_million_tokens_high: Annotated[
        float | None, Doc("price of a million output tokens at the high end of the price range", "USD")
    ] = None
    factors: Annotated[
        Mapping[str, float] | None, Doc("ratio of each of the numbers above to that of the unchanged machine")
    ] = None

    @property
    def speed_factor(self) -> float:
        """Tokens/s per user, relative to the unchanged machine; 1 if the model cannot run."""
        return (self.factors or {}).get("tokens_per_s_per_user", 1.0)

    @property
    def has_effect(self) -> bool:
        """Whether the change alters any of the compared figures by at least 0.5 %."""
        return any(abs(factor - 1) >= NO_EFFECT for factor in (self.factors or {}).values())

    @property
    def effect(self) -> tuple[bool, float, float, float]:
        """Sort key that is larger for changes with a larger effect.

        The effect on tokens/s per user is compared first, then on wafers, then on TTFT. Changes
        that prevent the model from running have the smallest key.
        """
        factors = self.factors or {}
        sizes = (abs(math.log(factors.get(key, 1.0))) for key in ("tokens_per_s_per_user", "wafers", "ttft_s"))
        speed, wafers, first = (round(size, 6) for size in sizes)
        return self.reason is None, speed, wafers, first


class WhatIfResult(Result):
    """Result of ``wse estimate --what-if``: estimates for a machine and for variants of it.

    Each change is applied on its own, and the layout search is repeated. The change with the
    largest effect comes first.
    """

    inputs: Annotated[Mapping[str, str | int | float], Doc("the options, with defaults set")]
    base: Annotated[WhatIfRow, Doc("the unchanged machine")]
    changes: Annotated[
        tuple[WhatIfRow, ...], Doc("each change, with a new search for the layout; the largest effect first")
    ]
    price: Annotated[
        tuple[str, ...], Doc("how the ends of the price range change each cost, and the price with its source")
    ]

    @property
    def title(self) -> str:
        """One-line description of the model, machine, request lengths and users."""
        inputs = self.inputs
        machine = with_settings_text(f"{inputs['wafer']}, {inputs['mesh']} PEs", inputs)
        load = f"{int(inputs['prompt_len']):,} + {int(inputs['new_tokens']):,} tokens{prefix_text(inputs)}"
        users, replicas, objective = self.users, self.base.replicas or 1, inputs["objective"]
        load += f", {plural(users, 'user')}" if users > 1 else ""
        load += f" pausing {seconds(float(inputs['think_time']))}" if "think_time" in inputs else ""
        load += f" on {plural(replicas, 'replica')}" if replicas > 1 else ""
        load += f", objective {objective}" if objective != LATENCY else ""
        return f"{printable(inputs['model'])} as {inputs['dtype']} on {printable(machine)}; {load}"

    @property
    def users(self) -> int:
        """Number of concurrent users on the unchanged machine."""
        return self.base.users or 1

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Build a table of the unchanged machine and of all changes that have an effect.

        The footer lists the changes that have no effect and the changes that prevent the model from
        running.

        Args:
            detail: Has no effect on this result.
            width: Has no effect on this result.
        """
        rows = [self.base, *(row for row in self.changes if row.has_effect)]
        footer = [
            ("*", "best of its column; ×: relative to the unchanged machine; each change alone, with a new search"),
            ("room", "number of requests whose KV caches fit on all replicas, without drafts"),
        ]
        ineffective_changes = ", ".join(_name(row) for row in self.changes if row.reason is None and not row.has_effect)
        if ineffective_changes:
            footer.append(("no effect", f"{ineffective_changes}: less than {100 * NO_EFFECT:g} % on each number"))
        footer += [(_name(row), printable(row.reason)) for row in self.changes if row.reason is not None]
        columns = _columns(self)
        titles = {column.title for column in columns}
        think_s = self.inputs.get("think_time")
        meanings = definitions(None if think_s is None else float(think_s))
        footer += [(name, text) for name, text in meanings if name in titles]
        footer += [("price", printable(text)) for text in self.price]
        return (Table(columns=columns, rows=rows, title="What if", note=self.title, footer=footer),)

    def plot(self) -> Figure:
        """Draw a tornado plot (bar chart) of the effect of each change on tokens/s per user."""
        from wse.studies.what_if.plot import tornado

        return tornado(self)


def _columns(result: WhatIfResult) -> tuple[Column, ...]:
    rows = [row for row in (result.base, *result.changes) if row.reason is None]
    differing = [key for key in ("users", "replicas") if len({getattr(row, key) for row in rows}) > 1]
    return (
        Column(key="change", title="with", cell=_name),
        number("tokens_per_s_per_user", "tok/s/user", best="largest", doc="1 / TPOT"),
        number("speed_factor", "×", lambda factor: f"{factor:.3g}", priority=1, doc="relative to no change"),
        *([number("tokens_per_s", "tok/s", best="largest", priority=3)] if result.users > 1 else []),
        *(number(key, key, priority=3) for key in differing),
        number("wafers", "wafers", best="smallest", priority=2),
        number("ttft_s", "TTFT", seconds, best="smallest", priority=4),
        number(
            "max_users", "room", count, best="largest", priority=6, doc="requests whose KV caches fit on all replicas"
        ),
        number("usd_per_million_tokens", "USD/Mtok", three_figures, best="smallest", priority=5),
        Column(key="numbers", title="from, to", cell=_numbers, priority=7),
    )


def _name(row: WhatIfRow) -> str:
    return f"{row.change} {row.value}" if row.change else "as it is"


def _numbers(row: WhatIfRow) -> str:
    """Format the old and new values of a changed constant, such as "1 GHz → 2 GHz".

    If the change affects several constants, only their number is stated.
    """
    numbers = row.numbers or {}
    if len(numbers) > 1:
        return plural(len(numbers), "number")
    return "".join(
        " → ".join(_with_unit(name, value) for value in old_and_new) for name, old_and_new in numbers.items()
    )


def _with_unit(name: str, value: float) -> str:
    """Format a machine constant with its unit.

    Args:
        name: Name of the constant, such as ``wafer.clock_hz``.
        value: Value of the constant.
    """
    unit = unit_of(name.partition(".")[2])
    formatters: dict[str, Callable[[float], str]] = {"Hz": hertz, "s": seconds, "byte/s": rate_and_latency}
    return formatters.get(unit, count)(value)

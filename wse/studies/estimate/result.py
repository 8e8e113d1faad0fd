"""EstimateResult: cycles, traffic, SRAM and cost of a request, and the tables that show them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from wse.reports.price import price_text
from wse.reports.result import Doc, Result
from wse.reports.shared_tables import causes_table, setting_texts
from wse.reports.table import Column, Table, number, pair_table
from wse.reports.terminal import WIDEST, count, printable, seconds
from wse.studies.estimate.answer import wafer_answer_tables
from wse.studies.estimate.bounds.bounds import BoundsResult, layer_and_stage_tables, token_table
from wse.studies.estimate.bounds.gap import gap_table
from wse.studies.estimate.cuts import CutsResult
from wse.studies.estimate.drafts.result import DraftPlanResult, draft_table
from wse.studies.estimate.economy import CostResult, EnergyResult
from wse.studies.estimate.grades import GradeResult
from wse.studies.estimate.layouts.result import SearchResult, search_table
from wse.studies.estimate.sram import EstimateSram, sram_tables
from wse.studies.estimate.timing.latency import LatencyResult
from wse.studies.estimate.timing.pipelining import PipeliningResult, pipelining_tables
from wse.studies.estimate.timing.verify import VerifyResult
from wse.studies.results.defects import DefectsResult, defects_table
from wse.studies.results.operating_points import ServingResult, points_table
from wse.studies.results.phases import DecodeResult, PrefillResult, causes_figure
from wse.studies.results.placement import ModelResult, SystemResult, WaferResult, placement_table
from wse.studies.results.published import PublishedSpeed, published_table
from wse.studies.results.rewrites import RewriteResult, rewrites_table
from wse.studies.results.traffic import CrossingResult, FabricResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHANGED: Final = {
    "wafers": "wafers",
    "tokens_per_s_per_user": "tokens/s/user",
    "ttft_s": "TTFT",
    "kv_capacity_tokens": "KV tokens",
}
"""Numbers of a request with a change that are shown, with their headings."""


@dataclass(frozen=True, kw_only=True)
class ChangeResult(Result):
    """A request with one number changed; ``fits`` alone where the model does not fit."""

    change: Annotated[str, Doc("what is changed")]
    fits: Annotated[bool, Doc("whether the model fits")]
    wafers: Annotated[int | None, Doc("wafers")] = None
    kv_capacity_tokens: Annotated[int | None, Doc("tokens of each user's KV cache that fit")] = None
    ttft_s: Annotated[float | None, Doc("time to first token", "s")] = None
    tokens_per_s_per_user: Annotated[float | None, Doc("generated tokens of each user", "tokens/s")] = None
    tokens_per_s: Annotated[float | None, Doc("generated tokens of all users", "tokens/s")] = None
    factors: Annotated[Mapping[str, float] | None, Doc("by the keys above, the number over the unchanged one")] = None


@dataclass(frozen=True, kw_only=True)
class EstimateResult(Result):
    """Cycles, traffic, SRAM and cost of a request; what concerns decoded tokens is absent without any."""

    inputs: Annotated[
        Mapping[str, str | int | float],
        Doc("the options with defaults filled in; `wafer.NAME` and `software.NAME` are numbers that were replaced"),
    ]
    note: Annotated[str | None, Doc("what was decided unasked: lengths, or an element type that no file states")] = None
    batch: Annotated[int, Doc("users whose tokens are decoded together")]
    model: Annotated[ModelResult, Doc("the model")]
    wafer: Annotated[WaferResult, Doc("a wafer as programs see it")]
    system: Annotated[SystemResult, Doc("wafers, mapping and stages")]
    cuts: Annotated[CutsResult | None, Doc("layers in parts; absent where all are whole")] = None
    sram: Annotated[EstimateSram, Doc("how full PEs are")]
    prefill: Annotated[PrefillResult, Doc("the prompts")]
    fabric: Annotated[FabricResult, Doc("words over links")]
    latency: Annotated[LatencyResult, Doc("what a user waits for")]
    decode: Annotated[DecodeResult | None, Doc("a generated token")] = None
    verify: Annotated[
        VerifyResult | None, Doc("a pass over several new tokens of one user; with `--verify-tokens`")
    ] = None
    drafts: Annotated[DraftPlanResult | None, Doc("the drafts that gain most; with `--draft`")] = None
    published: Annotated[
        tuple[PublishedSpeed, ...] | None,
        Doc("published speeds of the model on this wafer: the fastest without drafts, and the fastest with drafts"),
    ] = None
    crossing: Annotated[CrossingResult | None, Doc("bytes between wafers for a generated token")] = None
    schedule: Annotated[PipeliningResult | None, Doc("pipelining: streams on their way through stages")] = None
    serving: Annotated[ServingResult | None, Doc("what users get, and what a token costs")] = None
    bounds: Annotated[BoundsResult | None, Doc("a generated token beside what limits it")] = None
    energy: Annotated[EnergyResult | None, Doc("joules of a token")] = None
    cost: Annotated[CostResult | None, Doc("dollars of a million tokens")] = None
    grades: Annotated[Mapping[str, GradeResult], Doc("by the key of a number, how well it is known")]
    routing: Annotated[
        str | None, Doc("of models with experts: `even`, or `given` where a run's choice of experts is timed")
    ] = None
    defects: Annotated[DefectsResult | None, Doc("what dead PEs and links cost; with `--defects`")] = None
    search: Annotated[SearchResult | None, Doc("layouts that were tried, where there were several")] = None
    rewrites: Annotated[
        tuple[RewriteResult, ...] | None, Doc("rewrites of a layer's steps; absent with `--schedule released`")
    ] = None
    sensitivity: Annotated[tuple[ChangeResult, ...] | None, Doc("what another wafer would change")] = None
    trace: Annotated[str | None, Doc("path of the trace")] = None

    def plot(self) -> Figure:
        """Return the cycles of a generated token by cause, in all and by kind of op.

        Of the prompt where nothing is decoded.
        """
        if self.bounds is None or self.decode is None:
            return causes_figure({"prompt": self.prefill.cycles_by}, f"Prompt of {self.model.name}")
        ops = {(row.op or "").replace("_", " "): row.cycles_by for row in self.bounds.ops}
        return causes_figure({"whole token": self.decode.cycles_by, **ops}, f"A generated token of {self.model.name}")

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return the answer, published speeds, cycles, SRAM, operating points, and the settings.

        Args:
            detail: Whether to add grades, the placement, bounds, the gap to them, and the layouts that were tried.
            width: Columns of the terminal.
        """
        tables = wafer_answer_tables(self, detail=detail)
        if self.published is not None:
            tables.append(published_table(self.published))
        if self.defects is not None:
            tables.append(defects_table(self.defects))
        if self.decode is not None:
            tables.append(causes_table(self.decode.cycles_by, width=width))
        tables += sram_tables(
            self.sram, self.batch, self.system.context or 0, str(self.inputs["objective"]), detail=detail, width=width
        )
        if self.serving is not None:
            price = "" if self.cost is None else price_text(self.cost.price_ends, "wafer", self.cost.assumptions)
            tables.append(points_table(self.serving, price))
        if self.drafts is not None:
            tables.append(draft_table(self.drafts))
        if self.sensitivity is not None:
            tables.append(_sensitivity_table(self.sensitivity))
        if detail:
            tables += self._detail_tables(width)
        tables.append(_inputs_table(self))
        if self.trace is not None:
            view = printable(f"wse inspect {shlex.quote(self.trace)}")
            tables.append(pair_table([("written to", printable(self.trace)), ("look inside", view)], "Trace"))
        return tuple(tables)

    def _detail_tables(self, width: int) -> list[Table]:
        """Return placement, bounds, gaps, pipelining, layouts and rewrites."""
        tables = [placement_table(self.model, self.wafer, self.system)]
        if self.bounds is not None:
            tables += [token_table(self.bounds, width), gap_table(self.bounds.token, self.bounds.gap)]
            tables += layer_and_stage_tables(self.bounds, width)
        if self.schedule is not None:
            tables += pipelining_tables(self.schedule)
        if self.search is not None:
            tables.append(search_table(self.search, self.wafer.clock_hz))
        if self.rewrites is not None and self.decode is not None:
            tables.append(rewrites_table(self.rewrites, self.decode.cycles_per_token))
        if self.verify is not None and self.verify.rewrites is not None:
            tables.append(rewrites_table(self.verify.rewrites, self.verify.cycles, "pass"))
        return tables


def _inputs_table(result: EstimateResult) -> Table:
    """Return the options, defaults filled in, as they are given on the command line."""
    replaced = result.wafer.replaced or {}
    options = [
        f"--{name.replace('_', '-')} {printable(value)}"
        for name, value in result.inputs.items()
        if name != "model" and name not in replaced
    ]
    options += setting_texts(replaced)
    rows = [("model", printable(result.inputs["model"])), ("options", " ".join(options))]
    return pair_table(rows, "Settings")


def _sensitivity_table(changes: tuple[ChangeResult, ...]) -> Table:
    """Return the numbers of the request with each change, and the factors by which they differ from those without."""
    first, *others = (key for key in CHANGED if getattr(changes[0], key) is not None)
    columns = (
        Column(key="change", title="with"),
        number(first, CHANGED[first], cell=lambda row: _change(first, row) if row.fits else "does not fit"),
        *(number(key, CHANGED[key], cell=partial(_change, key)) for key in others),
    )
    note = "the same request; × what it is now"
    return Table(columns=columns, rows=changes, title="On another wafer or with other code", note=note)


def _change(key: str, row: ChangeResult) -> str:
    if row.factors is None:
        return ""
    value = getattr(row, key)
    text = seconds(value) if key == "ttft_s" else count(value)
    factor = f"{row.factors.get(key, 1.0):.3g}"
    return text if factor == "1" else f"{text} ×{factor}"

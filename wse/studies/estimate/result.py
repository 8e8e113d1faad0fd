"""EstimateResult: cycles, traffic, SRAM and cost of a request, and the tables that show them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from wse.reports.intervals import RangeResult
from wse.reports.number_text import count, seconds
from wse.reports.result import Doc, Result
from wse.reports.shared_tables import causes_table, inputs_table, price_source, price_text
from wse.reports.table import Column, Table, number, pair_table
from wse.reports.terminal import WIDEST, printable
from wse.serving.goal import LATENCY
from wse.studies.estimate.answer import wafer_answer_tables
from wse.studies.estimate.bounds.bounds import BoundsResult, layer_and_stage_tables, token_table
from wse.studies.estimate.bounds.gap import gap_table
from wse.studies.estimate.cuts import CutsResult
from wse.studies.estimate.drafts.result import DraftPlanResult, draft_table
from wse.studies.estimate.economy import CostResult, EnergyResult
from wse.studies.estimate.grades import GradeResult
from wse.studies.estimate.layouts.result import LayoutResult, SearchResult, search_table
from wse.studies.estimate.ranges.result import UncertaintyResult, contributions_table
from wse.studies.estimate.sram import EstimateSram, sram_tables
from wse.studies.estimate.timing.latency import LatencyResult
from wse.studies.estimate.timing.pipelining import PipeliningResult
from wse.studies.estimate.timing.pipelining_tables import pipelining_tables
from wse.studies.estimate.timing.verify import VerifyResult
from wse.studies.results.defects import DefectsResult, defects_table
from wse.studies.results.expert_loads import ExpertLoadsResult, expert_loads_table
from wse.studies.results.operating_points import ServingResult, points_tables
from wse.studies.results.phases import CrossingResult, DecodeResult, FabricResult, PrefillResult, causes_figure
from wse.studies.results.placement import ModelResult, SystemResult, WaferResult
from wse.studies.results.placement_table import placement_table
from wse.studies.results.published import PublishedSpeed, published_table
from wse.studies.results.rewrites import RewriteResult, rewrites_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHANGED: Final = {
    "wafers": "wafers",
    "tokens_per_s_per_user": "tokens/s/user",
    "ttft_s": "TTFT",
    "kv_capacity_tokens": "KV tokens",
}
"""Numbers to show for a changed request, with their column headings."""


class ChangeResult(Result):
    """Effect of one change to the machine, such as more SRAM, on the numbers of an estimate.

    If the model does not fit after the change, only ``change`` and ``fits`` are set.
    """

    change: Annotated[str, Doc("the change")]
    fits: Annotated[bool, Doc("whether the model fits")]
    wafers: Annotated[int | None, Doc("number of wafers")] = None
    kv_capacity_tokens: Annotated[int | None, Doc("tokens of each user's KV cache that fit")] = None
    ttft_s: Annotated[float | None, Doc("time to first token", "s")] = None
    tokens_per_s_per_user: Annotated[float | None, Doc("generated tokens of each user", "tokens/s")] = None
    tokens_per_s: Annotated[float | None, Doc("generated tokens of all users", "tokens/s")] = None
    factors: Annotated[
        Mapping[str, float] | None, Doc("each of the numbers above, divided by the unchanged number")
    ] = None


class EstimateResult(Result):
    """The result of ``wse estimate`` on wafers: cycles, traffic, SRAM and cost of a request.

    Fields about decoded tokens are None if each user gets only one new token. Prefill already
    yields this token, so nothing is decoded.
    """

    inputs: Annotated[
        Mapping[str, str | int | float],
        Doc("the options with defaults filled in; `wafer.NAME` and `software.NAME` are numbers that were replaced"),
    ]
    note: Annotated[
        str | None, Doc("lengths or an element type that neither request nor files state, and prices that are not used")
    ] = None
    batch: Annotated[int, Doc("users whose tokens are decoded together")]
    model: Annotated[ModelResult, Doc("the model")]
    wafer: Annotated[WaferResult, Doc("a wafer with the mesh that programs see")]
    system: Annotated[SystemResult, Doc("wafers, mapping and stages")]
    cuts: Annotated[CutsResult | None, Doc("layers that are split between stages; absent if none is")] = None
    sram: Annotated[EstimateSram, Doc("use of SRAM")]
    prefill: Annotated[PrefillResult, Doc("the prompts")]
    fabric: Annotated[FabricResult, Doc("words on links")]
    latency: Annotated[
        LatencyResult, Doc("latencies of one batch alone on the wafers; `serving` has those with all users")
    ]
    decode: Annotated[
        DecodeResult | None,
        Doc("one decode pass, with no other pass in flight; `serving` has the speeds with all users"),
    ] = None
    verify: Annotated[
        VerifyResult | None, Doc("a pass over several new tokens of one user; with `--verify-tokens`")
    ] = None
    drafts: Annotated[DraftPlanResult | None, Doc("the best drafts; with `--draft`")] = None
    published: Annotated[
        tuple[PublishedSpeed, ...] | None,
        Doc("published speeds of the model on this wafer: the fastest without drafts, and the fastest with drafts"),
    ] = None
    crossing: Annotated[CrossingResult | None, Doc("bytes between wafers for a generated token")] = None
    schedule: Annotated[PipeliningResult | None, Doc("pipelining: several streams in flight through the stages")] = None
    serving: Annotated[ServingResult, Doc("speeds for users, and the cost of a token")]
    bounds: Annotated[BoundsResult | None, Doc("cycles of a generated token, with their lower bounds")] = None
    energy: Annotated[EnergyResult | None, Doc("energy of a token")] = None
    cost: Annotated[CostResult, Doc("cost of a million tokens")]
    grades: Annotated[Mapping[str, GradeResult], Doc("evidence grades; keys are paths of numbers in this result")]
    ranges: Annotated[
        Mapping[str, RangeResult] | None,
        Doc("90 % intervals of headline figures; keys are paths of numbers in this result"),
    ] = None
    uncertainty: Annotated[UncertaintyResult | None, Doc("what the intervals come from; with `--uncertainty`")] = None
    routing: Annotated[
        str | None,
        Doc("choice of experts: `even`, `zipf:S` or a file as of `--routing`; absent without experts"),
    ] = None
    expert_loads: Annotated[
        tuple[ExpertLoadsResult, ...] | None,
        Doc("loads of experts in a decode pass; with `--routing` or `--place-experts`"),
    ] = None
    defects: Annotated[DefectsResult | None, Doc("cost of dead PEs and links; with `--defects`")] = None
    search: Annotated[SearchResult | None, Doc("layouts that were tried, if there were several")] = None
    roomiest_layout: Annotated[
        LayoutResult | None,
        Doc(
            "layout with room for `serving.max_users_of_any_layout`, with the smallest prompt chunks; with "
            "`--most-users`, absent if the chosen layout has as much room"
        ),
    ] = None
    rewrites: Annotated[
        tuple[RewriteResult, ...] | None, Doc("rewrites of a layer's steps; absent with `--schedule baseline`")
    ] = None
    sensitivity: Annotated[
        tuple[ChangeResult, ...] | None, Doc("effects of changed numbers of the machine; with `--sensitivity`")
    ] = None
    trace: Annotated[str | None, Doc("path of the trace")] = None

    def plot(self) -> Figure:
        """Return a bar chart of the cycles per decoded token, by cause.

        There is one bar for the whole token and one for each kind of op in it. If nothing is
        decoded, the only bar shows the prompt.
        """
        if self.bounds is None or self.decode is None:
            return causes_figure({"prompt": self.prefill.cycles_by}, f"Prompt of {self.model.name}")
        ops = {(row.op or "").replace("_", " "): row.cycles_by for row in self.bounds.ops}
        return causes_figure({"whole token": self.decode.cycles_by, **ops}, f"A generated token of {self.model.name}")

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return the tables of the estimate.

        They show the main numbers, published speeds, cycles by cause, SRAM, the speed and cost for
        various user counts, drafts, the effects of changes to the machine, and the settings.

        Args:
            detail: Whether to add evidence grades, the placement, lower bounds on the cycles,
                pipelining, the layouts that were tried, and rewrites.
            width: Terminal width in characters.
        """
        tables = wafer_answer_tables(self, detail=detail)
        if self.published is not None:
            tables.append(published_table(self.published, self.serving.users))
        if self.defects is not None:
            tables.append(defects_table(self.defects))
        if self.decode is not None:
            tables.append(causes_table(self.decode.cycles_by, width=width))
        is_for_one_user = self.serving.users == self.serving.replicas and self.inputs["objective"] == LATENCY
        tables += sram_tables(
            self.sram,
            self.batch,
            self.system.context,
            self.serving,
            for_one_user=is_for_one_user,
            detail=detail,
            width=width,
        )
        price = price_text(self.cost.price_ends, "wafer", price_source(self.cost.assumptions))
        tables += points_tables(self.serving, price)
        if self.expert_loads is not None:
            tables.append(expert_loads_table(self.expert_loads, self.batch))
        if self.drafts is not None:
            tables.append(draft_table(self.drafts))
        if self.uncertainty is not None:
            tables.append(contributions_table(self.uncertainty))
        if self.sensitivity is not None:
            tables.append(_sensitivity_table(self.sensitivity))
        if detail:
            tables += self._detail_tables(width)
        tables.append(inputs_table(self.inputs, self.wafer.replaced or {}))
        if self.trace is not None:
            view = printable(f"wse inspect {shlex.quote(self.trace)}")
            tables.append(pair_table([("written to", printable(self.trace)), ("look inside", view)], "Trace"))
        return tuple(tables)

    def _detail_tables(self, width: int) -> list[Table]:
        """Return the tables that ``--detail`` adds, such as placement, bounds and rewrites."""
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


def _sensitivity_table(changes: tuple[ChangeResult, ...]) -> Table:
    """Return a table of the numbers after each change to the machine, with relative changes."""
    first_key, *other_keys = (key for key in CHANGED if getattr(changes[0], key) is not None)
    columns = (
        Column(key="change", title="with"),
        number(first_key, CHANGED[first_key], cell=lambda row: _change(first_key, row) if row.fits else "does not fit"),
        *(number(key, CHANGED[key], cell=partial(_change, key)) for key in other_keys),
    )
    note = "the same request with one change, on the layout that is then best; ×: factor to the unchanged number"
    return Table(columns=columns, rows=changes, title="Sensitivity", note=note)


def _change(key: str, row: ChangeResult) -> str:
    """Format a number after a change of the machine, with its ratio to the original number.

    The text is empty if the model does not fit.
    """
    if row.factors is None:
        return ""
    value = getattr(row, key)
    text = seconds(value) if key == "ttft_s" else count(value)
    factor = f"{row.factors.get(key, 1.0):.3g}"
    return text if factor == "1" else f"{text} ×{factor}"

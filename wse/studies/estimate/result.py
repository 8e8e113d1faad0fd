"""EstimateResult: what an estimate answers with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from wse.report.result import Doc, Result
from wse.report.table import Table
from wse.studies.estimate.bounds import BoundsResult
from wse.studies.estimate.economy import CostResult, EnergyResult
from wse.studies.estimate.grades import CodeResult, GradeResult
from wse.studies.estimate.latency import LatencyResult
from wse.studies.estimate.pipelining import PipeliningResult
from wse.studies.estimate.search_result import SearchResult
from wse.studies.estimate.users import UsersResult
from wse.studies.results.defects import DefectsResult
from wse.studies.results.phases import DecodeResult, PrefillResult
from wse.studies.results.placement import ModelResult, SystemResult, WaferResult
from wse.studies.results.sram import BytesByUse, SramResult
from wse.studies.results.traffic import CrossingResult, FabricResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class EstimateSram(SramResult):
    """The fullest PE, the PEs of each stage, the code, and users whose caches fit."""

    stages: Annotated[tuple[BytesByUse, ...], Doc("SRAM of a PE of each stage by use", "B")]
    code: Annotated[CodeResult, Doc("code on a PE")]
    users: Annotated[tuple[UsersResult, ...], Doc("users whose caches fit, by context")]


@dataclass(frozen=True, kw_only=True)
class ChangeResult(Result):
    """The same request with one number changed; ``fits`` alone where the model does not fit."""

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
    """Cycles, traffic, SRAM and cost of a request; what concerns generated tokens is absent where none is decoded."""

    inputs: Annotated[
        Mapping[str, str | int | float],
        Doc("the options with defaults filled in; `wafer.NAME` and `software.NAME` are numbers that were replaced"),
    ]
    batch: Annotated[int, Doc("users whose tokens are decoded together")]
    model: Annotated[ModelResult, Doc("the model")]
    wafer: Annotated[WaferResult, Doc("a wafer as programs see it")]
    system: Annotated[SystemResult, Doc("wafers, mapping and stages")]
    sram: Annotated[EstimateSram, Doc("how full PEs are")]
    prefill: Annotated[PrefillResult, Doc("the prompts")]
    fabric: Annotated[FabricResult, Doc("words over links")]
    latency: Annotated[LatencyResult, Doc("what a user waits for")]
    decode: Annotated[DecodeResult | None, Doc("a generated token")] = None
    crossing: Annotated[CrossingResult | None, Doc("bytes between wafers for a generated token")] = None
    schedule: Annotated[PipeliningResult | None, Doc("pipelining: streams on their way through stages")] = None
    bounds: Annotated[BoundsResult | None, Doc("a generated token beside what limits it")] = None
    energy: Annotated[EnergyResult | None, Doc("joules of a token")] = None
    cost: Annotated[CostResult | None, Doc("dollars of a million tokens")] = None
    grades: Annotated[Mapping[str, GradeResult], Doc("by the key of a number, how well it is known")]
    routing: Annotated[
        str | None, Doc("of models with experts: `even`, or `given` where a run's choice of experts is timed")
    ] = None
    defects: Annotated[DefectsResult | None, Doc("what dead PEs and links cost; with `--defects`")] = None
    search: Annotated[SearchResult | None, Doc("layouts that were tried, where there were several")] = None
    sensitivity: Annotated[tuple[ChangeResult, ...] | None, Doc("what another wafer would change")] = None
    trace: Annotated[str | None, Doc("path of the trace")] = None

    def plot(self) -> Figure:
        """Cycles of a generated token by cause, in all and by kind of op; of the prompt where nothing is decoded."""
        from wse.studies.results.cause_figure import causes_figure

        if self.bounds is None or self.decode is None:
            return causes_figure({"prompt": self.prefill.cycles_by}, f"Prompt of {self.model.name}")
        ops = {(row.op or "").replace("_", " "): row.cycles_by for row in self.bounds.ops}
        return causes_figure({"whole token": self.decode.cycles_by, **ops}, f"A generated token of {self.model.name}")

    def tables(self) -> tuple[Table, ...]:
        from wse.studies.estimate.tables import estimate_tables  # which are made of this class

        return estimate_tables(self)

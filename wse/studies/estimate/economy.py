"""``energy`` and ``cost`` of a result: joules and dollars of a token, with their ranges, grades and assumptions.

A whole wafer draws its power and costs its price, whatever share of its mesh is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from wse.fabric.activity import Counts, phase_counts
from wse.fabric.model import Fabric, TokenClass
from wse.fabric.run_totals import PhaseTotals
from wse.hardware.number import Grade
from wse.report.result import Doc, Result
from wse.serving.cost import Activity, activity_energy, activity_joules, system_cost, system_energy
from wse.serving.economics import Economics

Range = tuple[float, float]
EnergyUse = Literal["arithmetic", "sram", "fabric", "issue", "idle"]


@dataclass(frozen=True, kw_only=True)
class ActivityEnergyResult(Result):
    """Joules of a token from what PEs and links do for it: an estimate from below."""

    joules_per_token: Annotated[float, Doc("energy of a generated token of one user", "J")]
    range: Annotated[Range | None, Doc("lowest and highest, by the ranges of the assumptions", "J")] = None
    grade: Annotated[Grade, Doc("grade of the weakest assumption")]
    assumptions: Annotated[str, Doc("what it rests on")]
    joules_by: Annotated[Mapping[EnergyUse, float], Doc("the same by use", "J")]


@dataclass(frozen=True, kw_only=True)
class EnergyResult(Result):
    """Joules of a generated token of one user, from the power of whole wafers."""

    joules_per_token: Annotated[float, Doc("energy of a generated token with one batch on the wafers", "J")]
    range: Annotated[Range | None, Doc("lowest and highest, by the ranges of the assumptions", "J")] = None
    grade: Annotated[Grade, Doc("grade of the weakest assumption")]
    assumptions: Annotated[str, Doc("what it rests on")]
    joules_per_token_saturated: Annotated[
        float | None, Doc("with as many batches in flight as keep the slowest stage busy, where they fit", "J")
    ] = None
    wafer_power_w: Annotated[float, Doc("power of a wafer", "W")]
    from_below: Annotated[ActivityEnergyResult, Doc("an estimate from what PEs and links do")]


@dataclass(frozen=True, kw_only=True)
class CostResult(Result):
    """Dollars of a million generated tokens, from the price of a wafer's hour."""

    usd_per_million_tokens: Annotated[float, Doc("price of a million tokens with one batch on the wafers", "USD")]
    range: Annotated[Range | None, Doc("lowest and highest, by the ranges of the assumptions", "USD")] = None
    grade: Annotated[Grade, Doc("grade of the weakest assumption")]
    assumptions: Annotated[str, Doc("what it rests on")]
    usd_per_million_tokens_saturated: Annotated[
        float | None, Doc("with as many batches in flight as keep the slowest stage busy, where they fit", "USD")
    ] = None
    wafer_usd_per_hour: Annotated[float, Doc("price of a wafer's hour", "USD")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Tokens a second of all users together.

    Attributes:
        alone: With one batch on the wafers.
        saturated: With as many in flight as keep the slowest stage busy, where they fit; None where there is one stage.
    """

    alone: float
    saturated: float | None


def energy_result(
    fabric: Fabric, totals: PhaseTotals, token_classes: Sequence[TokenClass], economics: Economics, tokens_per_s: Rates
) -> EnergyResult:
    """Joules of a generated token of one user.

    Args:
        fabric: The model that made the costs.
        totals: All decoded tokens.
        token_classes: The same by cost.
        economics: What is assumed.
        tokens_per_s: Of all users together.
    """
    wafers, saturated = fabric.program.wafers, tokens_per_s.saturated
    joules = system_energy(wafers, tokens_per_s.alone, economics)
    activity = _activity(fabric, totals, token_classes)
    below = activity_energy(activity, economics)
    return EnergyResult(
        joules_per_token=joules.value,
        range=joules.range,
        grade=joules.grade,
        assumptions=joules.source,
        joules_per_token_saturated=None if saturated is None else system_energy(wafers, saturated, economics).value,
        wafer_power_w=economics.wafer_power_w,
        from_below=ActivityEnergyResult(
            joules_per_token=below.value,
            range=below.range,
            grade=below.grade,
            assumptions=below.source,
            joules_by=activity_joules(activity, economics),  # type: ignore[arg-type]
        ),
    )


def cost_result(wafers: int, economics: Economics, tokens_per_s: Rates) -> CostResult:
    """Dollars of a million generated tokens on so many wafers."""
    dollars, saturated = system_cost(wafers, tokens_per_s.alone, economics), tokens_per_s.saturated
    return CostResult(
        usd_per_million_tokens=dollars.value,
        range=dollars.range,
        grade=dollars.grade,
        assumptions=dollars.source,
        usd_per_million_tokens_saturated=None if saturated is None else system_cost(wafers, saturated, economics).value,
        wafer_usd_per_hour=economics.wafer_usd_per_hour,
    )


def _activity(fabric: Fabric, totals: PhaseTotals, token_classes: Sequence[TokenClass]) -> Activity:
    """The work of PEs and links for a mean token of one user; a word of a message crosses a ramp at both ends."""
    program, wafer, phase = fabric.program, fabric.wafer, fabric.program.decode
    tokens = sum(group.tokens for group in token_classes) * program.batch
    all_slots = [group.slots for group in token_classes]
    counts_of_groups = phase_counts(program, wafer, fabric.software, phase, all_slots, fabric.shape_classes(phase))
    counts = Counts(
        *(
            sum(value * group.tokens for value, group in zip(column, token_classes, strict=True)) / tokens
            for column in zip(*counts_of_groups, strict=True)
        )
    )
    half, narrow = program.element_type("act") != "float32", program.element_type("acc") != "float32"
    kind = "macs_fp32" if not half else "macs_fp16" if narrow else "macs_fp16_fp32"
    pes = program.wafers * program.wafer_rows * program.wafer_cols
    return Activity(
        **{kind: counts.macs},
        sram_read_bytes=counts.read_bytes,
        vector_operations=counts.vector_operations,
        wavelet_hops=totals.hops / tokens,
        ramp_wavelets=2 * totals.words / tokens,
        pe_s=pes * totals.cycles / tokens / wafer.clock_hz,
    )

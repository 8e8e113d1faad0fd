"""``energy`` and ``cost`` of a result: joules and dollars of a token, with their ranges, grades and assumptions.

A whole wafer draws its power and costs its price, whatever share of its mesh is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from wse.backends.fabric.activity import Counts, phase_counts
from wse.backends.fabric.model import Fabric, TokenClass
from wse.backends.fabric.run_totals import PhaseTotals
from wse.hardware.number import Grade
from wse.reports.price import PriceEnds
from wse.reports.result import Doc, Result
from wse.serving.cost import Activity, activity_energies, activity_energy, activity_joules, system_cost, system_energy
from wse.serving.economics import Economics
from wse.studies.results.operating_points import ServingResult

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

    users: Annotated[int, Doc("users that share the wafers")]
    joules_per_token: Annotated[float, Doc("energy of an output token, prompts included", "J")]
    range: Annotated[Range | None, Doc("lowest and highest, by the ranges of the assumptions", "J")] = None
    grade: Annotated[Grade, Doc("grade of the weakest assumption")]
    assumptions: Annotated[str, Doc("what it rests on")]
    wafer_power_w: Annotated[float, Doc("power of a wafer", "W")]
    from_below: Annotated[ActivityEnergyResult, Doc("an estimate from what PEs and links do")]


@dataclass(frozen=True, kw_only=True)
class CostResult(Result):
    """Dollars of a million generated tokens, from the price of a wafer's hour."""

    users: Annotated[int, Doc("users that share the wafers")]
    usd_per_million_tokens: Annotated[float, Doc("price of a million output tokens, prompts included", "USD")]
    usd_per_million_tokens_low: Annotated[float, Doc("the same at the low end of the price's range", "USD")]
    usd_per_million_tokens_high: Annotated[float, Doc("the same at the high end of the price's range", "USD")]
    range: Annotated[Range | None, Doc("lowest and highest, by the ranges of the assumptions", "USD")] = None
    grade: Annotated[Grade, Doc("grade of the weakest assumption")]
    assumptions: Annotated[str, Doc("what it rests on")]
    wafer_usd_per_hour: Annotated[float, Doc("price of a wafer's hour", "USD")]
    wafer_usd_per_hour_low: Annotated[float, Doc("low end of its range", "USD")]
    wafer_usd_per_hour_high: Annotated[float, Doc("high end of its range", "USD")]

    @property
    def price_ends(self) -> PriceEnds:
        """Low end, value and high end of the price of an hour."""
        return self.wafer_usd_per_hour_low, self.wafer_usd_per_hour, self.wafer_usd_per_hour_high


def energy_result(
    fabric: Fabric,
    totals: PhaseTotals,
    token_classes: Sequence[TokenClass],
    economics: Economics,
    serving: ServingResult,
) -> EnergyResult:
    """Return joules of an output token.

    Args:
        fabric: The model that made the costs.
        totals: All decoded tokens.
        token_classes: The same by cost.
        economics: Power of a wafer, and energies of what PEs and links do.
        serving: The operating point.
    """
    joules = system_energy(serving.replicas * fabric.program.wafers, serving.tokens_per_s, economics)
    activity = _activity(fabric, totals, token_classes)
    below = activity_energy(activity, economics)
    return EnergyResult(
        users=serving.users,
        joules_per_token=joules.value,
        range=joules.range,
        grade=joules.grade,
        assumptions=joules.source,
        wafer_power_w=economics.power_w.value,
        from_below=ActivityEnergyResult(
            joules_per_token=below.value,
            range=below.range,
            grade=below.grade,
            assumptions=below.source,
            joules_by=activity_joules(activity, activity_energies(economics)),  # type: ignore[arg-type]
        ),
    )


def cost_result(wafers: int, economics: Economics, serving: ServingResult) -> CostResult:
    """Return dollars of a million output tokens at an operating point whose replicas have so many wafers each."""
    dollars = system_cost(serving.replicas * wafers, serving.tokens_per_s, economics)
    return CostResult(
        users=serving.users,
        usd_per_million_tokens=dollars.value,
        usd_per_million_tokens_low=dollars.low,
        usd_per_million_tokens_high=dollars.high,
        range=dollars.range,
        grade=dollars.grade,
        assumptions=dollars.source,
        wafer_usd_per_hour=economics.usd_per_hour.value,
        wafer_usd_per_hour_low=economics.usd_per_hour.low,
        wafer_usd_per_hour_high=economics.usd_per_hour.high,
    )


def _activity(fabric: Fabric, totals: PhaseTotals, token_classes: Sequence[TokenClass]) -> Activity:
    """Return the work of PEs and links for a mean token of one user.

    A word of a message crosses a ramp at both ends.
    """
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

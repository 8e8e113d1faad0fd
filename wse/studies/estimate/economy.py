"""``energy`` and ``cost`` of an estimate: energy and cost per token, with ranges and assumptions.

A wafer is assigned its full power and price even if only part of its mesh is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from wse.hardware.number import Grade
from wse.reports.result import Doc, Result
from wse.reports.shared_tables import PriceEnds
from wse.serving.cost import Activity, activity_energies, activity_energy, activity_joules, system_cost, system_energy
from wse.serving.economics import Economics
from wse.studies.results.operating_points import ServingResult

if TYPE_CHECKING:
    from wse.backends.fabric.model import Fabric
    from wse.backends.fabric.phase_cost import TokenClass
    from wse.backends.fabric.run_totals import PhaseTotals

Range = tuple[float, float]
EnergyUse = Literal["arithmetic", "sram", "fabric", "issue", "idle"]


class ActivityEnergyResult(Result):
    """Lower estimate of the energy per token: the sum over the operations of PEs and links."""

    joules_per_token: Annotated[
        float, Doc("energy of an output token; of prompts, only the idle energy is counted", "J")
    ]
    range: Annotated[Range | None, Doc("lowest and highest, from the ranges of the assumptions", "J")] = None
    grade: Annotated[Grade, Doc("grade of the weakest assumption")]
    assumptions: Annotated[str, Doc("the assumptions and their sources")]
    joules_by: Annotated[Mapping[EnergyUse, float], Doc("the energy of a token, divided by use", "J")]


class EnergyResult(Result):
    """Energy per generated token on wafers: the power of all wafers divided by their tokens/s."""

    users: Annotated[int, Doc("users that share the wafers")]
    joules_per_token: Annotated[float, Doc("energy of an output token, prompts included", "J")]
    range: Annotated[Range | None, Doc("at the low and high end of the power; the speed is as estimated", "J")] = None
    grade: Annotated[Grade, Doc("grade of the power; `grades` takes the speed into account")]
    assumptions: Annotated[str, Doc("the assumptions and their sources")]
    wafer_power_w: Annotated[float, Doc("power of a wafer", "W")]
    from_below: Annotated[ActivityEnergyResult, Doc("a lower estimate, from what PEs and links do")]


class CostResult(Result):
    """Cost per million generated tokens on wafers, computed from the hourly price of a wafer."""

    users: Annotated[int, Doc("users that share the wafers")]
    usd_per_million_tokens: Annotated[float, Doc("price of a million output tokens, prompts included", "USD")]
    usd_per_million_tokens_low: Annotated[
        float, Doc("price of a million output tokens at the low end of the price range", "USD")
    ]
    usd_per_million_tokens_high: Annotated[
        float, Doc("price of a million output tokens at the high end of the price range", "USD")
    ]
    range: Annotated[Range | None, Doc("at the low and high end of the price; the speed is as estimated", "USD")] = None
    grade: Annotated[Grade, Doc("grade of the price; `grades` takes the speed into account")]
    assumptions: Annotated[str, Doc("the assumptions and their sources")]
    wafer_usd_per_hour: Annotated[float, Doc("price of a wafer's hour", "USD")]
    wafer_usd_per_hour_low: Annotated[float, Doc("low end of its range", "USD")]
    wafer_usd_per_hour_high: Annotated[float, Doc("high end of its range", "USD")]

    @property
    def price_ends(self) -> PriceEnds:
        """Hourly price of a wafer in USD: low end, value and high end."""
        return self.wafer_usd_per_hour_low, self.wafer_usd_per_hour, self.wafer_usd_per_hour_high


def energy_result(
    fabric: Fabric,
    totals: PhaseTotals,
    token_classes: Sequence[TokenClass],
    economics: Economics,
    serving: ServingResult,
) -> EnergyResult:
    """Return the energy per output token, estimated in two ways.

    1. Divide the power of all wafers by their tokens/s.
    2. Add up the energies of the operations of PEs and links (``from_below``).

    Args:
        fabric: Timing model of the compiled Program.
        totals: Totals over all decoded tokens.
        token_classes: Groups of decoded tokens with the same cost.
        economics: Power of a wafer, and energies of PE and link operations.
        serving: Number of users and their tokens/s.
    """
    joules = system_energy(serving.replicas * fabric.program.wafers, serving.tokens_per_s, economics)
    activity = _activity(fabric, totals, token_classes, serving)
    activity_estimate = activity_energy(activity, economics)
    return EnergyResult.from_parts(
        joules,
        users=serving.users,
        joules_per_token=joules.value,
        assumptions=joules.source,
        wafer_power_w=economics.power_w.value,
        from_below=ActivityEnergyResult.from_parts(
            activity_estimate,
            joules_per_token=activity_estimate.value,
            assumptions=activity_estimate.source,
            joules_by=activity_joules(activity, activity_energies(economics)),
        ),
    )


def cost_result(wafers: int, economics: Economics, serving: ServingResult) -> CostResult:
    """Return the cost per million output tokens on wafers.

    Args:
        wafers: Number of wafers per replica.
        economics: Price of a wafer.
        serving: Numbers of replicas and users, and their tokens/s.
    """
    dollars = system_cost(serving.replicas * wafers, serving.tokens_per_s, economics)
    return CostResult.from_parts(
        dollars,
        users=serving.users,
        assumptions=dollars.source,
        **dollars.with_ends("usd_per_million_tokens"),
        **economics.usd_per_hour.with_ends("wafer_usd_per_hour"),
    )


def _activity(
    fabric: Fabric, totals: PhaseTotals, token_classes: Sequence[TokenClass], serving: ServingResult
) -> Activity:
    """Count the operations of PEs and links per output token, averaged over all tokens.

    Each word of a message crosses two ramps (the connections between a router and its PE): one at
    the sender and one at the receiver. Operations for prompts are not counted, but the PE
    time includes the time of prompts.
    """
    from wse.backends.fabric.activity import Counts, phase_counts  # slow to load, and not needed to read a result

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
    macs_key = "macs_fp32" if not half else "macs_fp16" if narrow else "macs_fp16_fp32"
    pes = program.wafers * program.wafer_rows * program.wafer_cols
    return Activity(
        **{macs_key: counts.macs},
        sram_read_bytes=counts.read_bytes,
        vector_operations=counts.vector_operations,
        wavelet_hops=totals.hops / tokens,
        ramp_wavelets=2 * totals.words / tokens,
        pe_s=serving.replicas * pes / serving.tokens_per_s,
    )

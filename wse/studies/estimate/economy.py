"""``energy`` and ``cost`` of a report: joules and dollars of a token, with their ranges, grades and assumptions.

A whole wafer draws its power and costs its price, whatever share of its mesh is used.
"""

from __future__ import annotations

from collections.abc import Sequence

from wse.fabric.activity import Counts, phase_counts
from wse.fabric.clock import PhaseTotals
from wse.fabric.model import AlikeTokens, Fabric
from wse.hardware.number import Source
from wse.report.as_json import Report
from wse.serving.cost import system_cost
from wse.serving.economics import Economics
from wse.serving.energy import Activity, activity_energy, activity_joules, system_energy


def economy_facts(
    fabric: Fabric,
    totals: PhaseTotals,
    alike: Sequence[AlikeTokens],
    economics: Economics,
    tokens_per_s: dict[str, float],
) -> Report:
    """``energy`` and ``cost`` of a generated token of one user.

    Args:
        fabric: The model that made the costs.
        totals: All decoded tokens.
        alike: The same by cost.
        economics: What is assumed.
        tokens_per_s: Of all users together: ``alone``, with one batch on the wafers, and ``saturated``, with as many in
            flight as keep the slowest stage busy, where they fit.
    """
    wafers = fabric.program.wafers
    joules = {name: system_energy(wafers, rate, economics) for name, rate in tokens_per_s.items()}
    dollars = {name: system_cost(wafers, rate, economics) for name, rate in tokens_per_s.items()}
    activity = _activity(fabric, totals, alike)
    below = activity_energy(activity, economics)
    return {
        "energy": {
            "joules_per_token": joules["alone"].value,
            **_quality(joules["alone"]),
            **{f"joules_per_token_{name}": each.value for name, each in joules.items() if name != "alone"},
            "wafer_power_w": economics.wafer_power_w,
            "from_below": {
                "joules_per_token": below.value,
                **_quality(below),
                "joules_by": activity_joules(activity, economics),
            },
        },
        "cost": {
            "usd_per_million_tokens": dollars["alone"].value,
            **_quality(dollars["alone"]),
            **{f"usd_per_million_tokens_{name}": each.value for name, each in dollars.items() if name != "alone"},
            "wafer_usd_per_hour": economics.wafer_usd_per_hour,
        },
    }


def _quality(found: Source) -> Report:
    """How sure a number is, and what it rests on."""
    between = {} if found.range is None else {"range": list(found.range)}
    return {**between, "grade": found.grade, "assumptions": found.source}


def _activity(fabric: Fabric, totals: PhaseTotals, alike: Sequence[AlikeTokens]) -> Activity:
    """What PEs and links do for a token of one user, in the mean; a word of a message crosses a ramp at both ends."""
    program, wafer, phase = fabric.program, fabric.wafer, fabric.program.decode
    made = sum(each.tokens for each in alike) * program.batch
    each = [
        phase_counts(program, wafer, fabric.software, phase, group.slots, fabric.like_anywhere(phase))
        for group in alike
    ]
    counts = Counts(
        *(
            sum(value * group.tokens for value, group in zip(column, alike, strict=True)) / made
            for column in zip(*each, strict=True)
        )
    )
    half, narrow = program.element_type("act") != "float32", program.element_type("acc") != "float32"
    kind = "macs_fp32" if not half else "macs_fp16" if narrow else "macs_fp16_fp32"
    pes = program.wafers * program.wafer_rows * program.wafer_cols
    return Activity(
        **{kind: counts.macs},
        sram_read_bytes=counts.read_bytes,
        vector_operations=counts.vector_operations,
        wavelet_hops=totals.hops / made,
        ramp_wavelets=2 * totals.words / made,
        pe_s=pes * totals.cycles / made / wafer.clock_hz,
    )

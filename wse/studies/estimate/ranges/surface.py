"""Response surface: times of a deployment as a function of the uncertain constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wse.arrays import F64
from wse.studies.estimate.ranges.constants import CLOCK, UncertainConstant
from wse.studies.estimate.ranges.retiming import Retiming

_LINEAR: Final = 0.03
"""Relative effect up to which the nearer end of a range is not timed, but extrapolated."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResponseSurface:
    """Approximation of the times of a deployment for any values of the uncertain constants.

    The Program is timed once with each constant at the low end of its range and once at the high
    end. Between the two ends and the stated value, each effect is interpolated linearly, and the
    effects of several constants are added. It is an approximation, because two constants can affect
    the same maximum. Cycles are piecewise linear in nearly all constants. Compared with timings of
    the whole Program, the time per output token differs by 0.3 % in the median and by at most 2.4 %
    (tests/studies/estimate/ranges/test_surface.py). Timing several hundred samples would take 5 to
    25 s.

    If the nearer end of a range changes no time by more than 3 %, it is not timed but extrapolated.

    The clock needs one timing only. It divides all cycles and leaves times that are known in
    seconds, such as the latency of a link, as they are.

    Attributes:
        constants: The uncertain constants, in the order of all arrays.
        base: float64 ``[4]``, times with the stated constants, in seconds (`retiming.TIMES`).
        fixed: float64 ``[4]``, the part of ``base`` that does not depend on the clock.
        low_effects: float64 ``[constants, 4]``, change of each time at the low end, in seconds.
        high_effects: float64 ``[constants, 4]``, the same at the high end.
    """

    constants: tuple[UncertainConstant, ...]
    base: F64
    fixed: F64
    low_effects: F64
    high_effects: F64

    def ratios(self, values: F64) -> F64:
        """Return the times for samples of the constants, divided by the times as stated.

        Args:
            values: float64 ``[samples, constants]``, sampled values of each constant.

        Returns:
            float64 ``[samples, 4]``, one column of ratios for each duration in `retiming.TIMES`,
            such as the time per token.
        """
        cycles_s = np.broadcast_to(self.base - self.fixed, (len(values), len(self.base))).copy()
        fixed_s = np.broadcast_to(self.fixed, cycles_s.shape).copy()
        clock_ratio = np.ones(len(values))
        for constant, column, low, high in zip(
            self.constants, values.T, self.low_effects, self.high_effects, strict=True
        ):
            if constant.name == CLOCK:
                clock_ratio = constant.number.value / column
                continue
            effect = _interpolated(constant, column, low, high)
            if constant.is_in_seconds:
                fixed_s += effect
            else:
                cycles_s += effect
        times = fixed_s + cycles_s * clock_ratio[:, None]
        return np.asarray(times / np.where(self.base > 0, self.base, 1.0))


def response_surface(
    retiming: Retiming, constants: Sequence[UncertainConstant], *, on_several_wafers: bool
) -> ResponseSurface:
    """Measure how each uncertain constant affects the times of a Program.

    The Program is timed with each constant at the ends of its range.

    Args:
        retiming: Timing model of the Program.
        constants: The uncertain constants.
        on_several_wafers: Whether the Program uses the links between wafers. If not, the constants
            of these links are left out.
    """
    relevant_constants = tuple(c for c in constants if on_several_wafers or not c.name.startswith("wafer.wafer_link"))
    costs = retiming.costs
    base = retiming.stated_times
    times_at_double_clock = retiming.times(costs.with_constant(CLOCK, 2 * costs.wafer.clock_hz))
    effects = np.zeros((2, len(relevant_constants), len(base)))
    for column, constant in enumerate(relevant_constants):
        if constant.name == CLOCK:
            continue
        ends = constant.number.low, constant.number.high
        distances = [constant.position(end) - constant.position(constant.number.value) for end in ends]
        far_end = int(abs(distances[1]) >= abs(distances[0]))
        effect = retiming.times(costs.with_constant(constant.name, ends[far_end])) - base
        near_effect = effect * distances[1 - far_end] / distances[far_end]
        if not constant.is_in_seconds and (abs(near_effect) > _LINEAR * base).any():
            near_effect = retiming.times(costs.with_constant(constant.name, ends[1 - far_end])) - base
        effects[far_end, column], effects[1 - far_end, column] = effect, near_effect
    return ResponseSurface(
        constants=relevant_constants,
        base=base,
        fixed=2 * times_at_double_clock - base,
        low_effects=effects[0],
        high_effects=effects[1],
    )


def _interpolated(constant: UncertainConstant, values: F64, low: F64, high: F64) -> F64:
    """Return how sampled values of one constant change the times, by interpolation.

    Args:
        constant: The constant, with its range.
        values: float64 ``[samples]``, sampled values of the constant.
        low: float64 ``[4]``, change in seconds of each duration in `retiming.TIMES` (such as the
            time per token) if the constant is at the low end of its range.
        high: float64 ``[4]``, change of each duration at the high end.

    Returns:
        float64 ``[samples, 4]``, change of each duration in seconds.
    """
    low_at, value_at, high_at = (constant.position(end) for end in constant.number.low_value_high)
    at = constant.position(values)
    weight_low = np.clip((value_at - at) / (value_at - low_at), 0, 1) if low_at != value_at else np.zeros_like(at)
    weight_high = np.clip((at - value_at) / (high_at - value_at), 0, 1) if high_at != value_at else np.zeros_like(at)
    return np.asarray(weight_low[:, None] * low + weight_high[:, None] * high)

"""Uncertain constants: numbers with a range that affect times, and Latin hypercube samples."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from wse.arrays import F64
from wse.hardware.number import SourcedNumber, numeric_fields
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.studies.options.placement import MachineOptions
from wse.studies.options.settings import SOFTWARE, WAFER, sourced_numbers

SAMPLES: Final = 256
"""Number of samples, by default."""
SEED: Final = 0
"""Seed of the samples. It is fixed, so equal requests get equal ranges."""


def probabilities_of(name: str, samples: int) -> F64:
    """Return the cumulative probabilities at which to sample one uncertain number.

    They are one column of a Latin hypercube (McKay, Beckman and Conover, Technometrics 1979): one
    random probability in each of ``samples`` equal intervals from 0 to 1, in random order. The
    column depends on the name. All estimates therefore use the same samples of a constant, and can
    be compared sample by sample.

    Args:
        name: Name of the constant or other uncertain number.
        samples: Number of samples.

    Returns:
        float64 ``[samples]``.
    """
    generator = np.random.default_rng([SEED, zlib.crc32(name.encode())])
    return (generator.permutation(samples) + generator.random(samples)) / samples


def values_at(number: SourcedNumber, probabilities: F64) -> F64:
    """Return the values of an uncertain number that belong to cumulative probabilities (quantiles).

    The median is the stated value. Below it, all values down to the low end of the range are
    equally likely, and so are all values from the median up to the high end.

    Args:
        number: The number with its range.
        probabilities: float64 ``[n]`` from 0 to 1.
    """
    return np.asarray(np.interp(probabilities, (0.0, 0.5, 1.0), number.low_value_high))


CLOCK: Final = "wafer.clock_hz"
_TIMED_WAFER: Final = (
    "clock_hz", "hop_cycles", "ramp_cycles", "stream_words_per_cycle", "router_queue_words", "mac_fp16_per_cycle",
    "mac_fp16_fp32_per_cycle", "mac_fp32_per_cycle", "add_fp16_per_cycle", "add_fp32_per_cycle", "max_fp32_per_cycle",
    "move_32bit_per_cycle", "convert_per_cycle", "logic_16bit_per_cycle", "shift_16bit_per_cycle",
    "wafer_link_bytes_per_s", "wafer_link_latency_s", "host_bytes_per_s", "host_round_trip_s",
)  # fmt: skip
_TIMED_SOFTWARE: Final = (
    "vector_issue_cycles", "mapped_issue_cycles", "bank_conflict_ratio", "task_dispatch_cycles", "reduce_gap_cycles",
    "relay_cycles", "transfer_sync_cycles", "loop_cycles", "function_cycles", "route_rewrite_cycles",
)  # fmt: skip
"""Constants on which times depend.

Sizes of the mesh, SRAM, code and stack are not among them: they decide which layouts fit, and the
layout of an estimate is fixed. Nor is the SRAM bandwidth, which only appears in lower bounds.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertainConstant:
    """A constant of the wafer or its software whose value is known only within a range.

    Attributes:
        name: Name as in the option ``--set``, such as ``wafer.clock_hz``.
        number: The value of the constant with its range and source.
    """

    name: str
    number: SourcedNumber

    @property
    def is_rate(self) -> bool:
        """Whether the constant is a rate, so that times are proportional to its reciprocal."""
        return "_per_" in self.name or self.name == CLOCK

    @property
    def is_in_seconds(self) -> bool:
        """Whether the constant is in seconds or per second, such as a link's latency or bandwidth.

        The time that is due to such a constant does not change with the clock frequency. The time
        that is due to a constant in cycles does.
        """
        return self.name.endswith("_s")

    def position(self, value: Any) -> Any:
        """Return values of the constant on a scale on which times depend on them nearly linearly.

        Args:
            value: A value of the constant, or an array of values.

        Returns:
            The reciprocals if the constant is a rate, otherwise the values themselves.
        """
        return 1 / value if self.is_rate else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Wafer and software profile, with methods to read and change their constants by name."""

    wafer: WaferSpec
    software: SoftwareProfile

    def value(self, name: str) -> float:
        """Return the value of a constant, such as ``wafer.clock_hz``."""
        place, _, key = name.partition(".")
        return float(getattr(getattr(self, place), key))

    def with_constant(self, name: str, value: float) -> Costs:
        """Return a copy of the costs with a new value of a constant, such as ``wafer.clock_hz``.

        If the constant is a whole number, the value is rounded.
        """
        place, _, key = name.partition(".")
        spec: Any = self.wafer if place == WAFER.rstrip(".") else self.software
        kind = numeric_fields(type(spec))[key]
        changed_spec = replace(spec, **{key: kind(round(value) if kind is int else value)})
        return replace(self, **{place: changed_spec})


def uncertain_constants(machine: MachineOptions, generation: str) -> tuple[UncertainConstant, ...]:
    """Return the constants that affect times and are known only within a range.

    Constants that the user replaced by ``--set`` have no range, so they are left out.

    Args:
        machine: The wafer, the link between wafers, and the software profile.
        generation: Generation of the wafer, for numbers that differ between generations.
    """
    all_numbers, found = sourced_numbers(machine), []
    for prefix, keys in ((WAFER, _TIMED_WAFER), (SOFTWARE, _TIMED_SOFTWARE)):
        for key in keys:
            number = all_numbers[prefix].get(f"{key}.{generation}") or all_numbers[prefix][key]
            if number.low < number.high:
                found.append(UncertainConstant(name=f"{prefix}{key}", number=number))
    return tuple(found)

"""SourcedNumber: a number of a preset file with unit, evidence grade and source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

Grade = Literal["M", "V", "D", "I", "R", "U"]

GRADES: Final[dict[str, str]] = {
    "M": "measured by the cited source",
    "V": "stated by the vendor",
    "D": "derived from cited figures, or fitted on them",
    "I": "inferred, an estimate",
    "R": "reported second-hand",
    "U": "given by the user",
}

_UNITS: Final = {
    "bytes": "byte",
    "cycles": "cycle",
    "words": "word",
    "rows": "row",
    "cols": "col",
    "colours": "colour",
    "positions": "position",
    "microthreads": "thread",
    "hz": "Hz",
    "s": "s",
    "pe": "PE",
    "cycle": "cycle",
    "ratio": "1",
    "w": "W",
    "joules": "J",
    "bit": "bit",
    "wavelet": "wavelet",
    "usd": "USD",
    "trips": "1",
    "hour": "h",
    "flops": "flop",
    "gpus": "GPU",
    "sequences": "sequence",
    "tokens": "token",
    "cv": "1",
    "share": "1",
}

_NAMES_BY_BOUNDS: Final[dict[tuple[float, float], tuple[str, ...]]] = {
    (1, 10_000): ("mesh_rows", "mesh_cols", "hop_cycles"),
    (1_000, 10**12): ("clock_hz",),
    (1, 2**30): ("sram_bytes_per_pe",),
    (0, 2**30): ("runtime_bytes_per_pe", "task_table_bytes_per_pe", "code_bytes_per_pe", "stack_bytes_per_pe"),
    (0, 10_000): ("ramp_cycles",),
    (0.001, 1_000): ("stream_words_per_cycle",),
    (1, 1_000): ("router_queue_words", "switch_positions", "microthreads"),
    (1, 1_024): ("colours",),
    (0, 1_024): ("reserved_colours",),
    (1, 10**18): (
        *("wafer_link_bytes_per_s", "host_bytes_per_s", "host_memory_bytes_per_s", "hbm_bytes_per_s"),
        *("link_bytes_per_s", "gpu_host_bytes_per_s"),
    ),
    (0, 1_000): (
        *("wafer_link_latency_s", "host_round_trip_s", "layer_s", "expert_layer_s", "all_reduce_s", "step_s"),
        *("user_s", "cache_token_s", "gpu_host_latency_s"),
    ),
    (0, 10**6): (
        *("vector_issue_cycles", "mapped_issue_cycles", "task_dispatch_cycles", "reduce_gap_cycles"),
        *("relay_cycles", "transfer_sync_cycles", "loop_cycles", "route_rewrite_cycles", "wafer_usd_per_hour"),
        *("gpu_usd_per_hour",),
    ),
    (1, 100): ("bank_conflict_ratio", "wall_ratio"),
    (1, 10**6): ("function_cycles", "linked_gpus", "max_sequences"),
    (1, 10**7): ("wafer_power_w", "board_power_w", "gpu_power_w"),
    (0, 1e-6): (
        *("sram_read_joules_per_bit", "sram_write_joules_per_bit", "mac_fp16_joules", "mac_fp16_fp32_joules"),
        *("mac_fp32_joules", "hop_joules_per_wavelet", "ramp_joules_per_wavelet", "issue_joules"),
    ),
    (0, 100): ("idle_w_per_pe", "connection_round_trips"),
    (0, 60): ("network_round_trip_s",),
    (0, 3_600): ("service_s",),
    (1, 10**15): ("hbm_bytes", "wafer_host_memory_bytes", "gpu_host_memory_bytes"),
    (1, 10**21): ("bf16_flops_per_s",),
    (0, 10**21): ("fp8_flops_per_s", "fp4_flops_per_s"),
    (0.001, 1): (
        *("bandwidth_ratio", "four_bit_ratio", "expert_ratio", "cache_ratio", "compute_ratio", "attention_ratio"),
        *("link_ratio", "memory_ratio"),
    ),
    (0, 2**40): ("one_shot_bytes", "workspace_bytes"),
    (1, 2**31): ("prompt_tokens", "new_tokens"),
    (0, 10): ("prompt_cv", "new_cv"),
    (0, 86_400): ("think_s",),
    (0, 1): ("prefix_share",),
}
"""Fields by their minimum and maximum.

The maxima are far beyond any machine and serve to detect wrong units.
"""
_BOUNDS: Final = {name: bounds for bounds, names in _NAMES_BY_BOUNDS.items() for name in names}
_OTHER_BOUNDS: Final = (1, 10**6)  # rates of a PE, and cycles of an operation


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedNumber:
    """A number with its unit and the evidence for it.

    Attributes:
        value: Value, in ``unit``.
        unit: Unit of the value, such as "byte/PE".
        grade: Evidence grade, which indicates how reliable the number is: a key of `GRADES`.
        source: Origin of the number.
        range: Minimum and maximum that the number may have; None if not specified.
        range_source: Reason for the range: repeated measurements, disagreeing sources or a
            judgement that the text explains. None if there is no range, or if ``source`` contains
            the reason.
    """

    value: float
    unit: str
    grade: Grade
    source: str
    range: tuple[float, float] | None = None
    range_source: str | None = None

    @property
    def low(self) -> float:
        """Minimum of the range; the value itself if the number has no range."""
        return self.value if self.range is None else self.range[0]

    @property
    def high(self) -> float:
        """Maximum of the range; the value itself if the number has no range."""
        return self.value if self.range is None else self.range[1]

    @property
    def low_value_high(self) -> tuple[float, float, float]:
        """Minimum, value and maximum; three times the value if the number has no range."""
        return self.low, self.value, self.high

    def with_ends(self, name: str) -> dict[str, float]:
        """Return the value and the ends of its range, keyed by ``name``, ``name_low`` and ``name_high``."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}

    def times(self, factor: float) -> SourcedNumber:
        """Return the number and its range, multiplied by a factor, with the same unit and source."""
        ends = None if self.range is None else (factor * self.range[0], factor * self.range[1])
        return replace(self, value=factor * self.value, range=ends)


def weakest(grades: Iterable[Grade]) -> Grade:
    """Return the weakest of several evidence grades, which say how reliable a number is.

    Grades later in ``GRADES`` are weaker. A result has the weakest grade of the numbers that it is
    computed from.
    """
    return max(grades, key=list(GRADES).index)


def unit_of(field: str) -> str:
    """Return the unit of a field, which is determined by the end of its name.

    >>> unit_of("sram_bytes_per_pe"), unit_of("hop_cycles"), unit_of("mac_fp16_per_cycle")
    ('byte/PE', 'cycle', 'element/cycle')
    """
    counted_noun, _, per = field.partition("_per_")
    unit = _UNITS.get(counted_noun.rpartition("_")[2], "element")
    return f"{unit}/{_UNITS[per]}" if per else unit


def bounds_of(field: str) -> tuple[float, float]:
    """Return the minimum and maximum values allowed for a field, given its name."""
    return _BOUNDS.get(field, _OTHER_BOUNDS)


def numeric_fields(spec: type[Any]) -> dict[str, type]:
    """Return the names of the int and float fields of a dataclass, mapped to their types."""
    types: dict[str, type] = {"int": int, "float": float}
    return {f.name: types[str(f.type)] for f in fields(spec) if f.type in types}

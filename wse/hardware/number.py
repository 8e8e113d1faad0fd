"""SourcedNumber: a number of a preset file with unit, evidence grade and source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
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
}

# Minimum and maximum accepted values. The maxima are far beyond any machine and detect wrong units.
_BOUNDS: Final[dict[str, tuple[float, float]]] = {
    "mesh_rows": (1, 10_000),
    "mesh_cols": (1, 10_000),
    "clock_hz": (1_000, 10**12),
    "sram_bytes_per_pe": (1, 2**30),
    "runtime_bytes_per_pe": (0, 2**30),
    "task_table_bytes_per_pe": (0, 2**30),
    "hop_cycles": (1, 10_000),
    "ramp_cycles": (0, 10_000),
    "stream_words_per_cycle": (0.001, 1_000),
    "router_queue_words": (1, 1_000),
    "switch_positions": (1, 1_000),
    "microthreads": (1, 1_000),
    "colours": (1, 1024),
    "reserved_colours": (0, 1024),
    "wafer_link_bytes_per_s": (1, 10**18),
    "wafer_link_latency_s": (0, 1_000),
    "host_bytes_per_s": (1, 10**18),
    "host_round_trip_s": (0, 1_000),
    "host_memory_bytes_per_s": (1, 10**18),
    "code_bytes_per_pe": (0, 2**30),
    "stack_bytes_per_pe": (0, 2**30),
    "vector_issue_cycles": (0, 10**6),
    "mapped_issue_cycles": (0, 10**6),
    "bank_conflict_ratio": (1, 100),
    "task_dispatch_cycles": (0, 10**6),
    "reduce_gap_cycles": (0, 10**6),
    "relay_cycles": (0, 10**6),
    "transfer_sync_cycles": (0, 10**6),
    "loop_cycles": (0, 10**6),
    "function_cycles": (1, 10**6),
    "route_rewrite_cycles": (0, 10**6),
    "wafer_power_w": (1, 10**7),
    "wafer_usd_per_hour": (0, 10**6),
    "sram_read_joules_per_bit": (0, 1e-6),
    "sram_write_joules_per_bit": (0, 1e-6),
    "mac_fp16_joules": (0, 1e-6),
    "mac_fp16_fp32_joules": (0, 1e-6),
    "mac_fp32_joules": (0, 1e-6),
    "hop_joules_per_wavelet": (0, 1e-6),
    "ramp_joules_per_wavelet": (0, 1e-6),
    "issue_joules": (0, 1e-6),
    "idle_w_per_pe": (0, 100),
    "wall_ratio": (1, 100),
    "network_round_trip_s": (0, 60),
    "connection_round_trips": (0, 100),
    "service_s": (0, 3_600),
    "hbm_bytes": (1, 10**15),
    "hbm_bytes_per_s": (1, 10**18),
    "bf16_flops_per_s": (1, 10**21),
    "fp8_flops_per_s": (0, 10**21),
    "fp4_flops_per_s": (0, 10**21),
    "link_bytes_per_s": (1, 10**18),
    "linked_gpus": (1, 10**6),
    "board_power_w": (1, 10**7),
    "gpu_power_w": (1, 10**7),
    "gpu_usd_per_hour": (0, 10**6),
    **dict.fromkeys(("bandwidth_ratio", "four_bit_ratio", "expert_ratio", "cache_ratio"), (0.001, 1)),
    **dict.fromkeys(("compute_ratio", "attention_ratio", "link_ratio", "memory_ratio"), (0.001, 1)),
    **dict.fromkeys(("layer_s", "expert_layer_s", "all_reduce_s", "step_s", "user_s", "cache_token_s"), (0, 1_000)),
    **dict.fromkeys(("one_shot_bytes", "workspace_bytes"), (0, 2**40)),
    "max_sequences": (1, 10**6),
}
_OTHER_BOUNDS: Final = (1, 10**6)  # rates of a PE, and cycles of an operation


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedNumber:
    """A number with its unit and the evidence for it.

    Attributes:
        value: The number.
        unit: Its unit, such as "byte/PE".
        grade: Evidence grade, a key of `GRADES`.
        source: Where the number is from.
        range: Minimum and maximum that the number may have; None if not stated.
    """

    value: float
    unit: str
    grade: Grade
    source: str
    range: tuple[float, float] | None = None

    @property
    def low(self) -> float:
        """Minimum of the range; the value if no range is stated."""
        return self.value if self.range is None else self.range[0]

    @property
    def high(self) -> float:
        """Maximum of the range; the value if no range is stated."""
        return self.value if self.range is None else self.range[1]

    @property
    def low_value_high(self) -> tuple[float, float, float]:
        """The number at the minimum of its range, as stated, and at the maximum of its range."""
        return self.low, self.value, self.high


def weakest(grades: Iterable[Grade]) -> Grade:
    """Return the weakest of some evidence grades: the last one in the order of ``GRADES``.

    A result has the weakest grade of the numbers that it is computed from.
    """
    return max(grades, key=list(GRADES).index)


def unit_of(field: str) -> str:
    """Return the unit of a field, which is given by the end of its name.

    >>> unit_of("sram_bytes_per_pe"), unit_of("hop_cycles"), unit_of("mac_fp16_per_cycle")
    ('byte/PE', 'cycle', 'element/cycle')
    """
    counted_noun, _, per = field.partition("_per_")
    unit = _UNITS.get(counted_noun.rpartition("_")[2], "element")
    return f"{unit}/{_UNITS[per]}" if per else unit


def bounds_of(field: str) -> tuple[float, float]:
    """Return the minimum and maximum that a field may have."""
    return _BOUNDS.get(field, _OTHER_BOUNDS)


def numeric_fields(spec: type[Any]) -> dict[str, type]:
    """Return the number fields of a dataclass, and the type of each: int or float."""
    types: dict[str, type] = {"int": int, "float": float}
    return {f.name: types[str(f.type)] for f in fields(spec) if f.type in types}

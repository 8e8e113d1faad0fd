"""Grades of the numbers that an estimate rests on: of each cause of cycles, and of the numbers that it leads with.

A result is no better than the weakest constant that it depends on. Grades are those of the wafer's and the software
profile's files (`wse.hardware.number`); from the best to the weakest: measured, stated by the vendor, derived from or
fitted to published figures, inferred, reported second-hand, given by the user.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from wse.hardware.load import Values, provenance
from wse.hardware.number import GRADES, Grade
from wse.reports.result import Doc, Result
from wse.serving.network import Network
from wse.studies.estimate.economy import CostResult, EnergyResult
from wse.studies.results.phases import Cause, CyclesBy, DecodeResult

SOURCES: Final[dict[Grade, str]] = {
    "M": "measured",
    "V": "vendor",
    "D": "fitted",
    "R": "assumed",
    "I": "assumed",
    "U": "assumed",
}
"""Grades in words: the kind of source of a number."""

_RATES: Final = (
    "mac_fp16_per_cycle", "mac_fp16_fp32_per_cycle", "mac_fp32_per_cycle", "add_fp16_per_cycle", "add_fp32_per_cycle",
    "max_fp32_per_cycle", "move_32bit_per_cycle", "convert_per_cycle", "logic_16bit_per_cycle", "shift_16bit_per_cycle",
)  # fmt: skip
_OF_CAUSE: Final[dict[str, tuple[str, ...]]] = {
    "hops": ("hop_cycles", "stream_words_per_cycle"),
    "relays": ("ramp_cycles", "relay_cycles", "stream_words_per_cycle"),
    "compute": (
        *_RATES, "vector_issue_cycles", "mapped_issue_cycles", "bank_conflict_ratio", "loop_cycles", "function_cycles",
    ),
    "launch": (
        "task_dispatch_cycles", "vector_issue_cycles", "reduce_gap_cycles", "transfer_sync_cycles",
        "route_rewrite_cycles",
    ),
    "crossing": ("wafer_link_bytes_per_s", "wafer_link_latency_s", "clock_hz"),
    "host": ("host_bytes_per_s", "host_round_trip_s", "clock_hz"),
}  # fmt: skip
_OF_BOUND: Final[dict[str, tuple[str, ...]]] = {
    "sram": ("sram_bytes_per_cycle",),
    "arithmetic": ("mac_fp16_per_cycle", "mac_fp16_fp32_per_cycle", "mac_fp32_per_cycle"),
    "hops": ("hop_cycles",),
    "crossing": ("wafer_link_bytes_per_s", "wafer_link_latency_s", "clock_hz"),
}
_OF_SRAM: Final = (
    "mesh_rows", "mesh_cols", "sram_bytes_per_pe", "runtime_bytes_per_pe", "task_table_bytes_per_pe",
    "code_bytes_per_pe", "stack_bytes_per_pe",
)  # fmt: skip
_RESTS_ON_SRAM: Final = ("sram.bytes_per_pe", "sram.kv_capacity_tokens", "sram.users", "system.wafers")


@dataclass(frozen=True, kw_only=True)
class GradeResult(Result):
    """The grade of a number: how well it is known."""

    grade: Annotated[Grade, Doc("M measured, V vendor, D fitted, R second-hand, I inferred, U the user's")]
    source: Annotated[str, Doc("the same in a word: measured, vendor, fitted or assumed")]
    weakest: Annotated[str, Doc("the constant with that grade")]


class Grades:
    """The grades of a wafer's and a software profile's numbers, by field; both as they were named, some replaced."""

    def __init__(
        self,
        wafer: str | Path,
        software: str | Path,
        generation: str,
        *,
        wafer_values: Values = (),
        software_values: Values = (),
    ) -> None:
        self._of: dict[str, Grade] = {}
        for where, values in ((software, software_values), (wafer, wafer_values)):
            for key, source in provenance(where, values).items():
                name, _, of = key.partition(".")
                if of in ("", generation):
                    self._of[name] = source.grade

    def weakest(self, constants: Iterable[str]) -> tuple[Grade, str]:
        """Return the weakest grade among some constants, and the first that has it."""
        name = max(constants, key=lambda constant: list(GRADES).index(self._of[constant]))
        return self._of[name], name

    def of_cause(self, cause: Cause) -> Grade:
        """Return the grade of the cycles of one cause."""
        return self.weakest(_OF_CAUSE[cause])[0]

    def of_bound(self, bound: str) -> Grade:
        """Return the grade of one kind of bound."""
        return self.weakest(_OF_BOUND[bound])[0]

    def shares(self, cycles_by: CyclesBy) -> dict[str, float]:
        """Return the shares of some cycles that rest on each kind of source, the best first."""
        total = sum(cycles_by.values()) or 1.0
        order = sorted(cycles_by, key=lambda cause: list(GRADES).index(self.of_cause(cause)))
        shares: dict[str, float] = {}
        for cause in order:
            if cycles_by[cause]:
                source = SOURCES[self.of_cause(cause)]
                shares[source] = shares.get(source, 0.0) + cycles_by[cause] / total
        return shares

    def source(self, cycles_by: CyclesBy) -> str:
        """Return the weakest kind of source that any of some cycles rests on."""
        return next(reversed(self.shares(cycles_by)), SOURCES["M"])


def grades_result(
    grades: Grades,
    wafers: int,
    cycles_by: Mapping[str, CyclesBy],
    decode: DecodeResult | None,
    energy: EnergyResult | None,
    cost: CostResult | None,
    network: Network,
) -> dict[str, GradeResult]:
    """Return the grade and the weakest constant of each number that an estimate leads with, by its key.

    ``cycles_by`` has those of ``prefill``, and of ``verify`` where there is such a pass. Numbers of generated tokens
    have none where nothing is decoded (``decode`` None).
    """
    of_prefill, of_host = _constants_of(cycles_by["prefill"]), _OF_CAUSE["host"]
    rests_on: dict[str, tuple[str, ...]] = dict.fromkeys(_RESTS_ON_SRAM, _OF_SRAM)
    for phase, causes in cycles_by.items():
        rests_on[f"{phase}.cycles"] = _constants_of(causes)
        rests_on[f"{phase}.s"] = (*_constants_of(causes), "clock_hz")
    of_ttft = (*of_prefill, "clock_hz", *of_host)
    rests_on["prefill.tokens_per_s"] = of_ttft
    if decode is not None:
        of_decode = _constants_of(decode.cycles_by)
        rests_on |= dict.fromkeys(("decode.cycles_per_token", "decode.cycles_per_layer"), of_decode)
        of_tpot = (*of_decode, "clock_hz")
        rests_on |= dict.fromkeys(("decode.tokens_per_s", "decode.tokens_per_s_per_user"), of_tpot)
    rests_on["latency.ttft_s"] = of_ttft
    if decode is not None:
        rests_on["latency.tpot_s"] = of_tpot
        rests_on["latency.request_s"] = (*of_ttft, *of_tpot)
        for key in ("wavelet_hops_per_token", "busiest_link_words_per_token", "colours_used"):
            rests_on[f"fabric.{key}"] = _OF_SRAM
        if wafers > 1:
            rests_on["crossing.bytes_per_token"] = _OF_SRAM
            rests_on["crossing.s_per_token"] = _OF_CAUSE["crossing"]
    weakest = {key: grades.weakest(constants) for key, constants in rests_on.items()}
    weakest["latency.user.ttft_s"] = _weaker(network.weakest, weakest["latency.ttft_s"])
    of_rate = weakest["latency.ttft_s" if decode is None else "decode.tokens_per_s"]
    if energy is not None:
        priced = (energy.grade, "wafer_power_w")
        weakest["energy.joules_per_token"] = _weaker(priced, of_rate)
    if cost is not None:
        priced = (cost.grade, "wafer_usd_per_hour")
        weakest["cost.usd_per_million_tokens"] = _weaker(priced, of_rate)
    return {
        key: GradeResult(grade=grade, source=SOURCES[grade], weakest=name) for key, (grade, name) in weakest.items()
    }


def _weaker(first: tuple[Grade, str], second: tuple[Grade, str]) -> tuple[Grade, str]:
    """Return the weaker of two grades, each with its constant; the first of equals."""
    return max((first, second), key=lambda graded: list(GRADES).index(graded[0]))


def _constants_of(cycles_by: CyclesBy) -> tuple[str, ...]:
    """Constants behind some cycles."""
    return tuple(constant for cause, cycles in cycles_by.items() if cycles for constant in _OF_CAUSE[cause])

"""How well the numbers are known that an estimate rests on: for each cause of cycles, and for what a report leads with.

A result is no better than the weakest constant that it depends on. Grades are those of the wafer's and the software
profile's files (`wse.hardware.number`); from the best to the weakest: measured, stated by the vendor, derived from or
fitted to published figures, inferred, reported second-hand, given by the user.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from wse.fabric.causes import CAUSES
from wse.hardware.load import Values, load_software, provenance
from wse.hardware.number import GRADES, Grade
from wse.hardware.spec import SoftwareProfile
from wse.report.as_json import Report

SOURCES: Final[dict[Grade, str]] = {
    "M": "measured",
    "V": "vendor",
    "D": "fitted",
    "R": "assumed",
    "I": "assumed",
    "U": "assumed",
}
"""What a reader is told: where a number comes from."""

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

RESEARCH: Final = "academic"
"""The software profile whose code is that of released research kernels."""

ECONOMY: Final = (
    ("energy", "joules_per_token", "wafer_power_w"),
    ("cost", "usd_per_million_tokens", "wafer_usd_per_hour"),
)
"""Sections, keys and constants of what a token costs."""


class Grades:
    """The grades of a wafer's and a software profile's numbers, by field; both as they were named, some replaced."""

    def __init__(
        self, wafer: str, software: str, generation: str, *, wafer_values: Values = (), software_values: Values = ()
    ) -> None:
        self._of: dict[str, Grade] = {}
        for where, values in ((software, software_values), (wafer, wafer_values)):
            for key, source in provenance(where, values).items():
                name, _, of = key.partition(".")
                if of in ("", generation):
                    self._of[name] = source.grade

    def weakest(self, constants: Iterable[str]) -> tuple[Grade, str]:
        """The weakest grade among some constants, and the first that has it."""
        name = max(constants, key=lambda constant: list(GRADES).index(self._of[constant]))
        return self._of[name], name

    def of_cause(self, cause: str) -> Grade:
        """That of the cycles of one cause."""
        return self.weakest(_OF_CAUSE[cause])[0]

    def of_bound(self, bound: str) -> Grade:
        """That of one kind of bound."""
        return self.weakest(_OF_BOUND[bound])[0]

    def shares(self, cycles_by: Mapping[str, float]) -> dict[str, float]:
        """Of some cycles the share that rests on each kind of source, the best first."""
        total = sum(cycles_by.values()) or 1.0
        order = sorted(CAUSES, key=lambda cause: list(GRADES).index(self.of_cause(cause)))
        found: dict[str, float] = {}
        for cause in order:
            if cycles_by[cause]:
                source = SOURCES[self.of_cause(cause)]
                found[source] = found.get(source, 0.0) + cycles_by[cause] / total
        return found

    def source(self, cycles_by: Mapping[str, float]) -> str:
        """The weakest kind of source that any of some cycles rests on."""
        return next(reversed(self.shares(cycles_by)), SOURCES["M"])


def code_facts(software: SoftwareProfile, grades: Grades, generation: str) -> Report:
    """``sram.code``: bytes of a profile's code on a PE, their grade, and those of released research kernels."""
    grade = grades.weakest(("code_bytes_per_pe",))[0]
    research = load_software(RESEARCH, generation).code_bytes_per_pe
    return {"bytes_per_pe": software.code_bytes_per_pe, "grade": grade, "research_bytes_per_pe": research}


def grade_facts(grades: Grades, report: Report) -> Report:
    """``grades``: by the key of each number that a report leads with, its grade and the weakest constant."""
    rests_on: dict[str, tuple[str, ...]] = {
        "sram.bytes_per_pe": _OF_SRAM,
        "sram.kv_capacity_tokens": _OF_SRAM,
        "sram.users": _OF_SRAM,
        "system.wafers": _OF_SRAM,
    }
    for phase, keys in (("prefill", ("cycles",)), ("decode", ("cycles_per_token", "cycles_per_layer"))):
        if phase in report:
            constants = _behind(report[phase]["cycles_by"])
            rests_on |= {f"{phase}.{key}": constants for key in keys}
            timed = ("s", "tokens_per_s") if phase == "prefill" else ("tokens_per_s", "tokens_per_s_per_user")
            rests_on |= {f"{phase}.{key}": (*constants, "clock_hz") for key in timed}
    rests_on["latency.ttft_s"] = (*rests_on["prefill.s"], *_OF_CAUSE["host"])
    if "decode" in report:
        rests_on["latency.tpot_s"] = rests_on["decode.tokens_per_s"]
        rests_on["latency.request_s"] = (*rests_on["latency.ttft_s"], *rests_on["latency.tpot_s"])
        for key in ("wavelet_hops_per_token", "busiest_link_words_per_token", "colours_used"):
            rests_on[f"fabric.{key}"] = _OF_SRAM
        if report["system"]["wafers"] > 1:
            rests_on["crossing.bytes_per_token"] = _OF_SRAM
            rests_on["crossing.s_per_token"] = _OF_CAUSE["crossing"]
    found = {key: grades.weakest(constants) for key, constants in rests_on.items()}
    for section, key, price in ECONOMY:
        if section in report:
            both = ((report[section]["grade"], price), found["decode.tokens_per_s"])
            found[f"{section}.{key}"] = max(both, key=lambda each: list(GRADES).index(each[0]))
    return {key: {"grade": grade, "source": SOURCES[grade], "weakest": name} for key, (grade, name) in found.items()}


def _behind(cycles_by: Mapping[str, float]) -> tuple[str, ...]:
    """Constants behind some cycles."""
    return tuple(constant for cause, cycles in cycles_by.items() if cycles for constant in _OF_CAUSE[cause])

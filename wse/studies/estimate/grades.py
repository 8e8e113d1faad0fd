"""Evidence grades of the causes of cycles and of the main numbers of an estimate.

A result has the grade of the weakest constant on which it depends. The grades of constants are
stored in the wafer and software profile files (`wse.hardware.number`). From best to weakest, they
are: measured, stated by the vendor, derived from or fitted to published figures, inferred, reported
second-hand, specified by the user.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Final

from wse.hardware.number import GRADES, Grade
from wse.reports.result import Doc, Result
from wse.serving.network import Network
from wse.studies.options.placement import MachineOptions
from wse.studies.options.settings import SOFTWARE, WAFER, sourced_numbers

if TYPE_CHECKING:
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
"""Kind of source of a number, by its grade."""

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


class GradeResult(Result):
    """Evidence grade of a number, which states how reliable the number is.

    It is the weakest grade among the constants that the number depends on.
    """

    grade: Annotated[Grade, Doc("M measured, V vendor, D fitted, R second-hand, I inferred, U the user's")]
    source: Annotated[str, Doc("the grade as a word: measured, vendor, fitted or assumed")]
    weakest: Annotated[str, Doc("the constant with that grade")]


class Grades:
    """Evidence grades of the constants of a wafer and its software, keyed by constant name.

    A grade states how reliable a constant is. The grades range from measured (best) to specified by
    the user.
    """

    def __init__(self, machine: MachineOptions, generation: str) -> None:
        """Read the grades from the files of the wafer, its link and the software profile.

        Args:
            machine: The wafer, the link between wafers, and the software profile.
            generation: Generation of the wafer, for numbers that differ between generations.
        """
        self._grade_by_name: dict[str, Grade] = {}
        numbers = sourced_numbers(machine)
        for prefix in (SOFTWARE, WAFER):
            for key, source in numbers[prefix].items():
                name, _, number_generation = key.partition(".")
                if number_generation in ("", generation):
                    self._grade_by_name[name] = source.grade

    def weakest(self, constants: Iterable[str]) -> tuple[Grade, str]:
        """Return the weakest grade among some constants, and the first constant with this grade.

        Args:
            constants: Names of the constants, such as ``hop_cycles``. There is at least one.
        """
        name = max(constants, key=lambda constant: list(GRADES).index(self._grade_by_name[constant]))
        return self._grade_by_name[name], name

    def cause_grade(self, cause: Cause) -> Grade:
        """Return the evidence grade of the cycles due to one cause, such as ``hops``.

        It is the weakest grade of the constants from which these cycles are computed.
        """
        return self.weakest(_OF_CAUSE[cause])[0]

    def bound_grade(self, bound: str) -> Grade:
        """Return the evidence grade of a kind of lower bound, such as ``sram`` or ``hops``.

        It is the weakest grade of the constants from which the bound is computed.
        """
        return self.weakest(_OF_BOUND[bound])[0]

    def shares(self, cycles_by: CyclesBy) -> dict[str, float]:
        """Return the fraction of some cycles that depends on each kind of evidence.

        Cycles due to a cause, such as hops, may depend on several constants. They count for the
        least reliable of these constants.

        Args:
            cycles_by: Cycle count of each cause.

        Returns:
            Fractions, best evidence first, keyed by the kind of evidence: ``measured``, ``vendor``,
            ``fitted`` or ``assumed``.
        """
        total = sum(cycles_by.values()) or 1.0
        order = sorted(cycles_by, key=lambda cause: list(GRADES).index(self.cause_grade(cause)))
        shares: dict[str, float] = {}
        for cause in order:
            if cycles_by[cause]:
                source = SOURCES[self.cause_grade(cause)]
                shares[source] = shares.get(source, 0.0) + cycles_by[cause] / total
        return shares

    def source(self, cycles_by: CyclesBy) -> str:
        """Return the weakest kind of evidence on which some cycles depend.

        Args:
            cycles_by: Cycle count of each cause.

        Returns:
            ``measured`` (best), ``vendor``, ``fitted`` or ``assumed``.
        """
        return next(reversed(self.shares(cycles_by)), SOURCES["M"])


def grades_result(
    grades: Grades,
    wafers: int,
    cycles_by: Mapping[str, CyclesBy],
    decode: DecodeResult | None,
    energy: EnergyResult | None,
    cost: CostResult,
    network: Network,
) -> dict[str, GradeResult]:
    """Return the evidence grade of each main number of an estimate.

    The grade of a number is the weakest grade of the constants on which the number depends.

    Args:
        grades: Evidence grades, which state how reliable each constant is.
        wafers: Number of wafers. With one wafer, the times of links between wafers have no grade.
        cycles_by: Cycles by cause of the ``prefill`` pass, and of the ``verify`` pass if there is one.
        decode: Speed of decoding; None if no tokens are generated.
        energy: Energy per token; None if unknown.
        cost: Cost per token.
        network: Network between user and machine.

    Returns:
        The grade of each number and the constant that determines it, keyed by the path of the
        number in the JSON output, such as ``decode.tokens_per_s``.
    """
    prefill_constants, host_constants = _constants_of(cycles_by["prefill"]), _OF_CAUSE["host"]
    rests_on: dict[str, tuple[str, ...]] = dict.fromkeys(_RESTS_ON_SRAM, _OF_SRAM)
    for phase, causes in cycles_by.items():
        rests_on[f"{phase}.cycles"] = _constants_of(causes)
        rests_on[f"{phase}.s"] = (*_constants_of(causes), "clock_hz")
    ttft_constants = (*prefill_constants, "clock_hz", *host_constants)
    rests_on["prefill.tokens_per_s"] = ttft_constants
    if decode is not None:
        decode_constants = _constants_of(decode.cycles_by)
        rests_on |= dict.fromkeys(("decode.cycles_per_token", "decode.cycles_per_layer"), decode_constants)
        tpot_constants = (*decode_constants, "clock_hz")
        rests_on |= dict.fromkeys(("decode.tokens_per_s", "decode.tokens_per_s_per_user"), tpot_constants)
    rests_on["latency.ttft_s"] = ttft_constants
    if decode is not None:
        rests_on["latency.tpot_s"] = tpot_constants
        rests_on["latency.request_s"] = (*ttft_constants, *tpot_constants)
        for key in ("wavelet_hops_per_token", "busiest_link_words_per_token", "colours_used"):
            rests_on[f"fabric.{key}"] = _OF_SRAM
        if wafers > 1:
            rests_on["crossing.bytes_per_token"] = _OF_SRAM
            rests_on["crossing.s_per_token"] = _OF_CAUSE["crossing"]
    weakest = {key: grades.weakest(constants) for key, constants in rests_on.items()}
    weakest["latency.user.ttft_s"] = _weaker(network.weakest, weakest["latency.ttft_s"])
    rate_grade = weakest["latency.ttft_s" if decode is None else "decode.tokens_per_s"]
    if energy is not None:
        weakest["energy.joules_per_token"] = _weaker((energy.grade, "wafer_power_w"), rate_grade)
    weakest["cost.usd_per_million_tokens"] = _weaker((cost.grade, "wafer_usd_per_hour"), rate_grade)
    return {
        key: GradeResult(grade=grade, source=SOURCES[grade], weakest=name) for key, (grade, name) in weakest.items()
    }


def _weaker(first: tuple[Grade, str], second: tuple[Grade, str]) -> tuple[Grade, str]:
    """Return the weaker of two (grade, constant) pairs; the first pair if both grades are equal."""
    return max((first, second), key=lambda graded: list(GRADES).index(graded[0]))


def _constants_of(cycles_by: CyclesBy) -> tuple[str, ...]:
    """Return the names of the constants from which the cycles of some causes are computed.

    Args:
        cycles_by: Cycles of each cause, such as ``hops``. Causes with 0 cycles are ignored.
    """
    return tuple(constant for cause, cycles in cycles_by.items() if cycles for constant in _OF_CAUSE[cause])

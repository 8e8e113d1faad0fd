"""Generations of the machine: compiled software has other costs on each, and measurements are of one of them.

Each record has the facts of a generation that no number of a wafer file (`WaferSpec`) has. The preset of its first
wafer has the name of the generation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_WAFER: Final = "wse3"
"""The wafer of a request that names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """The properties that all wafers of a generation share.

    Attributes:
        digit: Its digit in the names of chips and systems: 2 in WSE-2 and CS-2.
        fabric: The fabric that programs are compiled for, columns first (Cerebras SDK, running on a system).
        read_bytes_per_cycle: Bytes that vector operations of a PE read from memory.
        adds_two_from_fabric: Whether an add may take both operands from the fabric; otherwise only one.
        multicast_cycles: Cycles of a multicast to a line of PEs on silicon, in addition to its hops and words. None
            where nobody has measured it.
    """

    digit: str
    fabric: str
    read_bytes_per_cycle: int
    adds_two_from_fabric: bool
    multicast_cycles: int | None


RECORDS: Final = {
    "wse2": Generation(
        digit="2",
        fabric="757x996",
        read_bytes_per_cycle=8,  # two of 32 bits: Cerebras SDK, CSL language guide, appendix on SIMD
        adds_two_from_fabric=True,
        multicast_cycles=None,
    ),
    "wse3": Generation(
        digit="3",
        fabric="762x1172",
        # Two of 64 bits, which copies of 8 fp16 or 4 fp32 elements a cycle need:
        # github.com/luozoupi/FABRICA-CUDA2CSL-Optmization-Benchmark-and-Agentic-Framework.
        read_bytes_per_cycle=16,
        adds_two_from_fabric=False,
        # As of a transfer from memory to memory over one hop: EPCC 2026 working notes, unreviewed.
        multicast_cycles=20,
    ),
}
"""The generations by name."""
GENERATIONS: Final = tuple(RECORDS)

"""Generations of the machine: properties that a wafer file does not contain.

Compiled software has different costs on each generation, and every measurement belongs to one. The
preset of a generation's first wafer has the name of the generation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_WAFER: Final = "wse3"
"""Wafer to use if a request does not name one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Properties that all wafers of a generation share.

    Attributes:
        digit: Digit in the names of chips and systems: 2 in WSE-2 and CS-2.
        fabric: Size of the physical grid of PEs, as COLUMNSxROWS. The Cerebras SDK needs it to
            compile a program for a real system.
        read_bytes_per_cycle: Bytes per cycle that vector operations of a PE read from SRAM.
        adds_two_from_fabric: Whether an addition may receive both operands from other PEs. If not,
            it receives at most one.
        multicast_cycles: Measured overhead in cycles of a multicast to a line of PEs, in addition
            to the cycles for its hops and words. None if there is no measurement.
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
        read_bytes_per_cycle=8,  # two reads of 32 bits: Cerebras SDK, CSL language guide, appendix on SIMD
        adds_two_from_fabric=True,
        multicast_cycles=None,
    ),
    "wse3": Generation(
        digit="3",
        fabric="762x1172",
        # Two reads of 64 bits, which are needed to copy 8 fp16 or 4 fp32 elements per cycle:
        # github.com/luozoupi/FABRICA-CUDA2CSL-Optmization-Benchmark-and-Agentic-Framework.
        read_bytes_per_cycle=16,
        adds_two_from_fabric=False,
        # Measured for a transfer from memory to memory over one hop: EPCC 2026 working notes, unreviewed.
        multicast_cycles=20,
    ),
}
"""The generations, keyed by name."""
GENERATIONS: Final = tuple(RECORDS)
VENDOR_LINK: Final = "vendor"
"""Name of the link between wafers whose numbers are in the wafer's own file."""

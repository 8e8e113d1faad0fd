"""Cycle-by-cycle simulation of a whole phase of a Program, as the reference of the fabric model.

A step begins when its task is dispatched. The steps of an overlap group are instead started and
awaited at one cost, which includes the path of a word to a neighbour, and they share the links.
Between two steps, all PEs wait for each other, except in the rounds of a loop whose pattern
overlaps from round to round.

The cycle counts of kernels follow from the formulas in their records (`Kernel`). Transfers are
simulated as wavelets: patterns on lines and cache shifts on their region, transfers between stages
on the rectangle that contains both regions. The latency and bandwidth of links between wafers and
to the host are not simulated. The words of a crossing do travel over the mesh: to the east edge of
the sending region, and from the west edge of the receiving region.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wse.arrays import I64
from wse.backends.wavelet.phases.mesh_state import OnMoves, check_fixed
from wse.backends.wavelet.phases.walk import PhaseWalk
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.program import Program
from wse.program.steps import Phase


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhaseRun:
    """Cycles and traffic of a phase in the cycle-by-cycle simulation.

    Attributes:
        step_cycles: int64 ``[steps]``: cycles by which a step delays the end of the phase, over all
            iterations of its loop. The first step of an overlap group (steps that run concurrently)
            has the cycle count of the whole group.
        hops: int64 ``[steps]``: number of links that the words of a step cross, summed over the
            words. The first step of an overlap group has the sum for the whole group.
        links: int64 ``[wafers, 4, mesh rows, mesh cols]``: words that left each PE to the north,
            east, south and west.
    """

    step_cycles: I64
    hops: I64
    links: I64

    @property
    def cycles(self) -> int:
        """Total cycles of the phase."""
        return int(self.step_cycles.sum())


def phase_run(
    program: Program,
    phase: Phase,
    lengths: Sequence[int],
    wafer: WaferSpec,
    software: SoftwareProfile,
    *,
    on_moves: OnMoves | None = None,
) -> PhaseRun:
    """Simulate a phase cycle by cycle, from its first step to its last.

    Args:
        program: The Program.
        phase: A phase of the Program.
        lengths: Number of tokens in the cache before the phase: for decode, in each user's cache;
            otherwise, in the cache of the user whose tokens are processed.
        wafer: Wafer type.
        software: Software profile.
        on_moves: Function that receives every move of a wavelet (a 32-bit word).

    Raises:
        BadMesh: A region, or the rectangle that contains two regions, is too large for the
            simulator.
        BadInput: The words of the phase depend on the selected experts, or a region spans wafers.
    """
    check_fixed(phase)
    walk = PhaseWalk(program, phase, lengths, wafer, software, on_moves)
    step = 0
    while step < len(phase.steps):
        end = int(phase.steps.loops[phase.steps.loop[step], 1]) if phase.steps.loop[step] >= 0 else step + 1
        overlaps = phase.steps.loop[step] >= 0 and any(walk.overlaps(s) for s in range(step, end))
        for iteration in range(phase.steps.iterations(step)):
            first = step
            while first < end:
                last = first + 1
                while (
                    last < end
                    and phase.steps.overlap[first] >= 0
                    and phase.steps.overlap[last] == phase.steps.overlap[first]
                ):
                    last += 1
                walk.carry_out(range(first, last), iteration)
                if not overlaps:
                    walk.wait()
                first = last
        walk.wait()
        step = end
    return PhaseRun(step_cycles=walk.step_cycles, hops=walk.hops, links=walk.links)

"""A whole phase of a Program, cycle by cycle: every step executed on the PEs and links of its region.

A step begins when its task is dispatched; steps that run together are started and awaited at one cost instead, which
holds the way of a word to a neighbour too, and share the links. Between two steps all PEs wait for each other, but in
the rounds of a loop with a pattern that overlaps. Kernels take the cycles of their records, and what moves words runs
as wavelets: patterns on lines and shifts of rows on their region, hand-overs on the rectangle that holds two regions.
What is not on a mesh is left out: the latency and the rate of links between wafers and to the host. The words of a
crossing do go over the mesh, to the east edge of the region that they leave and from the west edge of the one that they
enter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wse.arrays import I64
from wse.backends.wavelet.size import check_fixed
from wse.backends.wavelet.walk import OnMoves, PhaseWalk
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.phase import Phase
from wse.program.program import Program


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhaseRun:
    """The cycles and the traffic of a phase in the cycle-by-cycle simulation.

    Attributes:
        step_cycles: int64 ``[steps]``: cycles by which a step moves the end of the phase, over all turns of its loop.
            Of steps that run together the first has those of all.
        hops: int64 ``[steps]``: words times the links that they cross, in the same way.
        links: int64 ``[wafers, 4, mesh rows, mesh cols]``: words that left each PE to the north, east, south and west.
    """

    step_cycles: I64
    hops: I64
    links: I64

    @property
    def cycles(self) -> int:
        """Cycles of the phase."""
        return int(self.step_cycles.sum())


def phase_run(
    program: Program,
    phase: Phase,
    lengths: Sequence[int],
    wafer: WaferSpec,
    software: SoftwareProfile,
    *,
    eager: bool = False,
    workers: int = 1,
    on_moves: OnMoves | None = None,
) -> PhaseRun:
    """Simulate ``phase`` from its first step to its last.

    Args:
        program: What was compiled.
        phase: One of its phases.
        lengths: Tokens in the cache before it, of the user whose prompt it reads, or of each.
        wafer: The machine.
        software: What its software costs.
        eager: Whether a PE begins its next step as soon as its own part of the last one is done; otherwise when all
            PEs have done theirs. Words of two steps that are on the way at the same time do not meet.
        workers: Cores.
        on_moves: Takes the log of every wavelet's moves.

    Raises:
        BadMesh: a region, or the rectangle between two, is larger than the reference can hold.
        BadInput: the phase's words depend on the choice of experts, or a region spans wafers.
    """
    check_fixed(phase)
    walk = PhaseWalk(program, phase, lengths, wafer, software, workers=workers, on_moves=on_moves)
    step = 0
    while step < len(phase.steps):
        end = int(phase.steps.loops[phase.steps.loop[step], 1]) if phase.steps.loop[step] >= 0 else step + 1
        overlaps = phase.steps.loop[step] >= 0 and any(walk.overlaps(s) for s in range(step, end))
        for turn in range(phase.steps.turns(step)):
            first = step
            while first < end:
                last = first + 1
                while (
                    last < end
                    and phase.steps.overlap[first] >= 0
                    and phase.steps.overlap[last] == phase.steps.overlap[first]
                ):
                    last += 1
                walk.carry_out(range(first, last), turn)
                if not (eager or overlaps):
                    walk.wait()
                first = last
        if not eager:
            walk.wait()
        step = end
    return PhaseRun(step_cycles=walk.step_cycles, hops=walk.hops, links=walk.links)

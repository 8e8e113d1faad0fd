"""The wavelets of a pattern in transit along a line, as the page of `wse pattern` plays them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from wse.backends.wavelet.machine import Machine
from wse.backends.wavelet.run import MachineRun
from wse.program.line_patterns import named_pattern
from wse.studies.pattern.case import PatternCase
from wse.studies.pattern.reference import carry_out
from wse.studies.pattern.request import PatternRequest
from wse.studies.pattern.study import Laboratory, check_pattern

MOST_HOPS: Final = 20_000
"""Hops of a case's words that a page plays: some 400 kB of it."""
MOST_HOPS_OF_PAGE: Final = 120_000
"""Hops of all cases that a page plays."""
MOST_PES: Final = 128
"""PEs of a line that can still be distinguished on a screen."""


@dataclass(frozen=True, kw_only=True)
class Animation:
    """A case cycle by cycle.

    Attributes:
        case: The case.
        cycles: From the start to the end of the last operation.
        moves: Five whole numbers for each move of a wavelet out of a router: cycle, PE, the port that it leaves
            through and the one that it came by (0 the PE's own ramp, 1 up in index, -1 down), colour; by cycle.
        operations: Three whole numbers for each vector operation: PE, first cycle, the cycle after the last.
    """

    case: PatternCase
    cycles: int
    moves: list[int]
    operations: list[int]

    def to_dict(self) -> dict[str, Any]:
        """Return the animation as the page's script reads it."""
        name = f"{self.case.pattern}: {self.case.pes} PEs, {self.case.words} words"
        return {
            "name": name,
            "pes": self.case.pes,
            "root": self.case.root,
            "cycles": self.cycles,
            "moves": self.moves,
            "operations": self.operations,
        }


def animations_of(request: PatternRequest, cases: Sequence[PatternCase], laboratory: Laboratory) -> list[Animation]:
    """Return the cases without a fault that are small enough, executed cycle by cycle, until the page is full."""
    named = {pattern.name: pattern for pattern in map(named_pattern, request.cases()[0])}
    animations: list[Animation] = []
    remaining_hops = MOST_HOPS_OF_PAGE
    for case in sorted(cases, key=lambda case: (case.hops or 0, case.pes)):
        if case.hops is None or case.pes > MOST_PES or case.hops > min(MOST_HOPS, remaining_hops):
            continue
        remaining_hops -= case.hops
        checked = check_pattern(named[case.pattern], case.pes, case.words, laboratory.wafer)
        machine, ran, _ = carry_out(
            checked.schedule, checked.schedule_words, laboratory.wafer, laboratory.software, log=True
        )
        animations.append(_animation(case, machine, ran))
    order = {(case.pattern, case.pes, case.words): i for i, case in enumerate(cases)}
    return sorted(animations, key=lambda one: order[one.case.pattern, one.case.pes, one.case.words])


def _animation(case: PatternCase, machine: Machine, ran: MachineRun) -> Animation:
    side = np.array([0, 1, 0, -1, 0])  # of a Port along the line
    cycle, _, col, colour, through, came = ran.moves.T
    moves = np.stack([cycle, col, side[through], side[came], colour], axis=1)
    pes = np.concatenate([block.pes for block in machine.operation_blocks])
    operations = np.concatenate([pes[:, None], ran.op_times], axis=1)
    return Animation(
        case=case, cycles=ran.cycles, moves=moves.reshape(-1).tolist(), operations=operations.reshape(-1).tolist()
    )

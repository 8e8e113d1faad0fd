"""Shifts along the interleaved ring: one step for all lines, and the alignment of MeshGEMM.

A ring uses three colours, selected by position modulo 3. The alignment needs one more colour for
the opposite direction. Source: He et al., WaferLLM, OSDI 2025, MeshGEMM.
"""

from __future__ import annotations

import numpy as np

from wse_mappings.mesh.ring import ring_pe, ring_place
from wse_mappings.patterns.pattern import Pattern
from wse_mappings.patterns.sampling import line_case
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule, varied_schedule


def _step(length: int, by: int, arrival: Arrival) -> list[tuple[int, int, Arrival]]:
    """Return messages in which every PE of a line sends to the PE ``by`` places further on a ring.

    Args:
        length: Number of PEs on the line.
        by: Distance along the ring; negative for the opposite direction.
        arrival: Effect of the messages at the target.

    Returns:
        (source, target, Arrival) of each message.
    """
    if length == 1:
        return [(0, 0, Arrival.COPY)]
    return [(pe, ring_pe(ring_place(pe, length) + by, length), arrival) for pe in range(length)]


def ring_shift(length: int, lines: int) -> LineSchedule:
    """Return the messages that send the words of every PE of a line to the next PE of a ring.

    The ring is folded onto the line: it visits every second PE on the way out and the others on the
    way back. The next PE is therefore at most two hops away.

    Args:
        length: Number of PEs in a line.
        lines: Number of lines.
    """
    return uniform_schedule("ring_shift", length, lines, _step(length, 1, Arrival.REPLACE), colours=3)


def ring_align(length: int) -> LineSchedule:
    """Return the messages that rotate the tiles of each line before MeshGEMM starts.

    MeshGEMM is a distributed matrix product on a square of PEs that passes tiles around a ring on
    each line. Before it starts, each line rotates its tiles by a different number of places along
    the ring: line i moves them backward i / 2 times if i is even, and forward (i + 1) / 2 times if
    i is odd. The pattern has ``length // 2`` rounds. Lines that need fewer rounds keep sending
    words, which are not stored, so that every round takes the same time.
    """
    keep = [(pe, pe, Arrival.COPY) for pe in range(length)]
    groups = [
        _step(length, 1, Arrival.REPLACE),
        _step(length, -1, Arrival.REPLACE),
        _step(length, 1, Arrival.DROP) + keep,
        _step(length, -1, Arrival.DROP) + keep,
    ]
    rounds = max(1, length // 2)
    line = np.arange(length)
    odd = line % 2
    steps = np.where(odd == 1, (line + 1) // 2, line // 2)
    is_done = np.arange(rounds)[:, None] >= steps[None, :]
    variants = np.where(odd == 1, 0, 1)[None, :] + 2 * is_done
    return varied_schedule("ring_align", length, groups, variants.astype(np.int32), colours=4)


PATTERN = Pattern(
    name="ring_shift",
    samples={
        "ring_shift": lambda sizes: line_case("ring_shift", ring_shift(sizes.length, 1), sizes),
        "ring_align": lambda sizes: line_case("ring_align", ring_align(sizes.length), sizes),
    },
)

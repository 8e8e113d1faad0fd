"""Sums along rows for dist-GEMM-T, with a different root (receiving PE) in each round.

Two chains run from the ends of a row to the root. The root adds the sum from the low end first, and
then the sum from the high end. Source: He et al., WaferLLM, OSDI 2025, dist-GEMM-T.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wse_mappings.mesh.ring import ring_pe, ring_place
from wse_mappings.patterns.pattern import Pattern
from wse_mappings.patterns.sampling import line_case
from wse_mappings.schedule import I32, Arrival, LineSchedule, even_schedule


def _roots(length: int) -> I32:
    """Return which PE receives the sum of each line in each round of `ring_reduce`.

    The result is int32 ``[rounds, lines]``; both axes have ``length`` elements.
    """
    at = np.array([ring_pe(place, length) for place in range(length)], np.int32)
    place = np.array([ring_place(line, length) for line in range(length)])
    return at[(place[None, :] - np.arange(length)[:, None]) % length]


def ring_reduce(length: int, *, store_and_forward: bool = False) -> LineSchedule:
    """Return the messages of row sums on a square of PEs, with a different target PE in each round.

    The PEs of a line form an interleaved ring, which visits every second PE on the way out and the
    others on the way back. In round t, the sum of line i is computed on the PE that is t places
    before PE i on this ring.

    Args:
        length: Number of PEs per line, and number of lines.
        store_and_forward: Whether a PE receives a whole message before it starts sending, as in the
            released implementation. Otherwise words are streamed.
    """
    root, step = np.arange(length)[:, None], np.arange(length - 1)[None, :]
    rises = step < root
    source = np.where(rises, step, length - 1 - (step - root))
    target = np.where(rises, source + 1, source - 1)
    messages = np.stack([source, target, np.full_like(source, Arrival.ADD)], axis=2)
    ends = sorted({0, min(1, length - 1), length // 2, max(length - 2, 0), length - 1})
    schedule = even_schedule("ring_reduce", length, messages, _roots(length), colours=4, slowest_variants=tuple(ends))
    return replace(schedule, overlaps=True, store_and_forward=store_and_forward)


def ring_keep(length: int) -> LineSchedule:
    """Return the pattern that copies the sum of each round of `ring_reduce` to its final address.

    In each round, one PE of a line computes the sum of the line. This PE copies the sum within its
    own memory, so no words travel between PEs.
    """
    messages = np.array([[(root, root, Arrival.COPY)] for root in range(length)], np.int32)
    return even_schedule("ring_keep", length, messages, _roots(length), colours=0)


PATTERN = Pattern(
    name="ring_reduce",
    samples={"ring_reduce": lambda sizes: line_case("ring_reduce", ring_reduce(sizes.length), sizes)},
)

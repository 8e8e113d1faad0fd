"""Ring all-reduce over the interleaved ring: a reduce-scatter around the ring, then an all-gather.

Neighbours on the ring are at most two hops apart. In step t, place k sends part k - t of the words.
In the first P - 1 steps, the receiver adds the part; in the next P - 1 steps, the receiver stores
it. Each half uses three colours. Source: Luczynski et al., Near-Optimal Wafer-Scale Reduce, HPDC
2024, arXiv 2404.15888, which also gives the cost.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wse_mappings.mesh.ring import ring_pe
from wse_mappings.patterns.pattern import LineCollective, Pattern, Terms
from wse_mappings.patterns.sampling import line_case
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule


def ring_all_reduce(length: int, lines: int, arrival: Arrival) -> LineSchedule:
    """Return the ring all-reduce along each line, which divides the words into ``length`` parts.

    Each part travels once around the ring to be added up and once more to be copied to all PEs.

    Args:
        length: Number of PEs in a line.
        lines: Number of lines.
        arrival: How two operands are combined: ADD or MAX.
    """
    steps = [(step, 0, arrival) for step in range(length - 1)] + [
        (step, 1, Arrival.REPLACE) for step in range(length - 1)
    ]
    messages, parts = [], []
    for step, offset, step_arrival in steps:
        for place in range(length):
            messages.append((ring_pe(place, length), ring_pe(place + 1, length), step_arrival))
            parts.append((place + offset - step) % length)
    schedule = uniform_schedule("ring_all_reduce", length, lines, messages, colours=6)
    return replace(schedule, parts=length, part=np.array(parts, np.int32))


def terms(length: int, words: int) -> Terms:
    """Return the cost terms of a ring all-reduce, from which a published model computes cycles.

    The model is that of Luczynski et al., HPDC 2024. There are 2 (P - 1) rounds for P PEs, each
    moving 1 / P of the words.

    Args:
        length: Number of PEs in the line.
        words: Number of words.
    """
    moved_words = 2 * (length - 1) * words / length
    links = 2 * (length - 1)
    return Terms(
        contention_words=moved_words,
        energy_hops=moved_words * links,
        links=links,
        distance_hops=4 * length - 6,
        depth=links,
    )


PATTERN = Pattern(
    name="ring_all_reduce",
    samples={
        "ring_all_reduce": lambda sizes: line_case(
            "ring_all_reduce", ring_all_reduce(sizes.length, 1, Arrival.ADD), sizes
        )
    },
    collectives={
        "ring_all_reduce": LineCollective(
            make=lambda length, _: ring_all_reduce(length, 1, Arrival.ADD), form=("all_reduce", "ring")
        ),
    },
)

"""Ring all-reduce over the interleaved ring: parts of the words go round once to be summed and once to be shared.

Neighbours on the ring are at most two hops apart. In step t place k sends part k - t, adding what arrives in the first
P - 1 steps and storing it in the second, on three colours each. Source: Luczynski et al., Near-Optimal Wafer-Scale
Reduce, HPDC 2024, arXiv 2404.15888, which gives its cost beside reduce and broadcast.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wse_mappings.mesh.ring import ring_pe
from wse_mappings.patterns.pattern import LineCollective, Pattern, Terms
from wse_mappings.patterns.sampling import line_case
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule


def ring_all_reduce(length: int, lines: int, arrival: Arrival) -> LineSchedule:
    """Return the ring all-reduce of ``arrival`` (ADD or MAX) over each line.

    The words are cut into ``length`` parts.
    """
    steps = [(step, 0, arrival) for step in range(length - 1)] + [
        (step, 1, Arrival.REPLACE) for step in range(length - 1)
    ]
    messages, parts = [], []
    for step, ahead, what in steps:
        for place in range(length):
            messages.append((ring_pe(place, length), ring_pe(place + 1, length), what))
            parts.append((place + ahead - step) % length)
    schedule = uniform_schedule("ring_all_reduce", length, lines, messages, colours=6)
    return replace(schedule, parts=length, part=np.array(parts, np.int32))


def terms(length: int, words: int) -> Terms:
    """Return the terms of a ring: 2 (P - 1) rounds, each with 1 / P of the words."""
    moved = 2 * (length - 1) * words / length
    links = 2 * (length - 1)
    return Terms(
        contention_words=moved, energy_hops=moved * links, links=links, distance_hops=4 * length - 6, depth=links
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

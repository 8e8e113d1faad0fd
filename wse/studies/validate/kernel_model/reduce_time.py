"""Cycle counts of collectives along a line of PEs: grouped reduces, multicasts and all-reduces.

The PEs' compute engines execute a reduce, first in groups of neighbouring PEs and then along the
roots of the groups. The fabric model of a line times its messages. Routers copy the sum to all PEs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from wse.arrays import I32
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.line_time import line_cycles
from wse.hardware.compute_engine import ComputeEngineCosts
from wse.hardware.spec import WaferSpec
from wse_mappings.rounding import ceil_div
from wse_mappings.schedule import Arrival

GROUP_PES: Final = 16
"""Number of PEs per group in a reduce along a row or column. Source: description of the kernels."""

OPERATION_GAP_CYCLES: Final = 2
"""Cycles between two operations of a PE in a reduce, as in the profile of the research kernels."""


def all_reduce_cycles(
    wafer: WaferSpec, costs: ComputeEngineCosts, pes: int, words: int, group: int = GROUP_PES
) -> float:
    """Return how many cycles an all-reduce along a line takes: a reduce and a multicast of the sum.

    Args:
        wafer: Wafer type, which determines the cycles per hop and per ramp.
        costs: Costs of messages in the software of the wafer.
        pes: PEs on the line.
        words: 32-bit words on each PE.
        group: Number of PEs per group. With ``pes`` or more, there is a single group, so the reduce
            has only one phase.
    """
    if pes < 2:
        return 0.0
    return reduce_cycles(wafer, costs, pes, words, group) + multicast_cycles(costs, pes // 2, words)


def multicast_cycles(costs: ComputeEngineCosts, receivers: int, words: float) -> float:
    """Return how many cycles a multicast along a line takes if the routers forward the words.

    Args:
        costs: Costs of messages.
        receivers: Number of PEs on the line that receive the words.
        words: 32-bit words of the message.
    """
    return costs.multicast_cycles + words * costs.multicast_word_cycles + receivers * costs.multicast_hop_cycles


def reduce_cycles(wafer: WaferSpec, costs: ComputeEngineCosts, pes: int, words: int, group: int = GROUP_PES) -> float:
    """Return how many cycles a reduce takes that adds up the words of a line on its middle PE.

    Each group of PEs first adds up its words. Then the sums of the groups are added up.

    Args:
        wafer: Wafer type, which determines the cycles per hop and per ramp.
        costs: Costs of messages in the software of the wafer.
        pes: PEs on the line.
        words: 32-bit words on each PE.
        group: Number of PEs per group. With ``pes`` or more, there is a single group, so the reduce
            has only one phase.
    """
    return _reduce_cycles(wafer, costs.relay_cycles, pes, words, group) if pes > 1 and words else 0.0


@lru_cache(maxsize=4096)
def _reduce_cycles(wafer: WaferSpec, relay: float, pes: int, words: int, group: int) -> float:
    line_costs = LineCosts.of(wafer, OPERATION_GAP_CYCLES)
    stages = _depth(pes, group)
    return line_cycles(_grouped_reduce(pes, group), words, line_costs).total + relay * stages


def _depth(pes: int, group: int) -> int:
    """Return how many PEs relay words on the longest path of a two-phase reduce along a line.

    First, the middle PE of each group adds up the words of the group. Then the middle group adds up
    the sums of all groups. The longest path begins at an end of the line.

    Args:
        pes: Number of PEs on the line.
        group: Number of PEs per group.
    """
    groups = ceil_div(pes, group)
    return min(group, pes) // 2 + groups // 2


def _grouped_reduce(pes: int, group: int) -> I32:
    """Return the messages of a two-phase reduce: int32 ``[m, 3]`` with source, target, Arrival.

    1. In each group, chains of PEs from both ends add up the words at the middle PE.
    2. Chains of groups from both ends of the line add up the sums at the middle group.
    """
    messages, roots = [], []
    for first in range(0, pes, group):
        end = min(first + group, pes)
        root = first + (end - first) // 2
        roots.append(root)
        messages += [(pe, pe + 1) for pe in range(first, root)] + [(pe, pe - 1) for pe in range(end - 1, root, -1)]
    middle = len(roots) // 2
    messages += [(roots[i], roots[i + 1]) for i in range(middle)]
    messages += [(roots[i], roots[i - 1]) for i in range(len(roots) - 1, middle, -1)]
    return np.array([(source, target, Arrival.ADD) for source, target in messages], dtype=np.int32)

"""Auto-gen reduce: the tree over a line with the fewest hops among all trees of a given depth.

The last s of n PEs reduce into the first PE among them, which is n - s places from the root. The
root reduces the other PEs before it receives this sum. Two colours alternate by the sender's level.
The words of a farther subtree wait until the last PE of a nearer subtree has sent its own words on
the same colour. Depth 1 is the star and depth P - 1 the chain. Source: Luczynski et al.,
Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv 2404.15888.
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from wse_mappings.patterns.pattern import LineReduce, Pattern, Reduce, Terms, line_terms
from wse_mappings.patterns.sampling import LEVEL_CYCLES, Case, Sizes, line_case
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule

I32 = npt.NDArray[np.int32]
F64 = npt.NDArray[np.float64]

UNREACHED = np.int32(2**29)  # the sum of two such values and a distance still fits in int32
"""Energy of a tree of depth 0. The sum of two such values and a distance still fits in int32."""


def auto_gen(length: int, lines: int, arrival: Arrival, depth: int) -> LineSchedule:
    """Return a reduce into the first PE of each line, along the tree with the fewest hops.

    The tree is the auto-gen tree of Luczynski et al. (HPDC 2024) for a given maximum depth.

    Args:
        length: Number of PEs in a line.
        lines: Number of lines.
        arrival: How two operands are combined: ADD, MAX or ARGMAX.
        depth: Maximum number of relays on the longest path.

    Raises:
        ValueError: The depth is 0 for more than one PE.
    """
    if depth < 1 < length:
        raise ValueError(f"auto_gen: depth {depth} for a line of {length} PEs: give 1 or more")
    messages: list[tuple[int, int, Arrival]] = []
    message_colours: list[int] = []
    open_subtrees = [(0, length, min(depth, length - 1), 0, -1)]
    while open_subtrees:
        first, count, max_depth, level, target = open_subtrees.pop()
        if count > 1:
            last = _last_subtree(count, max_depth, least_energy(length))
            open_subtrees.append((first, 1, 0, level, target))
            open_subtrees.append((first + count - last, last, max_depth - 1, level + 1, first))
            open_subtrees.append((first, count - last, max_depth, level, -1))
        elif target >= 0:
            messages.append((first, target, arrival))
            message_colours.append(level % 2)
    return uniform_schedule("auto_gen", length, lines, messages, colours=2, message_colours=message_colours)


@lru_cache(maxsize=4)
def least_energy(length: int) -> I32:
    """Return the minimum number of hops for a reduce of n neighbouring PEs by a tree of depth d.

    This is E*(n, d) of Luczynski et al. (HPDC 2024), for all n up to ``length`` and all d. E*(1, d)
    is 0. For n > 1, E*(n, d) is the smaller of

    - E*(n, d - 1)
    - the minimum of E*(s, d - 1) + E*(n - s, d) + (n - s) over all s from 1 to n - 1

    Returns:
        int32 ``[length + 1, length]``, indexed by n and d. Impossible combinations (row 0 and, for
        n > 1, column 0) contain UNREACHED.
    """
    energy = np.full((length + 1, length), UNREACHED, np.int32)
    energy[1] = 0
    for n in range(2, length + 1):
        split_energy = energy[1:n, : n - 1] + energy[n - 1 : 0 : -1, 1:n]
        split_energy += np.arange(n - 1, 0, -1, dtype=np.int32)[:, None]
        energy[n, 1:n] = np.minimum.accumulate(split_energy.min(axis=0))
        energy[n, n:] = energy[n, n - 1]
    energy.flags.writeable = False
    return energy


def depth_cycles(length: int, words: int, level_cycles: int) -> F64:
    """Return the cycle count of the best reduction tree of each depth in the published cost model.

    The depths are 1 to ``length - 1``. The cycle count is ``words * E / (length - 1) + level_cycles
    * depth``, where E is the minimum total number of hops of one word per PE (`least_energy`). The
    first term is the mean load per link. The hops of the longest path are not included.

    Args:
        length: Number of PEs in the line.
        words: Number of words.
        level_cycles: Cycles per level of the tree.
    """
    depths = np.arange(1, length)
    return words * least_energy(length)[length, 1:] / max(length - 1, 1) + level_cycles * depths


def best_depth(length: int, words: int, level_cycles: int) -> int:
    """Return the depth of the auto-gen tree with the fewest cycles in the published cost model.

    An auto-gen tree is the reduction tree with the fewest hops for a given depth (Luczynski et al.,
    HPDC 2024). If several depths are equally good, the smallest is returned. The depth is 0 for a
    single PE.

    Args:
        length: Number of PEs in the line.
        words: Number of words.
        level_cycles: Cycles per level of the tree.

    >>> best_depth(16, 16, 5), best_depth(256, 4096, 5)
    (4, 255)
    """
    return 0 if length == 1 else 1 + int(depth_cycles(length, words, level_cycles).argmin())


def _last_subtree(count: int, depth: int, energy: I32) -> int:
    """Return how many PEs at the end of a line form the last subtree of the best reduction tree.

    The best tree is the one with the fewest hops for the given depth. If several numbers are
    equally good, the smallest is returned.

    Args:
        count: Number of PEs.
        depth: Maximum depth of the tree.
        energy: Result of `least_energy`.
    """
    split_energy = energy[1:count, depth - 1] + energy[count - 1 : 0 : -1, depth] + np.arange(count - 1, 0, -1)
    return 1 + int(split_energy.argmin())


def terms(length: int, words: int, level_cycles: int) -> Terms:
    """Return the cost terms of the best auto-gen tree in the published cost model.

    An auto-gen tree is the reduction tree with the fewest hops for a given depth (Luczynski et al.,
    HPDC 2024). Contention is ignored, so the resulting cost is the published lower bound of a
    reduce.

    Args:
        length: Number of PEs in the line.
        words: Number of words.
        level_cycles: Cycles per level of the tree, which determine the best depth.
    """
    depth = best_depth(length, words, level_cycles)
    return line_terms(length, contention=0, energy=words * int(least_energy(length)[length, depth]), depth=depth)


def _reduce_of_depth(depth: int) -> Reduce:
    """Return the reduce by the tree with the fewest hops and at most ``depth`` relays in a row."""
    return partial(auto_gen, depth=depth)


def _sample(sizes: Sizes) -> Case:
    """Return a test case with an auto-gen reduce. In half of all cases, its depth is random.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the number of PEs in the line and the number of words.
    """
    depth = 1 + sizes.number_below(sizes.length - 1)
    if sizes.number_below(2):
        depth = best_depth(sizes.length, sizes.words, LEVEL_CYCLES)
    return line_case("auto_gen", auto_gen(sizes.length, 1, Arrival.ADD, depth), sizes, f"depth {depth}")


PATTERN = Pattern(
    name="auto_gen",
    samples={"auto_gen": _sample},
    reduce=LineReduce(label="auto-gen of depth {}", make=_reduce_of_depth, authors_number=best_depth, terms=terms),
)

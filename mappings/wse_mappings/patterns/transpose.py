"""Transpose of a square: the tile of PE (i, j) goes to PE (j, i) in one step, with one turn.

Hook k consists of row k starting at column k and column k starting at row k: one line of PEs that
bends at (k, k). Mirrored hook k is the same from row and column k back to 0. The tiles (i, j) and
(j, i) exchange places on a hook. Both are at the same distance from its bend, on hook min(i, j) and
on mirrored hook max(i, j).

Every PE is on one hook of each kind, and no link is on two hooks, so all hooks work concurrently
and only the words that cross a hook's bend limit the time. The pairs are divided between the two
kinds of hooks so that no bend passes more than ``(1 - 1 / sqrt(2)) side`` tiles per direction. In
any scheme, half of the tiles have to cross the middle of the mesh, ``side / 4`` per link.

On a hook, the innermost pair goes first. A PE sends or receives its own tile, and then its router
lets the other tiles pass. Each direction therefore needs one colour with two switch positions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse_mappings.patterns.pattern import Pattern
from wse_mappings.patterns.sampling import MAX_STREAMED, Case, PlacedPattern, Sizes
from wse_mappings.schedule import Arrival, LineSchedule, varied_schedule

Bool = npt.NDArray[np.bool_]
Message = tuple[int, int, Arrival]

COLOURS = 4  # two directions on hooks and on mirrored hooks


def transpose(side: int) -> LineSchedule:
    """Return the messages that transpose a square matrix of tiles, one on each PE.

    The lines of the pattern are the ``2 side`` paths of ``transpose_paths(side)``, each of which
    has at most ``2 side - 1`` PEs. PEs are numbered along their path. PEs (i, j) and (j, i)
    exchange their tiles along one of the two paths that contain both. A PE on the diagonal copies
    its own tile to the buffer in which all PEs store the transposed tiles.
    """
    on_hook = _hooks(side)
    arms = [(side - 1 - k, np.flatnonzero(on_hook[k, k + 1 :]) + 1) for k in range(side)]
    arms += [(k, np.flatnonzero(~on_hook[:k, k][::-1]) + 1) for k in range(side)]
    groups: list[list[Message]] = []
    message_colours: list[int] = []
    for line, (bend, distances) in enumerate(arms):
        diagonal = [(bend, bend, Arrival.COPY)] if line < side else []
        outward = [(bend - distance, bend + distance, Arrival.REPLACE) for distance in distances.tolist()]
        groups.append(diagonal + outward + [(target, source, arrival) for source, target, arrival in outward])
        first = 0 if line < side else 2
        message_colours += [first] * (len(diagonal) + len(outward)) + [first + 1] * len(outward)
    lines = np.arange(2 * side, dtype=np.int32)[None, :]
    slowest_lines = _slowest_lines([distances for _, distances in arms], side)
    return varied_schedule(
        "transpose",
        2 * side - 1,
        groups,
        lines,
        COLOURS,
        slowest_variants=slowest_lines,
        message_colours=message_colours,
    )


def transpose_paths(side: int) -> list[list[tuple[int, int]]]:
    """Return the paths along which tiles move when a square matrix of tiles is transposed.

    Each path is a hook: part of a row and part of a column of PEs that meet on the diagonal. The
    first half of the paths run from the east end to the south end. The others are mirrored: they
    run from the north end to the west end.

    Returns:
        For each path, the (row, col) of its PEs in order.

    >>> transpose_paths(2)
    [[(0, 1), (0, 0), (1, 0)], [(1, 1)], [(0, 0)], [(0, 1), (1, 1), (1, 0)]]
    """
    hooks = [[(k, col) for col in range(side - 1, k, -1)] + [(row, k) for row in range(k, side)] for k in range(side)]
    mirrored = [[(row, k) for row in range(k)] + [(k, col) for col in range(k, -1, -1)] for k in range(side)]
    return hooks + mirrored


def _slowest_lines(distances: list[npt.NDArray[np.int64]], side: int) -> tuple[int, ...]:
    """Return a small set of lines that includes one of the slowest lines of a transpose.

    On a line of PEs (a hook), pairs of PEs exchange tiles. A line with at least as many pairs as
    another line, each at least as far apart, is at least as slow. Lines that are at most as slow as
    another line by this rule are omitted.

    Args:
        distances: For each line, the distances of its pairs from the bend, in ascending order.
        side: Side length of the square.
    """
    inward = np.zeros((len(distances), side), np.int64)
    for line, line_distances in enumerate(distances):
        inward[line, : len(line_distances)] = line_distances[::-1]
    dominant_lines: list[int] = []
    for line in np.argsort(-inward.sum(axis=1), kind="stable").tolist():
        if not any((inward[dominant_line] >= inward[line]).all() for dominant_line in dominant_lines):
            dominant_lines.append(line)
    return tuple(dominant_lines)


def _hooks(side: int) -> Bool:
    """Select the hook on which each pair of PEs (i, j) and (j, i), i < j, exchanges its tiles.

    A hook is a line of PEs that bends at the diagonal. Each pair can use one of two hooks: hook i,
    along row i and column i from PE (i, i) to the far ends, or mirrored hook j, along row j and
    column j from PE (j, j) back to their starts. No hook may have more than ``max_pairs`` pairs.
    This limit starts at a lower bound and is increased until all pairs can be assigned:

    1. Column j has j pairs. Mirrored hook j can have at most ``max_pairs`` of them, so at least j -
       ``max_pairs`` pairs must be assigned to hooks i < j.
    2. For each hook i in ascending order, choose up to ``max_pairs`` of the columns that still need
       a hook, and assign the pair (i, j) of each chosen column j to hook i. The columns with the
       fewest assigned pairs are chosen, because they have the fewest hooks to spare.

    Returns:
        Bool ``[side, side]``: whether the pair (i, j) uses hook i instead of mirrored hook j.
    """
    pairs = side * (side - 1) // 2
    column = np.arange(side)
    max_pairs = next(max_pairs for max_pairs in range(side + 1) if 2 * np.minimum(max_pairs, column).sum() >= pairs)
    while True:
        is_hook = np.zeros((side, side), np.bool_)
        served_counts = np.zeros(side, np.int64)
        for row in range(side):
            waiting_columns = column[row + 1 :][served_counts[row + 1 :] < column[row + 1 :] - max_pairs]
            served_columns = waiting_columns[np.argsort(served_counts[waiting_columns], kind="stable")][:max_pairs]
            is_hook[row, served_columns] = True
            served_counts[served_columns] += 1
        if (served_counts >= column - max_pairs).all():
            return is_hook
        max_pairs += 1


def _sample(sizes: Sizes) -> Case:
    """Return a test case with the transpose of a square of random size.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the size of the square and the number of words.
    """
    schedule, words = transpose(sizes.side), min(sizes.words, MAX_STREAMED // sizes.side**2)
    lines = tuple((line, tuple(path)) for line, path in enumerate(transpose_paths(sizes.side)))
    placed_pattern = PlacedPattern(schedule=schedule, lines=lines, words=words)
    return Case(
        pattern="transpose", rows=sizes.side, cols=sizes.side, words=words, detail="", groups=((placed_pattern,),)
    )


PATTERN = Pattern(name="transpose", samples={"transpose": _sample})

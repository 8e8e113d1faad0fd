"""Transpose of a square: the tile of PE (i, j) goes to PE (j, i), in one step and through one router turn.

Hook k is row k from column k on together with column k from row k on, one line of PEs that bends at (k, k); mirrored
hook k is the same from row and column k back to 0. The two tiles of a pair exchange places on a hook about its bend:
(i, j) and (j, i) lie equally far from it on hook min(i, j) and on mirrored hook max(i, j). Every PE is on one hook of
either kind, and no link on two, so all hooks work at once and only the words over a hook's bend matter. Each pair takes
one of its two hooks such that no bend passes more than ``(1 - 1 / sqrt(2)) side`` tiles in a direction; half of the
tiles would have to cross the middle of a mesh anyway, ``side / 4`` on a link.

On a hook the innermost pair goes first. A PE sends its own tile and becomes a wire, or takes its own and becomes one,
so each direction needs one colour with two switch positions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse_mappings.patterns.pattern import Pattern
from wse_mappings.patterns.sampling import MOST_STREAMED, Case, PlacedPattern, Sizes
from wse_mappings.schedule import Arrival, LineSchedule, varied_schedule

Bool = npt.NDArray[np.bool_]
Message = tuple[int, int, Arrival]

COLOURS = 4  # two directions on hooks and on mirrored hooks


def transpose(side: int) -> LineSchedule:
    """Return the transpose of a square on ``transpose_paths(side)``: line k is hook k, line ``side + k`` its mirror
    image.

    A line's places are counted along its path, at most ``2 side - 1``. Words are sent at one address and stored at
    another, where the diagonal keeps copies of its own.
    """
    on_hook = _hooks(side)
    arms = [(side - 1 - k, np.flatnonzero(on_hook[k, k + 1 :]) + 1) for k in range(side)]
    arms += [(k, np.flatnonzero(~on_hook[:k, k][::-1]) + 1) for k in range(side)]
    groups: list[list[Message]] = []
    message_colours: list[int] = []
    for line, (bend, distances) in enumerate(arms):
        diagonal = [(bend, bend, Arrival.COPY)] if line < side else []
        outward = [(bend - far, bend + far, Arrival.REPLACE) for far in distances.tolist()]
        groups.append(diagonal + outward + [(target, source, arrival) for source, target, arrival in outward])
        first = 0 if line < side else 2
        message_colours += [first] * (len(diagonal) + len(outward)) + [first + 1] * len(outward)
    lines = np.arange(2 * side, dtype=np.int32)[None, :]
    slowest = _farthest([distances for _, distances in arms], side)
    return varied_schedule(
        "transpose", 2 * side - 1, groups, lines, COLOURS, slowest=slowest, message_colours=message_colours
    )


def transpose_paths(side: int) -> list[list[tuple[int, int]]]:
    """Return (row, col) of the PEs of each line: hooks from the east end to the south, mirrored from the north to the
    west.

    >>> transpose_paths(2)
    [[(0, 1), (0, 0), (1, 0)], [(1, 1)], [(0, 0)], [(0, 1), (1, 1), (1, 0)]]
    """
    hooks = [[(k, col) for col in range(side - 1, k, -1)] + [(row, k) for row in range(k, side)] for k in range(side)]
    mirrored = [[(row, k) for row in range(k)] + [(k, col) for col in range(k, -1, -1)] for k in range(side)]
    return hooks + mirrored


def _farthest(distances: list[npt.NDArray[np.int64]], side: int) -> tuple[int, ...]:
    """Return the lines that dominate the others: with at least as many pairs, all at least as far."""
    inward = np.zeros((len(distances), side), np.int64)
    for line, far in enumerate(distances):
        inward[line, : len(far)] = far[::-1]
    chosen: list[int] = []
    for line in np.argsort(-inward.sum(axis=1), kind="stable").tolist():
        if not any((inward[chosen_line] >= inward[line]).all() for chosen_line in chosen):
            chosen.append(line)
    return tuple(chosen)


def _hooks(side: int) -> Bool:
    """Return whether the pair (i, j), i < j, uses hook i rather than mirrored hook j, ``[side, side]``.

    With at most ``most`` pairs on each hook, column j needs j - ``most`` rows to take its pairs. Each row serves those
    columns that have been served least, which is the order of least slack: all have as many rows left as they have
    been served less often.
    """
    pairs = side * (side - 1) // 2
    column = np.arange(side)
    most = next(most for most in range(side + 1) if 2 * np.minimum(most, column).sum() >= pairs)
    while True:
        is_hook = np.zeros((side, side), np.bool_)
        served = np.zeros(side, np.int64)
        for row in range(side):
            needy = column[row + 1 :][served[row + 1 :] < column[row + 1 :] - most]
            chosen = needy[np.argsort(served[needy], kind="stable")][:most]
            is_hook[row, chosen] = True
            served[chosen] += 1
        if (served >= column - most).all():
            return is_hook
        most += 1


def _sample(sizes: Sizes) -> Case:
    schedule, words = transpose(sizes.side), min(sizes.words, MOST_STREAMED // sizes.side**2)
    lines = tuple((line, tuple(path)) for line, path in enumerate(transpose_paths(sizes.side)))
    laid = PlacedPattern(schedule=schedule, lines=lines, words=words)
    return Case(pattern="transpose", rows=sizes.side, cols=sizes.side, words=words, detail="", groups=((laid,),))


PATTERN = Pattern(name="transpose", samples={"transpose": _sample})

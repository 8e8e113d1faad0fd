"""Snake reduce: a chain through all PEs of a rectangle, row by row in alternating directions.

The root is the north-west corner.

Even rows flow west, odd rows flow east, and row ends turn north. Source: Luczynski et al.,
Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv 2404.15888.
"""

from __future__ import annotations

from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.pattern import Pattern
from wse_mappings.patterns.sampling import Case, PlacedPattern, Sizes
from wse_mappings.schedule import Arrival, LineSchedule


def snake(rows: int, cols: int, arrival: Arrival) -> LineSchedule:
    """Return the messages of a snake reduce: a chain of sums along all PEs of a rectangle.

    The chain follows the path ``snake_path(rows, cols)``, row by row in alternating directions,
    towards its first PE.

    Args:
        rows, cols: Size of the rectangle.
        arrival: How two operands are combined: ADD, MAX or ARGMAX.
    """
    return chain(rows * cols, 1, arrival)


def snake_path(rows: int, cols: int) -> list[tuple[int, int]]:
    """Return the (row, col) of a rectangle's PEs, row by row in alternating directions.

    The first PE is the root of the snake reduce.

    >>> snake_path(2, 3)
    [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0)]
    """
    return [(row, col if row % 2 == 0 else cols - 1 - col) for row in range(rows) for col in range(cols)]


def _sample(sizes: Sizes) -> Case:
    """Return a test case with the snake reduce of a rectangle of random size.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the size of the rectangle and the number of words.
    """
    rows, cols = sizes.side, sizes.cols
    path = tuple(snake_path(rows, cols))
    placed_pattern = PlacedPattern(schedule=snake(rows, cols, Arrival.ADD), lines=((0, path),), words=sizes.words)
    return Case(pattern="snake", rows=rows, cols=cols, words=sizes.words, detail="", groups=((placed_pattern,),))


PATTERN = Pattern(name="snake", samples={"snake": _sample})

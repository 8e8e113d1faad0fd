"""Reduces of a rectangle into its north-west corner.

- Snake: a chain through all PEs, row by row in alternating directions. Even rows flow west, odd
  rows flow east, and row ends turn north.
- X-Y: a reduce along every row, then along the first column.

Source: Luczynski et al., Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv 2404.15888.
"""

from __future__ import annotations

from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.line_reduces import sample_reduce
from wse_mappings.patterns.pattern import Pattern, Reduce
from wse_mappings.patterns.sampling import Case, PlacedPattern, Sizes, columns_of, rows_of
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


def _sample_snake(sizes: Sizes) -> Case:
    """Return a test case with the snake reduce of a rectangle of random size.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the size of the rectangle and the number of words.
    """
    rows, cols = sizes.side, sizes.cols
    path = tuple(snake_path(rows, cols))
    placed_pattern = PlacedPattern(schedule=snake(rows, cols, Arrival.ADD), lines=((0, path),), words=sizes.words)
    return Case(pattern="snake", rows=rows, cols=cols, words=sizes.words, detail="", groups=((placed_pattern,),))


SNAKE = Pattern(name="snake", samples={"snake": _sample_snake})


def x_y(rows: int, cols: int, arrival: Arrival, reduce: Reduce) -> tuple[LineSchedule, LineSchedule]:
    """Return the two patterns of an X-Y reduce: along all rows, then along the first column.

    Args:
        rows, cols: Size of the rectangle of PEs.
        arrival: How two operands are combined: ADD, MAX or ARGMAX.
        reduce: Function that returns a reduce of lines into their first PEs, given the number of
            PEs per line, the number of lines, and ``arrival``. It is called for both patterns.
    """
    return reduce(cols, rows, arrival), reduce(rows, 1, arrival)


def _sample_x_y(sizes: Sizes) -> Case:
    """Return a test case with an X-Y reduce on a randomly sized rectangle.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the size of the rectangle and the number of words.
    """
    rows, cols, words = sizes.side, sizes.cols, sizes.words
    name, reduce = sample_reduce(sizes)
    along_rows, column_pattern = x_y(rows, cols, Arrival.ADD, reduce)
    first = PlacedPattern(schedule=along_rows, lines=rows_of(rows, cols), words=words)
    down_columns = PlacedPattern(schedule=column_pattern, lines=columns_of(rows, cols)[:1], words=words)
    return Case(pattern="x_y", rows=rows, cols=cols, words=words, detail=name, groups=((first,), (down_columns,)))


X_Y = Pattern(name="x_y", samples={"x_y": _sample_x_y})

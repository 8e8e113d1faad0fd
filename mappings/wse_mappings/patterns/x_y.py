"""X-Y reduce: a reduce along every row, then along the first column, into the north-west corner.

Source: Luczynski et al., Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv 2404.15888.
"""

from __future__ import annotations

from wse_mappings.patterns.line_reduces import sample_reduce
from wse_mappings.patterns.pattern import Pattern, Reduce
from wse_mappings.patterns.sampling import Case, PlacedPattern, Sizes, columns_of, rows_of
from wse_mappings.schedule import Arrival, LineSchedule


def x_y(rows: int, cols: int, arrival: Arrival, reduce: Reduce) -> tuple[LineSchedule, LineSchedule]:
    """Return the two patterns of an X-Y reduce: along all rows, then along the first column.

    Args:
        rows, cols: Size of the rectangle of PEs.
        arrival: How two operands are combined: ADD, MAX or ARGMAX.
        reduce: Function that returns a reduce of lines into their first PEs, given the number of
            PEs per line, the number of lines, and ``arrival``. It is called for both patterns.
    """
    return reduce(cols, rows, arrival), reduce(rows, 1, arrival)


def _sample(sizes: Sizes) -> Case:
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


PATTERN = Pattern(name="x_y", samples={"x_y": _sample})

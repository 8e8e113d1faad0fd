"""Concurrent ring patterns: keys and values along one axis, and both axes of MeshGEMM."""

from __future__ import annotations

from wse_mappings.patterns.pattern import Pattern
from wse_mappings.patterns.ring_shift import ring_align, ring_shift
from wse_mappings.patterns.sampling import MAX_WORDS, Case, PlacedPattern, Sizes, columns_of, rows_of
from wse_mappings.schedule import LineSchedule


def _two_shifts(sizes: Sizes) -> Case:
    """Return a test case with two concurrent ring shifts along a row, as for keys and values.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the number of PEs in the row and the number of words.
    """
    schedule, words = ring_shift(sizes.length, 1), sizes.words
    placed_pattern = PlacedPattern(schedule=schedule, lines=rows_of(1, sizes.length), words=words)
    return Case(
        pattern="ring_shift twice",
        rows=1,
        cols=sizes.length,
        words=words,
        detail="at once",
        groups=((placed_pattern, placed_pattern),),
    )


def _rows_and_columns(schedule: LineSchedule, sizes: Sizes) -> Case:
    """Return a test case with a pattern on all rows and columns of a square of PEs.

    Rows and columns run concurrently, with different numbers of words, as in the distributed matrix
    product MeshGEMM. `wse validate --against wavelet` compares the fast timing model with a
    simulation of every word on such cases.
    """
    side, words, round_ = schedule.length, sizes.words, sizes.number_below(len(schedule.variants))
    column_words = min(MAX_WORDS, max(1, round(words * 2 ** sizes.rng.uniform(-2, 2))))
    placed_patterns = (
        PlacedPattern(schedule=schedule, lines=rows_of(side, side), words=words, round_=round_),
        PlacedPattern(schedule=schedule, lines=columns_of(side, side), words=column_words, round_=round_),
    )
    name, detail = f"{schedule.name} rows and columns", f"{column_words} words on columns"
    return Case(pattern=name, rows=side, cols=side, words=words, detail=detail, groups=(placed_patterns,))


PATTERN = Pattern(
    name="rings_at_once",
    samples={
        "ring_shift twice": _two_shifts,
        "ring_shift rows and columns": lambda sizes: _rows_and_columns(ring_shift(sizes.side, sizes.side), sizes),
        "ring_align rows and columns": lambda sizes: _rows_and_columns(ring_align(sizes.side), sizes),
    },
)

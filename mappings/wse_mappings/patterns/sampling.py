"""Cases of random sizes, on which the two timing models of a pattern are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from wse_mappings.schedule import COMBINING, LineSchedule

LONGEST: Final = 128
WIDEST: Final = 24  # PEs on a side of a square
MOST_WORDS: Final = 4096
LEVEL_CYCLES: Final = 5  # of a level of depth, on either generation: two ramps and one
MOST_STREAMED: Final = 400_000  # words into one PE: what they take in the reference is seconds

Place = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacedPattern:
    """A round of a pattern along lines of PEs.

    ``lines`` are pairs of a line of the schedule and its PEs in order.
    """

    schedule: LineSchedule
    lines: tuple[tuple[int, tuple[Place, ...]], ...]
    words: int
    round_: int = 0

    @property
    def reduces(self) -> bool:
        """True if the words are combined at one address; otherwise they are copied."""
        return bool(np.isin(self.schedule.messages[:, 2], COMBINING).any())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """Patterns on a mesh: groups one after another, the patterns of a group at the same time.

    ``detail`` is what else there is to say beside sizes: a group size, a root.
    """

    pattern: str
    rows: int
    cols: int
    words: int
    detail: str
    groups: tuple[tuple[PlacedPattern, ...], ...]


class Sizes:
    """Random sizes for one case."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.words = round(2 ** rng.uniform(0, np.log2(MOST_WORDS)))
        self.length = round(2 ** rng.uniform(1, np.log2(LONGEST)))
        self.side = int(rng.integers(2, WIDEST + 1))
        self.cols = int(rng.integers(2, WIDEST + 1))

    def number_below(self, limit: int) -> int:
        """Return a random number from 0 to ``limit`` - 1."""
        return int(self.rng.integers(limit))


def rows_of(rows: int, cols: int) -> tuple[tuple[int, tuple[Place, ...]], ...]:
    """Return the rows of a mesh as lines: index, and (row, col) of their PEs."""
    return tuple((row, tuple((row, col) for col in range(cols))) for row in range(rows))


def columns_of(rows: int, cols: int) -> tuple[tuple[int, tuple[Place, ...]], ...]:
    """Return the columns of a mesh as lines: index, and (row, col) of their PEs."""
    return tuple((col, tuple((row, col) for row in range(rows))) for col in range(cols))


def line_case(name: str, schedule: LineSchedule, sizes: Sizes, detail: str = "") -> Case:
    """Return a case of one random line of a schedule in one random round."""
    words = min(sizes.words, MOST_STREAMED // schedule.length)
    row = tuple((0, col) for col in range(schedule.length))
    line, round_ = sizes.number_below(schedule.variants.shape[1]), sizes.number_below(len(schedule.variants))
    laid = PlacedPattern(schedule=schedule, lines=((line, row),), words=words, round_=round_)
    return Case(pattern=name, rows=1, cols=schedule.length, words=words, detail=detail, groups=((laid,),))

"""Randomly sized cases for comparing the two timing models of a pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from wse_mappings.schedule import COMBINING, LineSchedule

LONGEST: Final = 128
WIDEST: Final = 24  # PEs on a side of a square
MAX_WORDS: Final = 4096
LEVEL_CYCLES: Final = 5  # of a level of depth on both generations: two ramps and one cycle
MAX_STREAMED: Final = 400_000  # words into one PE; the reference model needs seconds for them

Place = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacedPattern:
    """One round of a communication pattern on certain lines (rows, columns or paths) of PEs.

    Attributes:
        schedule: Messages of the pattern.
        lines: For each line of PEs, an index and a list of positions: the index of the line in
            ``schedule`` whose messages it executes, and the (row, col) of its PEs in order.
        words: Number of words per message.
        round_: Index of the round.
    """

    schedule: LineSchedule
    lines: tuple[tuple[int, tuple[Place, ...]], ...]
    words: int
    round_: int = 0

    @property
    def reduces(self) -> bool:
        """True if any message combines words with stored words, for example by adding them."""
        return bool(np.isin(self.schedule.messages[:, 2], COMBINING).any())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """A test case for a timing model: patterns of messages on a mesh of PEs.

    Some of the patterns run concurrently and some sequentially.

    Attributes:
        pattern: Name of the sampled pattern.
        rows, cols: Size of the mesh.
        words: Number of words per message.
        detail: Other random choices, such as a group size or a root, as a string.
        groups: Groups of patterns. The patterns of a group run concurrently; the groups run
            sequentially.
    """

    pattern: str
    rows: int
    cols: int
    words: int
    detail: str
    groups: tuple[tuple[PlacedPattern, ...], ...]


class Sizes:
    """Random sizes for a test case: number of words, PEs per line, and sides of a rectangle."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.words = round(2 ** rng.uniform(0, np.log2(MAX_WORDS)))
        self.length = round(2 ** rng.uniform(1, np.log2(LONGEST)))
        self.side = int(rng.integers(2, WIDEST + 1))
        self.cols = int(rng.integers(2, WIDEST + 1))

    def number_below(self, limit: int) -> int:
        """Return a random integer from 0 to ``limit`` - 1."""
        return int(self.rng.integers(limit))


def rows_of(rows: int, cols: int) -> tuple[tuple[int, tuple[Place, ...]], ...]:
    """Return, for each row of a mesh, its index and the (row, col) positions of its PEs."""
    return tuple((row, tuple((row, col) for col in range(cols))) for row in range(rows))


def columns_of(rows: int, cols: int) -> tuple[tuple[int, tuple[Place, ...]], ...]:
    """Return, for each column of a mesh, its index and the (row, col) positions of its PEs."""
    return tuple((col, tuple((row, col) for row in range(rows))) for col in range(cols))


def line_case(name: str, schedule: LineSchedule, sizes: Sizes, detail: str = "") -> Case:
    """Return a test case that runs one randomly selected line and round of a pattern.

    The mesh of the test case consists of this line only.

    Args:
        name: Name of the sampled pattern.
        schedule: Messages of the pattern.
        sizes: Random sizes, which determine the number of words.
        detail: Other random choices, as a string.
    """
    words = min(sizes.words, MAX_STREAMED // schedule.length)
    row = tuple((0, col) for col in range(schedule.length))
    line, round_ = sizes.number_below(schedule.variants.shape[1]), sizes.number_below(len(schedule.variants))
    placed_pattern = PlacedPattern(schedule=schedule, lines=((line, row),), words=words, round_=round_)
    return Case(pattern=name, rows=1, cols=schedule.length, words=words, detail=detail, groups=((placed_pattern,),))

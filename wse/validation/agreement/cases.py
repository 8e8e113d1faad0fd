"""Communication patterns of random sizes, as both timing readers can take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from wse_mappings.patterns.auto_gen import auto_gen, best_depth
from wse_mappings.patterns.binary_tree import binary_tree
from wse_mappings.patterns.both_sides import both_sides
from wse_mappings.patterns.cache_shift import cache_shift
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.edge_stream import edge_stream
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.multicast import diagonal_multicast, diagonal_stream, multicast
from wse_mappings.patterns.point_to_point import point_to_point
from wse_mappings.patterns.reduce_multicast import reduce_multicast
from wse_mappings.patterns.ring_all_reduce import ring_all_reduce
from wse_mappings.patterns.ring_reduce import ring_reduce
from wse_mappings.patterns.ring_shift import ring_align, ring_shift
from wse_mappings.patterns.snake import snake, snake_path
from wse_mappings.patterns.star import star
from wse_mappings.patterns.transpose import transpose, transpose_paths
from wse_mappings.patterns.two_phase import two_phase
from wse_mappings.patterns.x_y import Reduce, x_y
from wse_mappings.schedule import COMBINING, Arrival, LineSchedule

ADD: Final = Arrival.ADD
LONGEST: Final = 128
WIDEST: Final = 24  # PEs on a side of a square
MOST_WORDS: Final = 4096
LEVEL_CYCLES: Final = 5  # of a level of depth, on either generation: two ramps and one
MOST_STREAMED: Final = 400_000  # words into one PE: what they take in the reference is seconds

Place = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Laid:
    """One round of a pattern along lines of PEs. ``lines``: (line of the schedule, its PEs in order)."""

    schedule: LineSchedule
    lines: tuple[tuple[int, tuple[Place, ...]], ...]
    words: int
    round_: int = 0

    @property
    def reduces(self) -> bool:
        """Whether the words meet at one address; otherwise they are copied to another."""
        return bool(np.isin(self.schedule.messages[:, 2], COMBINING).any())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """Patterns on a mesh: groups one after another, those of a group at once.

    ``detail`` is what else there is to say beside sizes: a group size, a root.
    """

    pattern: str
    rows: int
    cols: int
    words: int
    detail: str
    groups: tuple[tuple[Laid, ...], ...]


def rows_of(rows: int, cols: int) -> tuple[tuple[int, tuple[Place, ...]], ...]:
    """All rows of a mesh."""
    return tuple((row, tuple((row, col) for col in range(cols))) for row in range(rows))


def columns_of(rows: int, cols: int) -> tuple[tuple[int, tuple[Place, ...]], ...]:
    """All columns of a mesh."""
    return tuple((col, tuple((row, col) for row in range(rows))) for col in range(cols))


class Sizes:
    """Random sizes for one case."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.words = round(2 ** rng.uniform(0, np.log2(MOST_WORDS)))
        self.length = round(2 ** rng.uniform(1, np.log2(LONGEST)))
        self.side = int(rng.integers(2, WIDEST + 1))
        self.cols = int(rng.integers(2, WIDEST + 1))

    def below(self, limit: int) -> int:
        """A number from 0 to ``limit`` - 1."""
        return int(self.rng.integers(limit))


Make = Callable[[Sizes], Case]


def _line(name: str, schedule: LineSchedule, sizes: Sizes, detail: str = "") -> Case:
    """One line of a schedule, in one round."""
    words = min(sizes.words, MOST_STREAMED // schedule.length)
    row = tuple((0, col) for col in range(schedule.length))
    which, round_ = sizes.below(schedule.variants.shape[1]), sizes.below(len(schedule.variants))
    laid = Laid(schedule=schedule, lines=((which, row),), words=words, round_=round_)
    return Case(pattern=name, rows=1, cols=schedule.length, words=words, detail=detail, groups=((laid,),))


def _two_phase(sizes: Sizes) -> Case:
    group = 1 + sizes.below(sizes.length)
    return _line("two_phase", two_phase(sizes.length, 1, ADD, group), sizes, f"groups of {group}")


def _k_tree(sizes: Sizes, *, broadcast: bool) -> Case:
    """With the group count of least relays half of the time, with any one or two counts otherwise."""
    groups: tuple[int, ...] | None = None
    if sizes.below(2):
        groups = (1 + sizes.below(sizes.length),)
        if sizes.below(2):
            groups = (*groups, 1 + sizes.below(groups[0]))
    schedule = k_tree(sizes.length, 1, ADD, broadcast=broadcast, groups=groups)
    told = "" if groups is None else "groups " + ", ".join(map(str, groups))
    return _line("k_tree all-reduce" if broadcast else "k_tree reduce", schedule, sizes, told)


def _auto_gen(sizes: Sizes) -> Case:
    depth = 1 + sizes.below(sizes.length - 1)
    if sizes.below(2):
        depth = best_depth(sizes.length, sizes.words, LEVEL_CYCLES)
    return _line("auto_gen", auto_gen(sizes.length, 1, ADD, depth), sizes, f"depth {depth}")


def _one_reduce(sizes: Sizes) -> tuple[str, Reduce]:
    """A reduce into an end of a line, as its authors size it."""
    searched = best_depth(sizes.length, sizes.words, LEVEL_CYCLES)
    reduces: dict[str, Reduce] = {
        "chain": chain,
        "star": star,
        "binary_tree": binary_tree,
        "two_phase": two_phase,
        "auto_gen": partial(auto_gen, depth=searched),
    }
    name = list(reduces)[sizes.below(len(reduces))]
    return name, reduces[name]


def _both_sides(sizes: Sizes) -> Case:
    name, reduce = _one_reduce(sizes)
    return _line("both_sides", both_sides(sizes.length, 1, ADD, reduce), sizes, name)


def _reduce_multicast(sizes: Sizes) -> Case:
    """All-reduces by a reduce into an end or from both sides, and a multicast."""
    name, reduce = _one_reduce(sizes)
    if sizes.below(2):
        into_end = reduce_multicast(reduce(sizes.length, 1, ADD), 0)
        return _line("reduce_multicast", into_end, sizes, name)
    into_middle = reduce_multicast(both_sides(sizes.length, 1, ADD, reduce), sizes.length // 2)
    return _line("reduce_multicast", into_middle, sizes, f"{name}, from both sides")


def _point_to_point(sizes: Sizes) -> Case:
    """Up to four streams between PEs of which none has two."""
    ends = sizes.rng.permutation(sizes.length)[: 2 * (1 + sizes.below(4))]
    streams = tuple((int(a), int(b)) for a, b in zip(ends[::2], ends[1::2], strict=False))
    told = ", ".join(f"{a} to {b}" for a, b in streams)
    return _line("point_to_point", point_to_point(sizes.length, 1, streams), sizes, told)


def _cache_shift(sizes: Sizes) -> Case:
    passing = 1 + sizes.below(sizes.length - 1)
    return _line("cache_shift", cache_shift(sizes.length, 1, passing), sizes, f"{passing} pass")


def _transpose(sizes: Sizes) -> Case:
    schedule, words = transpose(sizes.side), min(sizes.words, MOST_STREAMED // sizes.side**2)
    lines = tuple((line, tuple(path)) for line, path in enumerate(transpose_paths(sizes.side)))
    laid = Laid(schedule=schedule, lines=lines, words=words)
    return Case(pattern="transpose", rows=sizes.side, cols=sizes.side, words=words, detail="", groups=((laid,),))


def _multicast(sizes: Sizes) -> Case:
    root = sizes.below(sizes.length)
    return _line("multicast", multicast(sizes.length, 1, root), sizes, f"from {root}")


def _snake(sizes: Sizes) -> Case:
    rows, cols = sizes.side, sizes.cols
    path = tuple(snake_path(rows, cols))
    laid = Laid(schedule=snake(rows, cols, ADD), lines=((0, path),), words=sizes.words)
    return Case(pattern="snake", rows=rows, cols=cols, words=sizes.words, detail="", groups=((laid,),))


def _x_y(sizes: Sizes) -> Case:
    rows, cols, words = sizes.side, sizes.cols, sizes.words
    name, reduce = _one_reduce(sizes)
    along_rows, down = x_y(rows, cols, ADD, reduce)
    first = Laid(schedule=along_rows, lines=rows_of(rows, cols), words=words)
    then = Laid(schedule=down, lines=columns_of(rows, cols)[:1], words=words)
    return Case(pattern="x_y", rows=rows, cols=cols, words=words, detail=name, groups=((first,), (then,)))


def _rows_and_columns(name: str, schedule: LineSchedule, sizes: Sizes) -> Case:
    """The same pattern on all rows and on all columns of a square at once, with other words, as in MeshGEMM."""
    side, words, round_ = schedule.length, sizes.words, sizes.below(len(schedule.variants))
    other = min(MOST_WORDS, max(1, round(words * 2 ** sizes.rng.uniform(-2, 2))))
    laid = (
        Laid(schedule=schedule, lines=rows_of(side, side), words=words, round_=round_),
        Laid(schedule=schedule, lines=columns_of(side, side), words=other, round_=round_),
    )
    told = f"{other} words on columns"
    return Case(pattern=name, rows=side, cols=side, words=words, detail=told, groups=(laid,))


def _two_shifts(sizes: Sizes) -> Case:
    """Keys and values along one axis."""
    schedule, words = ring_shift(sizes.length, 1), sizes.words
    laid = Laid(schedule=schedule, lines=rows_of(1, sizes.length), words=words)
    return Case(
        pattern="ring_shift twice", rows=1, cols=sizes.length, words=words, detail="at once", groups=((laid, laid),)
    )


PATTERNS: Final[dict[str, Make]] = {
    "chain": lambda s: _line("chain", chain(s.length, 1, ADD), s),
    "star": lambda s: _line("star", star(s.length, 1, ADD), s),
    "binary_tree": lambda s: _line("binary_tree", binary_tree(s.length, 1, ADD), s),
    "two_phase": _two_phase,
    "k_tree reduce": lambda s: _k_tree(s, broadcast=False),
    "k_tree all-reduce": lambda s: _k_tree(s, broadcast=True),
    "ring_all_reduce": lambda s: _line("ring_all_reduce", ring_all_reduce(s.length, 1, ADD), s),
    "auto_gen": _auto_gen,
    "both_sides": _both_sides,
    "reduce_multicast": _reduce_multicast,
    "point_to_point": _point_to_point,
    "cache_shift": _cache_shift,
    "edge_stream": lambda s: _line("edge_stream", edge_stream(s.length, 1), s),
    "transpose": _transpose,
    "multicast": _multicast,
    "diagonal_multicast": lambda s: _line("diagonal_multicast", diagonal_multicast(s.length), s),
    "diagonal_stream": lambda s: _line("diagonal_stream", diagonal_stream(s.length), s),
    "ring_shift": lambda s: _line("ring_shift", ring_shift(s.length, 1), s),
    "ring_align": lambda s: _line("ring_align", ring_align(s.length), s),
    "ring_reduce": lambda s: _line("ring_reduce", ring_reduce(s.length), s),
    "snake": _snake,
    "x_y": _x_y,
    "ring_shift twice": _two_shifts,
    "ring_shift rows and columns": lambda s: _rows_and_columns(
        "ring_shift rows and columns", ring_shift(s.side, s.side), s
    ),
    "ring_align rows and columns": lambda s: _rows_and_columns("ring_align rows and columns", ring_align(s.side), s),
}


def cases(name: str, count: int, seed: int) -> Iterator[Case]:
    """``count`` cases of one pattern; the same ones for the same seed."""
    rng = np.random.default_rng([seed, *name.encode()])
    for _ in range(count):
        yield PATTERNS[name](Sizes(rng))

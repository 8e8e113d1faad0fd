"""Closed forms of collectives as published, and the lower bound of a reduce: for readers and for comparison.

The published model counts, for B words on each of P PEs,

- contention: the most words that one PE sends or receives;
- energy: hops, summed over all words, and the links that they use; energy / links is the mean load of a link;
- distance: the hops of the longest way; depth: the longest chain of operations of PEs that wait for each other.

A level of depth costs two ramps and one cycle. The terms are put together in one of two ways, both in use: ``ADDITIVE``
is max(contention, load) + distance + depth, ``OVERLAPPED`` is max(contention, load + distance) + depth. They are the
same where no PE takes more words than a link. The published closed forms overlap; the recurrence of
``wse.fabric.line.line_time`` adds.

Source: Luczynski, Gianinazzi, Iff, Wilson, De Sensi, Hoefler, Near-Optimal Wafer-Scale Reduce, HPDC 2024,
arXiv 2404.15888. Hop and ramp are the wafer's; a link takes a word a cycle.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from wse.errors import BadInput, UnknownName
from wse.hardware.spec import WaferSpec
from wse_mappings.patterns.auto_gen import best_depth, least_energy


class Grouping(StrEnum):
    """How the terms of the model are put together."""

    ADDITIVE = "additive"
    OVERLAPPED = "overlapped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the model counts of one collective.

    Attributes:
        contention_words: The most words that one PE sends or receives.
        energy_hops: Hops of all words.
        links: Directed links in use.
        distance_hops: Hops of the longest way.
        depth: Operations of PEs that wait for each other.
    """

    contention_words: float
    energy_hops: float
    links: float
    distance_hops: float
    depth: float


def level_cycles(wafer: WaferSpec) -> int:
    """Cycles of one level of depth: two ramps and one for the operation."""
    return 2 * wafer.ramp_cycles + 1


def model_cycles(terms: Terms, wafer: WaferSpec, grouping: Grouping = Grouping.ADDITIVE) -> float:
    """Cycles of what was counted."""
    load = terms.energy_hops / terms.links
    distance = terms.distance_hops * wafer.hop_cycles
    depth = level_cycles(wafer) * terms.depth
    if grouping == Grouping.ADDITIVE:
        return max(terms.contention_words, load) + distance + depth
    return max(terms.contention_words, load + distance) + depth


def _flooding(pes: int, words: int, distance: int) -> Terms:
    return Terms(contention_words=words, energy_hops=words * pes, links=pes, distance_hops=distance, depth=1)


def star(length: int, words: int) -> Terms:
    """All send to the root, one after another."""
    energy = words * length * (length - 1) / 2
    return _line(length, contention=words * (length - 1), energy=energy, depth=1)


def chain(length: int, words: int) -> Terms:
    """Every PE adds its words to its neighbour's."""
    return _line(length, contention=words, energy=words * (length - 1), depth=length - 1)


def binary_tree(length: int, words: int) -> Terms:
    """Halves of halves; the published form is for powers of two and is read with a real logarithm elsewhere."""
    levels = math.log2(length)
    return _line(length, contention=words * levels, energy=words * length * levels / 2, depth=levels)


def two_phase(length: int, words: int, group: float | None = None) -> Terms:
    """Chains inside groups and one of their heads; groups of the square root of the line, not rounded, unless told."""
    size = group or math.sqrt(length)
    groups = length / size
    energy = words * (length - groups) + words * (length - size)
    return _line(length, contention=2 * words, energy=energy, depth=size + groups - 2)


def auto_gen(length: int, words: int, wafer: WaferSpec) -> Terms:
    """The tree of the depth that suits the words best, contention ignored: the published lower bound."""
    depth = best_depth(length, words, level_cycles(wafer))
    return _line(length, contention=0, energy=words * int(least_energy(length)[length, depth]), depth=depth)


def ring(length: int, words: int) -> Terms:
    """Ring all-reduce: 2 (P - 1) rounds of a P-th of the words each."""
    moved = 2 * (length - 1) * words / length
    links = 2 * (length - 1)
    return Terms(
        contention_words=moved, energy_hops=moved * links, links=links, distance_hops=4 * length - 6, depth=links
    )


def _line(length: int, *, contention: float, energy: float, depth: float) -> Terms:
    return Terms(
        contention_words=contention, energy_hops=energy, links=length - 1, distance_hops=length - 1, depth=depth
    )


LINE_REDUCES: Final[dict[str, Callable[[int, int, WaferSpec], Terms]]] = {
    "star": lambda length, words, _: star(length, words),
    "chain": lambda length, words, _: chain(length, words),
    "binary_tree": lambda length, words, _: binary_tree(length, words),
    "two_phase": lambda length, words, _: two_phase(length, words),
    "auto_gen": auto_gen,
}
"""Reduces of a line into its end, by the names of their patterns; each is also ``x_y_<name>`` of a rectangle."""

ALGORITHMS: Final[dict[str, tuple[str, ...]]] = {
    "message": ("stream",),
    "broadcast": ("flooding",),
    "reduce": (*LINE_REDUCES, *(f"x_y_{name}" for name in LINE_REDUCES), "snake"),
    "all_reduce": (*LINE_REDUCES, *(f"x_y_{name}" for name in LINE_REDUCES), "snake", "ring"),
}
"""Collectives and their algorithms. An all-reduce by the name of a reduce is that reduce and a broadcast after it."""


def closed_form(
    collective: str,
    algorithm: str,
    rows: int,
    cols: int,
    words: int,
    wafer: WaferSpec,
    *,
    grouping: Grouping | None = None,
) -> float:
    """Cycles of a collective by its closed form.

    Args:
        collective: A key of ``ALGORITHMS``.
        algorithm: One of its algorithms.
        rows, cols: The rectangle of PEs, the root at a corner. A line has one row or one column.
        words: 32-bit words of each PE.
        wafer: Hop and ramp.
        grouping: How the terms are put together; None for each form as it is published.

    Raises:
        UnknownName: no such collective, or no such algorithm of it.
        BadInput: a rectangle for an algorithm of lines, or a size below 1.
    """
    if collective not in ALGORITHMS:
        raise UnknownName("collective", collective, ALGORITHMS)
    if algorithm not in ALGORITHMS[collective]:
        kind = f"algorithm of {collective}"
        raise UnknownName(kind, algorithm, ALGORITHMS[collective])
    if min(rows, cols, words) < 1:
        msg = f"closed form of {collective}: {words} words on {rows}x{cols} PEs; give at least 1 of each"
        raise BadInput(msg)
    if rows * cols == 1:
        return 0.0
    if algorithm in LINE_REDUCES or algorithm == "ring":
        _check_line(algorithm, rows, cols)
    if algorithm == "ring":
        return model_cycles(ring(rows * cols, words), wafer, grouping or Grouping.OVERLAPPED)
    multicast = _flooding(rows * cols - 1, words, rows + cols - 2)
    flooding = model_cycles(multicast, wafer, grouping or Grouping.OVERLAPPED)
    if collective in ("message", "broadcast"):
        return flooding
    lines, reduce = [cols, rows], algorithm.removeprefix("x_y_")
    if algorithm == "snake":
        lines, reduce = [rows * cols], "chain"
    cycles = sum(_reduce(reduce, length, words, wafer, grouping) for length in lines if length > 1)
    return cycles + flooding if collective == "all_reduce" else cycles


def reduce_bound(length: int, words: int, wafer: WaferSpec, *, root: int = 0) -> float:
    """Cycles of the best tree for a line, contention ignored: the published lower bound of a reduce into its end.

    A root elsewhere has to wait for the longer of its two sides. The bound adds the mean load of a link to the whole
    way and depth, though the full links need not lie on the longest way: with free launches the wavelet reference
    goes below it by up to 7 % (searched trees of 64 to 512 PEs, 16 to 64 words).

    Args:
        length: PEs in the line.
        words: 32-bit words of each.
        wafer: Hop and ramp.
        root: Index of the PE that holds the sum. An all-reduce is bound by root 0, which holds it as well.

    Raises:
        BadInput: fewer than two PEs, no words, or a root that is not on the line.
    """
    if length < 2 or words < 1 or not 0 <= root < length:
        msg = (
            f"bound of a reduce: {words} words on {length} PEs into PE {root}; "
            "give at least 2 PEs and 1 word, and a root on the line"
        )
        raise BadInput(msg)
    return _reduce("auto_gen", max(root + 1, length - root), words, wafer, None)


def distance_to_bound(cycles: float, length: int, words: int, wafer: WaferSpec, *, root: int = 0) -> float:
    """``cycles`` of a reduce, or of an all-reduce with root 0, over ``reduce_bound``; its arguments and errors."""
    return cycles / reduce_bound(length, words, wafer, root=root)


def _reduce(name: str, length: int, words: int, wafer: WaferSpec, grouping: Grouping | None) -> float:
    if name == "star" and grouping is None:
        # Published without load and way: words of the nearest come first and the others' follow without a pause.
        return words * (length - 1) + level_cycles(wafer)
    return model_cycles(LINE_REDUCES[name](length, words, wafer), wafer, grouping or Grouping.OVERLAPPED)


def _check_line(algorithm: str, rows: int, cols: int) -> None:
    if min(rows, cols) > 1:
        msg = f"closed form of {algorithm}: {rows}x{cols} PEs are no line; give one row or column, or take an x_y_ form"
        raise BadInput(msg)

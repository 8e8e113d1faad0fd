"""Closed forms of collectives as published, and the lower bound of a reduce.

The published model counts, for B words on each of P PEs,

- contention: the most words that one PE sends or receives;
- energy: hops, summed over all words, and the links that they use; energy / links is the mean load of a link;
- distance: the hops of the longest way; depth: the longest chain of operations of PEs that wait for each other.

A level of depth costs two ramps and one cycle. The terms are put together in one of two ways, both in use: ``ADDITIVE``
is max(contention, load) + distance + depth, ``OVERLAPPED`` is max(contention, load + distance) + depth. They are the
same where no PE takes more words than a link. The published closed forms overlap; the recurrence of
``wse.backends.fabric.line.line_time`` adds.

Source: Luczynski, Gianinazzi, Iff, Wilson, De Sensi, Hoefler, Near-Optimal Wafer-Scale Reduce, HPDC 2024,
arXiv 2404.15888. Hop and ramp are the wafer's; a link takes a word a cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache

from wse.errors import BadInput, UnknownName
from wse.hardware.spec import WaferSpec
from wse.program.line_patterns import line_reduces
from wse_mappings.patterns import multicast, ring_all_reduce
from wse_mappings.patterns.pattern import LineReduce, Terms


class Grouping(StrEnum):
    """The two ways to combine the terms of the published model."""

    ADDITIVE = "additive"
    OVERLAPPED = "overlapped"


def level_cycles(wafer: WaferSpec) -> int:
    """Return the cycles of one level of depth: two ramps and one for the operation."""
    return 2 * wafer.ramp_cycles + 1


def model_cycles(terms: Terms, wafer: WaferSpec, grouping: Grouping = Grouping.ADDITIVE) -> float:
    """Return the cycles of a pattern from its ``terms`` in the published model."""
    load = terms.energy_hops / terms.links
    distance = terms.distance_hops * wafer.hop_cycles
    depth = level_cycles(wafer) * terms.depth
    if grouping == Grouping.ADDITIVE:
        return max(terms.contention_words, load) + distance + depth
    return max(terms.contention_words, load + distance) + depth


@cache
def algorithms() -> Mapping[str, tuple[str, ...]]:
    """Return the collectives and their algorithms.

    Each reduce of a line into its end is also ``x_y_<name>`` of a rectangle; an all-reduce by the name of a reduce is
    that reduce and a broadcast after it.
    """
    reduces = (*line_reduces(), *(f"x_y_{name}" for name in line_reduces()), "snake")
    return {"message": ("stream",), "broadcast": ("flooding",), "reduce": reduces, "all_reduce": (*reduces, "ring")}


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
    """Return the cycles of a collective by its closed form.

    Args:
        collective: A key of `algorithms`.
        algorithm: One of its algorithms.
        rows, cols: The rectangle of PEs, the root at a corner. A line has one row or one column.
        words: 32-bit words of each PE.
        wafer: Hop and ramp.
        grouping: How the terms are put together; None for each form as it is published.

    Raises:
        UnknownName: no such collective, or no such algorithm of it.
        BadInput: a rectangle for an algorithm of lines, or a size below 1.
    """
    known_algorithms = algorithms()
    if collective not in known_algorithms:
        raise UnknownName("collective", collective, known_algorithms)
    if algorithm not in known_algorithms[collective]:
        kind = f"algorithm of {collective}"
        raise UnknownName(kind, algorithm, known_algorithms[collective])
    if min(rows, cols, words) < 1:
        msg = f"closed form of {collective}: {words} words on {rows}x{cols} PEs; give at least 1 of each"
        raise BadInput(msg)
    if rows * cols == 1:
        return 0.0
    if algorithm in line_reduces() or algorithm == "ring":
        _check_line(algorithm, rows, cols)
    if algorithm == "ring":
        return model_cycles(ring_all_reduce.terms(rows * cols, words), wafer, grouping or Grouping.OVERLAPPED)
    flooded = multicast.terms(rows * cols - 1, words, rows + cols - 2)
    flooding = model_cycles(flooded, wafer, grouping or Grouping.OVERLAPPED)
    if collective in ("message", "broadcast"):
        return flooding
    lines, reduce = [cols, rows], algorithm.removeprefix("x_y_")
    if algorithm == "snake":
        lines, reduce = [rows * cols], "chain"
    cycles = sum(_reduce(reduce, length, words, wafer, grouping) for length in lines if length > 1)
    return cycles + flooding if collective == "all_reduce" else cycles


def reduce_bound(length: int, words: int, wafer: WaferSpec, *, root: int = 0) -> float:
    """Return the published lower bound of a reduce into an end of a line: the best tree without contention.

    A root elsewhere has to wait for the longer of its two sides. The bound adds the mean load of a link to the whole
    way and depth, though the full links need not lie on the longest way: with free launches the wavelet simulator
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
    """Return the ratio of ``cycles`` of a reduce, or of an all-reduce with root 0, to `reduce_bound`."""
    return cycles / reduce_bound(length, words, wafer, root=root)


def _reduce(name: str, length: int, words: int, wafer: WaferSpec, grouping: Grouping | None) -> float:
    return reduce_form(line_reduces()[name], length, words, wafer, grouping)


def reduce_form(
    reduce: LineReduce, length: int, words: int, wafer: WaferSpec, grouping: Grouping | None = None
) -> float:
    """Return the cycles of a reduce over a line of at least two PEs by its closed form."""
    level = level_cycles(wafer)
    if reduce.published_cycles is not None and grouping is None:
        return reduce.published_cycles(length, words, level)
    return model_cycles(reduce.terms(length, words, level), wafer, grouping or Grouping.OVERLAPPED)


def _check_line(algorithm: str, rows: int, cols: int) -> None:
    if min(rows, cols) > 1:
        msg = f"closed form of {algorithm}: {rows}x{cols} PEs are no line; give one row or column, or take an x_y_ form"
        raise BadInput(msg)

"""Published closed forms of collectives, and lower bounds of collectives on a line.

The published model has these terms, for B words on each of P PEs:

- contention: maximum number of words that one PE sends or receives
- energy: number of hops, summed over all words. Energy divided by the number of links in use is the
  mean load of a link.
- distance: hops of the longest path
- depth: length of the longest chain of operations that wait for each other

A level of depth costs two ramps and one cycle. Two ways to combine the terms are in use:
``ADDITIVE`` is max(contention, load) + distance + depth, ``OVERLAPPED`` is max(contention, load +
distance) + depth. They are equal if contention is at most the mean load of a link. The published
closed forms are overlapped. The recurrence of ``wse.backends.fabric.line.line_time`` is additive.

Source: Luczynski, Gianinazzi, Iff, Wilson, De Sensi, Hoefler, Near-Optimal Wafer-Scale Reduce, HPDC
2024, arXiv 2404.15888. Hop and ramp cycles depend on the wafer type. A link carries one word per
cycle.

Each lower bound has its formula and source:

- For a reduce and an all-reduce, the bound is the published one (`reduce_bound`). An all-reduce
  also leaves the sum on PE 0.
- For other collectives, the bound follows from the ramp, which carries one word per cycle, and from
  the distance. In a broadcast, B words leave the root sequentially, and the last word still has the
  longest path ahead. In a gather, the words of all PEs at a distance of d hops or more enter the
  root sequentially, the first one after at least d hops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

from wse.errors import BadInput, UnknownName
from wse.hardware.spec import WaferSpec
from wse.program.line_patterns import line_reduces
from wse_mappings.outcome import Collective
from wse_mappings.patterns import multicast
from wse_mappings.patterns.pattern import LineReduce, Terms
from wse_mappings.patterns.rings import ring_all_reduce_terms


class Grouping(StrEnum):
    """Rule by which the terms of a published formula are combined into a cycle count.

    - ADDITIVE: cycles = max(contention, load) + distance + depth
    - OVERLAPPED: cycles = max(contention, load + distance) + depth

    Contention is the number of words at the busiest PE, and load the mean number of words per link.
    Distance is the length of the longest path, and depth the longest chain of operations that wait
    for each other, both in cycles.
    """

    ADDITIVE = "additive"
    OVERLAPPED = "overlapped"


def level_cycles(wafer: WaferSpec) -> int:
    """Return the cycles of one level of depth: an operation that waits for the previous one.

    In the published model, this is the time of two ramps (from the router into the PE and back)
    plus one cycle for the operation.
    """
    return 2 * wafer.ramp_cycles + 1


def model_cycles(terms: Terms, wafer: WaferSpec, grouping: Grouping = Grouping.ADDITIVE) -> float:
    """Return how many cycles a pattern takes according to the published model.

    The model was published by Luczynski et al., HPDC 2024, arXiv 2404.15888.

    Args:
        terms: Contention (words at the busiest PE), energy (hops of all words), links, distance
            (hops) and depth (operations that wait for each other) of the pattern.
        wafer: Wafer type, which defines the cycles per hop and per ramp.
        grouping: ``ADDITIVE`` for max(contention, load) + distance + depth, or ``OVERLAPPED`` for
            max(contention, load + distance) + depth.
    """
    load = terms.energy_hops / terms.links
    distance = terms.distance_hops * wafer.hop_cycles
    depth = level_cycles(wafer) * terms.depth
    if grouping == Grouping.ADDITIVE:
        return max(terms.contention_words, load) + distance + depth
    return max(terms.contention_words, load + distance) + depth


@cache
def algorithms() -> Mapping[str, tuple[str, ...]]:
    """Return, for each collective, the names of the algorithms that have a closed form.

    A collective is an operation such as ``reduce`` or ``broadcast``, which may be performed by
    several algorithms. The names of reduces and all-reduces are:

    - A name such as ``chain`` is a reduce to one end of a line of PEs.
    - ``x_y_chain`` is the same reduce on a rectangle: along all rows, then along one column.
    - ``snake`` is a chain through all PEs of a rectangle.
    - An all-reduce with one of these names runs the reduce and then broadcasts the sum.
    - ``ring`` is an all-reduce in which the words travel around a ring of PEs.
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
    """Return how many cycles a collective takes according to its published closed form.

    Args:
        collective: A key of `algorithms`, such as ``reduce``.
        algorithm: Name of one of its algorithms, such as ``chain``.
        rows, cols: Shape of the rectangle of PEs, with the root at a corner. A line has one row or
            one column.
        words: Number of 32-bit words per PE.
        wafer: Wafer type, which defines the cycles per hop and per ramp.
        grouping: How the terms of the model are combined; None to use each form as published.

    Raises:
        UnknownName: The collective or its algorithm does not exist.
        BadInput: The algorithm only works on lines and the rectangle is not a line, or a size is
            below 1.
    """
    known_algorithms = algorithms()
    if collective not in known_algorithms:
        raise UnknownName("collective", collective, known_algorithms)
    if algorithm not in known_algorithms[collective]:
        raise UnknownName(f"algorithm of {collective}", algorithm, known_algorithms[collective])
    if min(rows, cols, words) < 1:
        raise BadInput(f"closed form of {collective}: {words} words on {rows}x{cols} PEs; give at least 1 of each")
    if rows * cols == 1:
        return 0.0
    needs_line = algorithm in line_reduces() or algorithm == "ring"
    if needs_line and min(rows, cols) > 1:
        raise BadInput(
            f"closed form of {algorithm}: {rows}x{cols} PEs are not a line; give one row or column, or use an x_y_ form"
        )
    if algorithm == "ring":
        return model_cycles(ring_all_reduce_terms(rows * cols, words), wafer, grouping or Grouping.OVERLAPPED)
    flooding_terms = multicast.terms(rows * cols - 1, words, rows + cols - 2)
    flooding = model_cycles(flooding_terms, wafer, grouping or Grouping.OVERLAPPED)
    if collective in ("message", "broadcast"):
        return flooding
    lines, reduce_name = [cols, rows], algorithm.removeprefix("x_y_")
    if algorithm == "snake":
        lines, reduce_name = [rows * cols], "chain"
    reduce = line_reduces()[reduce_name]
    cycles = sum(reduce_form(reduce, length, words, wafer, grouping) for length in lines if length > 1)
    return cycles + flooding if collective == "all_reduce" else cycles


def reduce_bound(length: int, words: int, wafer: WaferSpec, *, root: int = 0) -> float:
    """Return the published lower bound for a reduce on a line: the best tree without contention.

    The published bound is for a root at an end of the line. For a root inside the line, the bound
    for the longer side is returned.

    The bound adds the mean load of a link to the whole distance and depth. It is not strict,
    because the most loaded links need not be on the longest path. If operations start without
    delay, the cycle-by-cycle simulator is up to 7 % faster (searched trees of 64 to 512 PEs, 16 to
    64 words).

    Args:
        length: Number of PEs on the line.
        words: Number of 32-bit words per PE.
        wafer: Wafer type, which defines the cycles per hop and per ramp.
        root: Index of the PE that receives the sum. Use 0 for an all-reduce, since PE 0 also has
            the sum afterwards.

    Raises:
        BadInput: There are fewer than two PEs, no words, or the root is not on the line.
    """
    if length < 2 or words < 1 or not 0 <= root < length:
        raise BadInput(
            f"bound of a reduce: {words} words on {length} PEs into PE {root}; "
            "give at least 2 PEs and 1 word, and a root on the line"
        )
    return reduce_form(line_reduces()["auto_gen"], max(root + 1, length - root), words, wafer)


def distance_to_bound(cycles: float, length: int, words: int, wafer: WaferSpec, *, root: int = 0) -> float:
    """Return the ratio of a reduce's cycles to its published lower bound, `reduce_bound`.

    Args:
        cycles: Cycles that the reduce, or an all-reduce, takes.
        length: Number of PEs on the line.
        words: Number of 32-bit words per PE.
        wafer: Wafer type, which defines the cycles per hop and per ramp.
        root: Index of the PE that receives the sum; 0 for an all-reduce.
    """
    return cycles / reduce_bound(length, words, wafer, root=root)


def reduce_form(
    reduce: LineReduce, length: int, words: int, wafer: WaferSpec, grouping: Grouping | None = None
) -> float:
    """Return the closed-form cycle count of a reduce over a line of at least two PEs.

    Args:
        reduce: Record of the reduce, with its terms and its published formula, if any.
        length: Number of PEs on the line.
        words: Number of 32-bit words per PE.
        wafer: Wafer type, which defines the cycles per hop and per ramp.
        grouping: How the terms are combined; None to use the form as published.
    """
    level = level_cycles(wafer)
    if reduce.published_cycles is not None and grouping is None:
        return reduce.published_cycles(length, words, level)
    return model_cycles(reduce.terms(length, words, level), wafer, grouping or Grouping.OVERLAPPED)


PUBLISHED: Final = "Luczynski et al., Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv 2404.15888"
DERIVED: Final = "wse: a ramp carries one word per cycle, and a word has to travel its distance"


@dataclass(frozen=True, slots=True)
class BoundSource:
    """Formula and source of a lower bound, in text form for reports.

    Symbols in the formula: P is the number of PEs, B the number of words per PE, and k the number
    of cycles for each operation that waits for the previous one (level of depth).
    """

    formula: str
    source: str


_TREE: Final = "min over d of B E*(P, d) / (P - 1) + P - 1 + k d"
SOURCES: Final[dict[Collective, BoundSource]] = {
    "reduce": BoundSource(
        f"{_TREE}; P of the longer side of the root", f"{PUBLISHED}; up to 7 % above what is reached"
    ),
    "all_reduce": BoundSource(f"{_TREE}: the reduce into PE 0", f"{PUBLISHED}; up to 7 % above what is reached"),
    "broadcast": BoundSource("B + the longest path + k", DERIVED),
    "gather": BoundSource("max over d of B times the PEs d hops away or more, + d + k", DERIVED),
    "all_gather": BoundSource("the gather into PE 0", DERIVED),
}


def collective_bound(collective: Collective, length: int, words: int, wafer: WaferSpec, root: int) -> float:
    """Return a lower bound on the cycles that a collective on a line takes.

    Args:
        collective: Name of the collective, such as ``broadcast``.
        length: Number of PEs on the line, at least 2.
        words: Number of 32-bit words per PE.
        wafer: Wafer type, which defines the cycles per hop and per ramp.
        root: Index of the PE that receives the result, or whose words are sent; 0 if every PE
            receives the result.

    Raises:
        BadInput: A size or the root is invalid, as for `reduce_bound`.
    """
    if collective in ("reduce", "all_reduce"):
        return reduce_bound(length, words, wafer, root=root)
    if collective == "broadcast":
        return model_cycles(multicast.terms(length - 1, words, max(root, length - 1 - root)), wafer)
    distances = sorted((abs(pe - root) for pe in range(length) if pe != root), reverse=True)
    return max(words * count + hops * wafer.hop_cycles for count, hops in enumerate(distances, 1)) + level_cycles(wafer)

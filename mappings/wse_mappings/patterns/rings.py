"""Patterns on the interleaved ring: a ring folded onto a line, with neighbours at most two PEs apart.

The order of ring positions on the line is 0, 2, 4, ..., 5, 3, 1. Source: He et al., WaferLLM, OSDI
2025 (arXiv 2502.04563), section on MeshGEMM. The patterns are:

- Shift: one step for all lines, and the alignment of MeshGEMM. A ring uses three colours, selected
  by position modulo 3. The alignment needs one more colour for the opposite direction. Source: He
  et al., WaferLLM, OSDI 2025, MeshGEMM.
- Reduce: sums along rows for dist-GEMM-T, with a different root (receiving PE) in each round. Two
  chains run from the ends of a row to the root. The root adds the sum from the low end first, and
  then the sum from the high end. Source: He et al., WaferLLM, OSDI 2025, dist-GEMM-T.
- All-reduce: a reduce-scatter around the ring, then an all-gather. In step t, place k sends part
  k - t of the words. In the first P - 1 steps, the receiver adds the part; in the next P - 1 steps,
  the receiver stores it. Each half uses three colours. Source: Luczynski et al., Near-Optimal
  Wafer-Scale Reduce, HPDC 2024, arXiv 2404.15888, which also gives the cost.
- Concurrent shifts: keys and values along one axis, and both axes of MeshGEMM.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wse_mappings.patterns.pattern import LineCollective, Pattern, Terms
from wse_mappings.patterns.sampling import MAX_WORDS, Case, PlacedPattern, Sizes, columns_of, line_case, rows_of
from wse_mappings.schedule import I32, Arrival, LineSchedule, even_schedule, uniform_schedule, varied_schedule


def ring_place(pe: int, length: int) -> int:
    """Return the interleaved-ring position of the PE at index ``pe`` of a line.

    The ring visits every second PE of the line on the way out and the remaining PEs on the way
    back, so neighbours on the ring are at most two hops apart.

    >>> [ring_place(p, 5) for p in range(5)]
    [0, 4, 1, 3, 2]
    """
    return pe // 2 if pe % 2 == 0 else (length - (pe + 1) // 2) % length


def ring_pe(place: int, length: int) -> int:
    """Return the index on the line of the PE at position ``place`` of the interleaved ring.

    The ring visits every second PE of the line on the way out and the remaining PEs on the way
    back. The position is taken modulo the length.

    >>> [ring_pe(k, 5) for k in range(5)]
    [0, 2, 4, 3, 1]
    """
    place %= length
    return 2 * place if 2 * place < length else 2 * (length - place) - 1


def skew(line: int, length: int) -> I32:
    """Return the block that each PE of a line stores when MeshGEMM starts, int32 ``[length]``.

    MeshGEMM (He et al., OSDI 2025) is a distributed matrix product in which blocks move around a
    ring of PEs on every line. Without a shift, PE p would store block p. As in Cannon's algorithm,
    each line starts with its blocks shifted by a different distance: on line i, every PE stores the
    block of the PE that is s places further along the ring, where s is the ring position of PE i
    (`ring_place`).

    >>> skew(2, 5).tolist()
    [2, 0, 4, 1, 3]
    """
    pe = np.arange(length, dtype=np.int32)
    place = (ring_place(line, length) + np.where(pe % 2 == 0, pe // 2, length - (pe + 1) // 2)) % length
    return np.where(2 * place < length, 2 * place, 2 * (length - place) - 1).astype(np.int32)


def _step(length: int, by: int, arrival: Arrival) -> list[tuple[int, int, Arrival]]:
    """Return messages in which every PE of a line sends to the PE ``by`` places further on a ring.

    Args:
        length: Number of PEs on the line.
        by: Distance along the ring; negative for the opposite direction.
        arrival: Effect of the messages at the target.

    Returns:
        (source, target, Arrival) of each message.
    """
    if length == 1:
        return [(0, 0, Arrival.COPY)]
    return [(pe, ring_pe(ring_place(pe, length) + by, length), arrival) for pe in range(length)]


def ring_shift(length: int, lines: int) -> LineSchedule:
    """Return the messages that send the words of every PE of a line to the next PE of a ring.

    The ring is folded onto the line: it visits every second PE on the way out and the others on the
    way back. The next PE is therefore at most two hops away.

    Args:
        length: Number of PEs in a line.
        lines: Number of lines.
    """
    return uniform_schedule("ring_shift", length, lines, _step(length, 1, Arrival.REPLACE), colours=3)


def ring_align(length: int) -> LineSchedule:
    """Return the messages that rotate the tiles of each line before MeshGEMM starts.

    MeshGEMM is a distributed matrix product on a square of PEs that passes tiles around a ring on
    each line. Before it starts, each line rotates its tiles by a different number of places along
    the ring: line i moves them backward i / 2 times if i is even, and forward (i + 1) / 2 times if
    i is odd. The pattern has ``length // 2`` rounds. Lines that need fewer rounds keep sending
    words, which are not stored, so that every round takes the same time.
    """
    keep = [(pe, pe, Arrival.COPY) for pe in range(length)]
    groups = [
        _step(length, 1, Arrival.REPLACE),
        _step(length, -1, Arrival.REPLACE),
        _step(length, 1, Arrival.DROP) + keep,
        _step(length, -1, Arrival.DROP) + keep,
    ]
    rounds = max(1, length // 2)
    line = np.arange(length)
    odd = line % 2
    steps = np.where(odd == 1, (line + 1) // 2, line // 2)
    is_done = np.arange(rounds)[:, None] >= steps[None, :]
    variants = np.where(odd == 1, 0, 1)[None, :] + 2 * is_done
    return varied_schedule("ring_align", length, groups, variants.astype(np.int32), colours=4)


RING_SHIFT = Pattern(
    name="ring_shift",
    samples={
        "ring_shift": lambda sizes: line_case("ring_shift", ring_shift(sizes.length, 1), sizes),
        "ring_align": lambda sizes: line_case("ring_align", ring_align(sizes.length), sizes),
    },
)


def _roots(length: int) -> I32:
    """Return which PE receives the sum of each line in each round of `ring_reduce`.

    The result is int32 ``[rounds, lines]``; both axes have ``length`` elements.
    """
    at = np.array([ring_pe(place, length) for place in range(length)], np.int32)
    place = np.array([ring_place(line, length) for line in range(length)])
    return at[(place[None, :] - np.arange(length)[:, None]) % length]


def ring_reduce(length: int, *, store_and_forward: bool = False) -> LineSchedule:
    """Return the messages of row sums on a square of PEs, with a different target PE in each round.

    The PEs of a line form an interleaved ring, which visits every second PE on the way out and the
    others on the way back. In round t, the sum of line i is computed on the PE that is t places
    before PE i on this ring.

    Args:
        length: Number of PEs per line, and number of lines.
        store_and_forward: Whether a PE receives a whole message before it starts sending, as in the
            released implementation. Otherwise words are streamed.
    """
    root, step = np.arange(length)[:, None], np.arange(length - 1)[None, :]
    rises = step < root
    source = np.where(rises, step, length - 1 - (step - root))
    target = np.where(rises, source + 1, source - 1)
    messages = np.stack([source, target, np.full_like(source, Arrival.ADD)], axis=2)
    ends = sorted({0, min(1, length - 1), length // 2, max(length - 2, 0), length - 1})
    schedule = even_schedule("ring_reduce", length, messages, _roots(length), colours=4, slowest_variants=tuple(ends))
    return replace(schedule, overlaps=True, store_and_forward=store_and_forward)


def ring_keep(length: int) -> LineSchedule:
    """Return the pattern that copies the sum of each round of `ring_reduce` to its final address.

    In each round, one PE of a line computes the sum of the line. This PE copies the sum within its
    own memory, so no words travel between PEs.
    """
    messages = np.array([[(root, root, Arrival.COPY)] for root in range(length)], np.int32)
    return even_schedule("ring_keep", length, messages, _roots(length), colours=0)


RING_REDUCE = Pattern(
    name="ring_reduce",
    samples={"ring_reduce": lambda sizes: line_case("ring_reduce", ring_reduce(sizes.length), sizes)},
)


def ring_all_reduce(length: int, lines: int, arrival: Arrival) -> LineSchedule:
    """Return the ring all-reduce along each line, which divides the words into ``length`` parts.

    Each part travels once around the ring to be added up and once more to be copied to all PEs.

    Args:
        length: Number of PEs in a line.
        lines: Number of lines.
        arrival: How two operands are combined: ADD or MAX.
    """
    steps = [(step, 0, arrival) for step in range(length - 1)] + [
        (step, 1, Arrival.REPLACE) for step in range(length - 1)
    ]
    messages, parts = [], []
    for step, offset, step_arrival in steps:
        for place in range(length):
            messages.append((ring_pe(place, length), ring_pe(place + 1, length), step_arrival))
            parts.append((place + offset - step) % length)
    schedule = uniform_schedule("ring_all_reduce", length, lines, messages, colours=6)
    return replace(schedule, parts=length, part=np.array(parts, np.int32))


def ring_all_reduce_terms(length: int, words: int) -> Terms:
    """Return the cost ring_all_reduce_terms of a ring all-reduce, from which a published model computes cycles.

    The model is that of Luczynski et al., HPDC 2024. There are 2 (P - 1) rounds for P PEs, each
    moving 1 / P of the words.

    Args:
        length: Number of PEs in the line.
        words: Number of words.
    """
    moved_words = 2 * (length - 1) * words / length
    links = 2 * (length - 1)
    return Terms(
        contention_words=moved_words,
        energy_hops=moved_words * links,
        links=links,
        distance_hops=4 * length - 6,
        depth=links,
    )


RING_ALL_REDUCE = Pattern(
    name="ring_all_reduce",
    samples={
        "ring_all_reduce": lambda sizes: line_case(
            "ring_all_reduce", ring_all_reduce(sizes.length, 1, Arrival.ADD), sizes
        )
    },
    collectives={
        "ring_all_reduce": LineCollective(
            make=lambda length, _: ring_all_reduce(length, 1, Arrival.ADD), form=("all_reduce", "ring")
        ),
    },
)


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


RINGS_AT_ONCE = Pattern(
    name="rings_at_once",
    samples={
        "ring_shift twice": _two_shifts,
        "ring_shift rows and columns": lambda sizes: _rows_and_columns(ring_shift(sizes.side, sizes.side), sizes),
        "ring_align rows and columns": lambda sizes: _rows_and_columns(ring_align(sizes.side), sizes),
    },
)

"""Rewrite: gather the queries of latent attention from the rows that compute them.

A row computes the queries of its own heads, often only part of one head's queries, but every row
needs the queries of all heads. Without this rewrite, every row writes zeros for the queries of
other heads, and an all-reduce along columns adds up the rows.

1. The rows that share a head add up their contributions in one of these rows.
2. That row rounds and rotates the queries of its own head. Without the rewrite, every row does so
   for all heads.
3. The middle row gathers the queries of all heads without having to wait for sums.
4. The middle row rounds the queries, which changes nothing, and multicasts them to all rows in the
   activation type.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import gcd
from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps, Operand
from wse.compiler.lowering.phase.context import Context
from wse.compiler.rewrites.rewrite import Rewrite, all_of, needs_float32_sums, needs_latent_attention
from wse.compiler.rewrites.steps import (
    address,
    compute_step,
    count,
    in_place,
    is_line,
    line_step,
    number,
    runs,
    with_operands,
)
from wse.compiler.symbolic import SymAddress, SymStep, fixed_number
from wse.program.steps import COLUMNS
from wse_mappings.patterns.gather import gather
from wse_mappings.patterns.k_tree import k_tree, root_of
from wse_mappings.patterns.multicast import multicast
from wse_mappings.schedule import Arrival


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Replace the all-reduce of one token's queries by sums per head, a gather and a multicast.

    The rewrite applies if each row of PEs computes the queries of only one head. The values of
    different heads are then collected instead of added up. The steps are modified in place.
    ``setting`` is not used.
    """
    for place in [step for step in block_steps.steps if runs(step, "place_rotated")]:
        index, segments = block_steps.steps.index(place), _rows_of_heads(c)
        if len(segments) == c.spec.head_count and _are_queries(block_steps.steps[index : index + 5]):
            block_steps.steps[index : index + 5] = _gather_steps(c, block_steps.steps[index : index + 5], segments)


def _rows_of_heads(c: Context) -> list[tuple[int, int]]:
    """Return which rows of PEs compute each attention head.

    Returns:
        (first row, number of rows) of each head; an empty list if a row computes several heads.
    """
    assert c.cut.latent is not None
    heads = c.cut.latent.heads
    if heads.shape[1] > 1:
        return []
    segments, first = [], 0
    for head, rows in groupby(heads[:, 0].tolist()):
        size = len(list(rows))
        segments += [(first, size)] * (head >= 0)
        first += size
    return segments


def _are_queries(steps: Sequence[SymStep]) -> bool:
    """Return whether five consecutive steps compute one token's queries in the usual way.

    These steps place, all-reduce, round and rotate the queries. The rewrite replaces them.
    """
    if len(steps) < 5 or any(step.loop >= 0 for step in steps):
        return False
    place, place_rest, line, store, rotate = steps
    if not (runs(place_rest, "place_heads") and is_line(line) and runs(store, "store") and runs(rotate, "rotate")):
        return False
    placed_queries, queries, q = address(place, "out"), address(line, "source"), address(store, "out")
    are_adjacent = address(place_rest, "out").buffer is placed_queries.buffer and queries == placed_queries == address(
        store, "x"
    )
    is_whole = in_place(line) and line.axis == COLUMNS and count(line, "elements") == count(store, "n")
    return are_adjacent and is_whole and address(rotate, "x") == q and (count(place, "M"), count(rotate, "M")) == (1, 1)


def _gather_steps(c: Context, query_steps: Sequence[SymStep], segments: Sequence[tuple[int, int]]) -> list[SymStep]:
    """Return the steps that collect the queries of all heads by a gather and a multicast.

    They replace an all-reduce over all rows.

    Args:
        c: Context of the phase being lowered.
        query_steps: The five steps to replace, which `_are_queries` recognises.
        segments: First row and number of rows of each head.
    """
    place, place_rest, line, store, rotate = query_steps
    (length, lines), H, R, C = c.lines(COLUMNS), count(place, "H"), count(place, "n"), count(place_rest, "n")
    absorbed, queries, q = address(place_rest, "x").buffer, address(line, "source").buffer, address(store, "out")
    head_queries, rotated = SymAddress(buffer=absorbed), SymAddress(buffer=absorbed, offset=C)
    c.temp(absorbed.name, C + R, absorbed.view, absorbed.use)
    rounded = c.temp("queries_of_head", C + R, "act")
    place_operands: dict[str, Operand] = {name: address(place, name) for name in ("x", "first", "feature_ordinals")}
    steps = [compute_step(place, "pick_rotated", **place_operands, out=rotated, Hl=1, K=count(place, "K"), n=R)]
    # 1. Add up the queries of a head.
    if any(rows > 1 for _, rows in segments):
        tree = c.patterns.get(k_tree, length, lines, Arrival.ADD, broadcast=False, segments=tuple(segments), groups=())
        steps.append(line_step(line, tree, COLUMNS, head_queries, fixed_number(C + R)))
    # 2. Round and rotate the row's own head.
    row_rotated = SymAddress(buffer=rounded, offset=C)
    steps += [
        compute_step(store, "store", out=SymAddress(buffer=rounded), x=head_queries, n=C + R),
        with_operands(rotate, x=row_rotated, H=fixed_number(1)),
    ]
    # 3. Gather all heads in the middle row: rotated features of all heads first, then the others.
    root, part = length // 2, gcd(R, C)
    owners = tuple(first + root_of(rows, ()) for n in (R, C) for first, rows in segments for _ in range(n // part))
    start = SymAddress(buffer=queries)
    for x, out, n in ((row_rotated, start, R), (SymAddress(buffer=rounded), address(place_rest, "out"), C)):
        steps.append(
            compute_step(place_rest, "set_heads", x=x, heads=address(place_rest, "heads"), out=out, H=H, Hl=1, n=n)
        )
    steps.append(
        line_step(line, c.patterns.get(gather, length, lines, owners, root), COLUMNS, start, number(line, "elements"))
    )
    # 4. Multicast to all rows.
    to_all = c.patterns.get(multicast, length, lines, root)
    return [*steps, store, line_step(line, to_all, COLUMNS, q, fixed_number(count(store, "n")))]


REWRITE: Final = Rewrite(
    name="query-gathers",
    summary="Queries of latent attention are gathered from the rows that compute and rotate them.",
    source="collectives of message passing (MPI_Gather and MPI_Bcast, MPI standard 4.1, chapter 6)",
    position=70,
    apply=_apply,
    invalid=all_of(needs_latent_attention, needs_float32_sums),
)

"""Pass 1: which layers each stage holds, on which wafer and in which band of its mesh, and how wide its region is.

Layers go to stages in order: to wafers, then to the bands of a wafer, then to the regions of a band, so that each has
as even a share of the bytes as whole layers allow. Regions of one band are as wide as their shares of it. The embedding
is with the first stage; the head is with the last, or with the embedding when they share their table, which is held
once. Experts that are spread over wafers have a stage of their own, the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from wse.compiler.options import MODEL, THIN_GEMM
from wse.compiler.passes.shares import shares
from wse.compiler.state import StagePlan, State
from wse.errors import BadMesh
from wse_mappings.cuts.contiguous import even_runs, proportional


class _Run(NamedTuple):
    """Units that follow each other in one region, and where that is."""

    wafer: int
    band: int
    first: int
    units: int
    cols: int
    span: int = 1


def partition(state: State) -> State:
    """Fill ``plans``. Raises BadMesh where the mesh has no room for the regions that were asked for."""
    options, spec = state.options, state.spec
    whole = options.scope == MODEL
    held = shares(spec, options)
    ahead = int(whole)  # units before the first layer: the embedding
    after = int(whole and not spec.tied_embedding)
    rows = _rows(state)
    runs = list(_runs(state, held, ahead, after))
    head_stage = 0 if spec.tied_embedding else len(runs) - 1
    plans = tuple(
        StagePlan(
            wafer=run.wafer,
            band=run.band,
            rows=rows,
            cols=run.cols,
            first_layer=max(0, run.first - ahead),
            last_layer=min(spec.layer_count, max(0, run.first + run.units - ahead)),
            has_embedding=whole and index == 0,
            has_head=whole and index == head_stage,
            span=run.span,
        )
        for index, run in enumerate(runs)
    )
    if options.experts_apart:
        end = spec.layer_count
        empty = replace(plans[0], first_layer=end, last_layer=end, has_embedding=False, has_head=False)
        plans += (replace(empty, span=options.wafers, experts=True),)
    return replace(state, plans=plans)


def _rows(state: State) -> int:
    region, mesh_rows, bands = state.options.region, state.wafer.mesh_rows, state.choice.bands
    rows = region[0] if region is not None else state.choice.rows or mesh_rows // bands
    if rows < 1 or rows * bands > mesh_rows:
        message = (
            f"region of {rows} rows: {bands} of them one below the other do not fit the {mesh_rows} rows of the mesh; "
            "choose a smaller --region or a larger --mesh"
        )
        raise BadMesh(message)
    return rows


def _runs(state: State, held: Sequence[float], ahead: int, after: int) -> Iterator[_Run]:
    """The units of every region, in order."""
    if state.options.across_wafers:
        yield _Run(0, 0, 0, len(held), _widths(state, [sum(held)])[0], state.options.wafers)
        return
    for wafer, first, count in _by_wafer(state, held, ahead, after):
        mine = held[first : first + count]
        for band, (start, units) in enumerate(even_runs(mine, min(state.choice.bands, count))):
            across = even_runs(mine[start : start + units], min(state.choice.per_band, units))
            sums = [sum(mine[start + at : start + at + n]) for at, n in across]
            for (at, n), cols in zip(across, _widths(state, sums), strict=True):
                yield _Run(wafer, band, first + start + at, n, cols)


def _by_wafer(state: State, held: Sequence[float], ahead: int, after: int) -> Iterator[tuple[int, int, int]]:
    """(wafer, first unit, units): each wafer has a layer at least, so what is around the layers goes with one."""
    inner = list(held[ahead : len(held) - after])
    inner[0] += sum(held[:ahead])
    inner[-1] += sum(held[len(held) - after :]) if after else 0.0
    last = state.options.wafers - 1
    for wafer, (start, count) in enumerate(even_runs(inner, state.options.wafers)):
        first = start + ahead if wafer else 0
        end = len(held) if wafer == last else start + count + ahead
        yield wafer, first, end - first


def _widths(state: State, sums: list[float]) -> list[int]:
    """Columns of the regions of a band: those asked for, the square that the product needs, or by share."""
    mesh_cols, region = state.wafer.mesh_cols, state.options.region
    fixed = region[1] if region is not None else _rows(state) if state.choice.prefill != THIN_GEMM else None
    if (1 if fixed is None else fixed) * len(sums) > mesh_cols:
        message = (
            f"region of {fixed or 1} columns: {len(sums)} of them side by side do not fit the {mesh_cols} columns of "
            "the mesh; choose a smaller --region or a larger --mesh"
        )
        raise BadMesh(message)
    return [fixed] * len(sums) if fixed is not None else proportional(sums, mesh_cols)

"""``bounds`` of a result: the cycles of a token beside their lower bounds, in all and by op, by layer and by stage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Final, TypeVar

import numpy as np
import numpy.typing as npt
from rich.text import Text

from wse.backends.fabric.bounds import BOUNDS, PhaseBounds
from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.model import Fabric, TokenClass
from wse.models.spec import Layer, ModelSpec
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, more_rows, number
from wse.reports.terminal import COLOURS, NARROW, bar, percent, short_number
from wse.studies.estimate.bounds.bound_row import BoundName, BoundRow
from wse.studies.estimate.bounds.gap import GapRow, gap_rows
from wse.studies.estimate.grades import SOURCES, Grades
from wse.studies.results.phases import CyclesBy

F64 = npt.NDArray[np.float64]
OUTSIDE = "outside the layers"

LIMITS: Final[dict[BoundName, str]] = {"sram": "SRAM", "arithmetic": "MACs", "hops": "hops", "crossing": "crossing"}
"""Headings of the columns of bounds."""
MOST_ROWS: Final = 16
"""Stages that are shown."""
Name = TypeVar("Name", str, int)


@dataclass(frozen=True, kw_only=True)
class BoundsResult(Result):
    """The mean decoded token, and the same by kind of op, by kind of layer and by stage, in the order of the ops."""

    token: Annotated[BoundRow, Doc("the whole token")]
    ops: Annotated[tuple[BoundRow, ...], Doc("by kind of op")]
    layers: Annotated[tuple[BoundRow, ...], Doc("by kind of layer")]
    stages: Annotated[tuple[BoundRow, ...], Doc("by stage")]
    gap: Annotated[tuple[GapRow, ...], Doc("what separates the token from its bound, the largest first")]


def bounds_result(fabric: Fabric, spec: ModelSpec, token_classes: Sequence[TokenClass], grades: Grades) -> BoundsResult:
    """Return the bounds of decoded tokens, of which those that cost the same come as one of ``token_classes``."""
    program, phase = fabric.program, fabric.program.decode
    bounds_of = PhaseBounds(program, fabric.wafer, fabric.software)
    tokens, like = sum(group.tokens for group in token_classes), fabric.shape_classes(phase)
    cycles, bounds = np.zeros((len(phase.steps), len(CAUSES))), np.zeros((len(phase.steps), len(BOUNDS)))
    for group in token_classes:
        cycles += group.cost.by_cause * group.tokens
        bounds += bounds_of.of(phase, group.slots, like) * group.tokens
    kinds = [_kind(layer) for layer in spec.layers]
    layer_of = [kinds[layer] if layer >= 0 else OUTSIDE for layer in program.op_layers]
    ops: list[int] = phase.steps.op.tolist()

    def rows(names: Iterable[Name]) -> Iterable[tuple[Name, BoundRow]]:
        steps_of: dict[Name, list[int]] = {}
        for step, name in enumerate(names):
            steps_of.setdefault(name, []).append(step)
        return ((name, _row(cycles[steps], bounds[steps], tokens, grades)) for name, steps in steps_of.items())

    by_op = rows(program.op_kinds[op] for op in ops)
    by_layer = rows(layer_of[op] for op in ops)
    by_stage = rows(int(stage) for stage in phase.steps.stage)
    token = _row(cycles, bounds, tokens, grades)
    kinds_of_op = tuple(replace(row, op=kind, count=program.op_kinds.count(kind)) for kind, row in by_op)
    return BoundsResult(
        token=token,
        gap=gap_rows(token, kinds_of_op),
        ops=kinds_of_op,
        layers=tuple(replace(row, layers=kind, count=kinds.count(kind)) for kind, row in by_layer),
        stages=tuple(replace(row, stage=stage, wafer=program.stages[stage].wafer) for stage, row in by_stage),
    )


def _row(cycles: F64, bounds: F64, tokens: int, grades: Grades) -> BoundRow:
    """The row of some steps, from their cycles ``[steps, causes]`` and bounds ``[steps, bounds]`` over all tokens."""
    by: CyclesBy = dict(zip(CAUSES, (cycles.sum(axis=0) / tokens).tolist(), strict=True))
    below: dict[BoundName, float] = dict(zip(BOUNDS, (bounds.sum(axis=0) / tokens).tolist(), strict=True))
    row = BoundRow(
        cycles=sum(by.values()), cycles_by=by, bounds=below, source=grades.source(by), sources=grades.shares(by)
    )
    limit = max(below, key=lambda bound: below[bound])
    if not below[limit]:
        return row
    grade = grades.of_bound(limit)
    ratio = row.cycles / below[limit]
    return replace(row, limit=limit, ratio=ratio, bound_grade=grade, bound_source=SOURCES[grade])


def _kind(layer: Layer) -> str:
    """Return the kind of a layer: its attention and its feed-forward block."""
    reach = f"window of {layer.window}" if layer.window else f"chunks of {layer.chunk}" if layer.chunk else "full"
    turned = "" if layer.rotary else ", not rotated"
    return f"{reach} attention{turned}, {'experts' if layer.experts else 'dense'}"


def token_table(bounds: BoundsResult, width: int) -> Table:
    """Return the bounds of each kind of op, and of the whole token."""
    sources = ", ".join(f"{percent(share)} {source}" for source, share in bounds.token.sources.items())
    return Table(
        columns=(Column(key="op", title="op", cell=_op), *_numbers(bounds, width)),
        rows=(*bounds.ops, bounds.token),
        title="What limits a token",
        note="cycles, and bounds that no software beats on this placement",
        footer=(("rests on", f"{sources} constants"),),
    )


def layer_and_stage_tables(bounds: BoundsResult, width: int) -> list[Table]:
    """Return the bounds of each kind of layer, and of the first ``MOST_ROWS`` stages."""
    layers = Column(key="layers", title="layers", cell=lambda row: f"{row.layers}{_times(row.count)}", wraps=True)
    stages = Column(key="stage", title="stage", cell=lambda row: f"{row.stage} on wafer {row.wafer}")
    numbers, footer = _numbers(bounds, width), more_rows(bounds.stages, MOST_ROWS)
    return [
        Table(columns=(layers, *numbers), rows=bounds.layers, title="By kind of layer"),
        Table(columns=(stages, *numbers), rows=bounds.stages[:MOST_ROWS], title="By stage", footer=footer),
    ]


def _numbers(bounds: BoundsResult, width: int) -> list[Column]:
    """Return the columns behind a row's name; those of bars and of measured constants on wide lines alone."""
    whole, wide = bounds.token.cycles, width >= NARROW
    share = Column(key="share", cell=lambda row: bar(row.cycles / whole, 8, "hops"), priority=9)
    measured = number("sources", "measured", lambda sources: percent(sources.get("measured", 0.0)))
    return [
        *([share] if wide else []),
        number("cycles", "cycles", short_number),
        *(number(key, title, cell=partial(_bound, key)) for key, title in LIMITS.items()),
        number("ratio", "ratio", lambda ratio: f"{ratio:.2f}"),
        Column(key="limit", title="limit", cell=_limit),
        *([measured] if wide else []),
    ]


def _times(count: int | None) -> str:
    return f" ×{count}" if count is not None and count > 1 else ""


def _op(row: BoundRow) -> str:
    return "whole token" if row.op is None else f"{row.op.replace('_', ' ')}{_times(row.count)}"


def _bound(bound: BoundName, row: BoundRow) -> Text:
    return Text(short_number(row.bounds[bound]), style=COLOURS["hops"] if bound == row.limit else "bright_black")


def _limit(row: BoundRow) -> str:
    return "none" if row.limit is None else f"{LIMITS[row.limit]} ({row.bound_grade})"

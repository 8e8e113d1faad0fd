"""``bounds`` of an estimate: a token's cycles and lower bounds, by op, layer and stage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import numpy as np
from rich.text import Text

from wse.arrays import F64
from wse.backends.fabric.causes import CAUSES
from wse.reports.number_text import percent, short_number
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, more_rows, number
from wse.reports.terminal import COLOURS, NARROW, bar
from wse.studies.estimate.bounds.gap import BoundName, BoundRow, GapRow, gap_rows
from wse.studies.estimate.grades import SOURCES

if TYPE_CHECKING:
    from wse.backends.fabric.model import Fabric
    from wse.backends.fabric.phase_cost import TokenClass
    from wse.models.spec import Layer, ModelSpec
    from wse.studies.estimate.grades import Grades
    from wse.studies.results.phases import CyclesBy

OUTSIDE = "outside the layers"

LIMITS: Final[dict[BoundName, str]] = {"sram": "SRAM", "arithmetic": "MACs", "hops": "hops", "crossing": "crossing"}
"""Column headings of the bounds."""
MAX_ROWS: Final = 16
"""Maximum number of stages to show."""
Name = TypeVar("Name", str, int)


class BoundsResult(Result):
    """Cycles to decode a token, compared with lower bounds.

    No software with the same placement needs fewer cycles than a lower bound. All numbers are
    averages over the decoded tokens. ``token`` is the row for the whole token. ``ops``, ``layers``
    and ``stages`` break its cycles down by op kind, layer kind and stage, in execution order.
    """

    token: Annotated[BoundRow, Doc("the whole token")]
    ops: Annotated[tuple[BoundRow, ...], Doc("one row for each kind of op")]
    layers: Annotated[tuple[BoundRow, ...], Doc("one row for each kind of layer")]
    stages: Annotated[tuple[BoundRow, ...], Doc("one row for each stage")]
    gap: Annotated[
        tuple[GapRow, ...], Doc("cycles of the token above its bound, one row for each cause, largest first")
    ]


def bounds_result(fabric: Fabric, spec: ModelSpec, token_classes: Sequence[TokenClass], grades: Grades) -> BoundsResult:
    """Compute the cycles spent on decoded tokens, and their lower bounds.

    1. Sum the cycles and bounds of each step over all tokens.
    2. Group the steps by op kind, by layer kind and by stage.

    Args:
        fabric: Timing model of the compiled Program.
        spec: Model.
        token_classes: Groups of decoded tokens with the same cost, each with its token count.
        grades: Evidence grades of the timing model's constants.
    """
    from wse.backends.fabric.bounds import BOUNDS, PhaseBounds  # slow to load, and not needed to read a result

    program, phase = fabric.program, fabric.program.decode
    bounds_of = PhaseBounds(program, fabric.wafer, fabric.software)
    tokens, shape_classes = sum(group.tokens for group in token_classes), fabric.shape_classes(phase)
    cycles, bounds = np.zeros((len(phase.steps), len(CAUSES))), np.zeros((len(phase.steps), len(BOUNDS)))
    # 1. Sums over all tokens, by step.
    for group in token_classes:
        cycles += group.cost.by_cause * group.tokens
        bounds += bounds_of.of(phase, group.slots, shape_classes) * group.tokens
    # 2. Rows for groups of steps.
    kinds = [_kind(layer) for layer in spec.layers]
    layer_of = [kinds[layer] if layer >= 0 else OUTSIDE for layer in program.op_layers]
    ops: list[int] = phase.steps.op.tolist()

    def rows(names: Iterable[Name]) -> Iterable[tuple[Name, BoundRow]]:
        """Yield (group name, row) for each group of steps, in order of first occurrence.

        Args:
            names: For each step, the name of its group.
        """
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
    """Create the row for a group of steps, with cycles and bounds per token.

    Args:
        cycles: Cycle count of each step by cause, summed over all tokens: [steps, causes].
        bounds: Lower bounds of each step, summed over all tokens: [steps, bounds].
        tokens: Number of tokens.
        grades: Evidence grades, which state how reliable each constant is.
    """
    from wse.backends.fabric.bounds import BOUNDS  # slow to load, and not needed to read a result

    cycles_by: CyclesBy = dict(zip(CAUSES, (cycles.sum(axis=0) / tokens).tolist(), strict=True))
    bound_cycles: dict[BoundName, float] = dict(zip(BOUNDS, (bounds.sum(axis=0) / tokens).tolist(), strict=True))
    row = BoundRow(
        cycles=sum(cycles_by.values()),
        cycles_by=cycles_by,
        bounds=bound_cycles,
        source=grades.source(cycles_by),
        sources=grades.shares(cycles_by),
    )
    limit = max(bound_cycles, key=lambda bound: bound_cycles[bound])
    if not bound_cycles[limit]:
        return row
    grade = grades.bound_grade(limit)
    ratio = row.cycles / bound_cycles[limit]
    return replace(row, limit=limit, ratio=ratio, bound_grade=grade, bound_source=SOURCES[grade])


def _kind(layer: Layer) -> str:
    """Describe the kind of a layer in words, such as "full attention, dense"."""
    block = "experts" if layer.experts else "dense"
    if layer.linear:
        return f"linear attention, {block}"
    reach = f"window of {layer.window}" if layer.window else f"chunks of {layer.chunk}" if layer.chunk else "full"
    rotation = "" if layer.rotary else ", not rotated"
    return f"{reach} attention{rotation}, {block}"


def token_table(bounds: BoundsResult, width: int) -> Table:
    """Return a table that compares a token's cycles with their lower bounds by op kind.

    The last row is for the whole token.

    Args:
        bounds: Bounds to show.
        width: Width of the terminal in characters.
    """
    sources = ", ".join(f"{percent(share)} {source}" for source, share in bounds.token.sources.items())
    return Table(
        columns=(Column(key="op", title="op", cell=_op), *_numbers(bounds, width)),
        rows=(*bounds.ops, bounds.token),
        title="What limits a token",
        note="cycles, and bounds that no software beats on this placement",
        footer=(("rests on", f"{sources} constants"),),
    )


def layer_and_stage_tables(bounds: BoundsResult, width: int) -> list[Table]:
    """Return two tables of cycles and lower bounds, one by layer kind and one by stage.

    Args:
        bounds: Bounds to show. The second table has at most ``MAX_ROWS`` stages.
        width: Width of the terminal in characters.
    """
    layers = Column(key="layers", title="layers", cell=lambda row: f"{row.layers}{_times(row.count)}", wraps=True)
    stages = Column(key="stage", title="stage", cell=lambda row: f"{row.stage} on wafer {row.wafer}")
    numbers, footer = _numbers(bounds, width), more_rows(bounds.stages, MAX_ROWS)
    return [
        Table(columns=(layers, *numbers), rows=bounds.layers, title="By kind of layer"),
        Table(columns=(stages, *numbers), rows=bounds.stages[:MAX_ROWS], title="By stage", footer=footer),
    ]


def _numbers(bounds: BoundsResult, width: int) -> list[Column]:
    """Return the table columns that compare cycles with their lower bounds.

    The caller adds a first column with the names of the rows. The columns are the cycles, each
    lower bound, the ratio of the cycles to the largest bound, and the name of this bound. Wide
    terminals also show a bar for the cycles, and the percentage of the cycles that is computed from
    measured constants.

    Args:
        bounds: Bounds to show.
        width: Width of the terminal in characters.
    """
    token_cycles, is_wide = bounds.token.cycles, width >= NARROW
    share = Column(key="share", cell=lambda row: bar(row.cycles / token_cycles, 8, "hops"), priority=9)
    measured_share = number("sources", "measured", lambda sources: percent(sources.get("measured", 0.0)))
    return [
        *([share] if is_wide else []),
        number("cycles", "cycles", short_number),
        *(number(key, title, cell=partial(_bound, key)) for key, title in LIMITS.items()),
        number("ratio", "ratio", lambda ratio: f"{ratio:.2f}"),
        Column(key="limit", title="limit", cell=_limit),
        *([measured_share] if is_wide else []),
    ]


def _times(count: int | None) -> str:
    """Format the number of ops or layers of a kind, such as `` ×32``; empty for one."""
    return f" ×{count}" if count is not None and count > 1 else ""


def _op(row: BoundRow) -> str:
    """Return the label of a row: "whole token", or the op kind and the number of such ops."""
    return "whole token" if row.op is None else f"{row.op.replace('_', ' ')}{_times(row.count)}"


def _bound(bound: BoundName, row: BoundRow) -> Text:
    """Format one of a row's lower bounds, in cycles. The row's largest bound is highlighted."""
    return Text(short_number(row.bounds[bound]), style=COLOURS["hops"] if bound == row.limit else "bright_black")


def _limit(row: BoundRow) -> str:
    """Return the name of a row's largest bound and its evidence grade, such as "hops (V)"."""
    return "none" if row.limit is None else f"{LIMITS[row.limit]} ({row.bound_grade})"

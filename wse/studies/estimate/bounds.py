"""``bounds`` of a report: for a whole token and for ops, layers and stages the estimate beside what limits it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from wse.fabric.bounds import BOUNDS, PhaseBounds
from wse.fabric.causes import CAUSES
from wse.fabric.model import AlikeTokens, Fabric
from wse.models.spec import Layer, ModelSpec
from wse.report.as_json import Report
from wse.studies.estimate.grades import SOURCES, Grades

F64 = npt.NDArray[np.float64]
OUTSIDE = "outside the layers"


def bound_facts(fabric: Fabric, spec: ModelSpec, alike: Sequence[AlikeTokens], grades: Grades) -> Report:
    """``bounds``: ``token``, and the same token by kind of op, by kind of layer and by stage, in the order of the ops.

    A row has the mean cycles of a decoded token, the bounds in cycles (`wse.fabric.bounds`), the one that limits, how
    many times it the estimate is, and what both rest on. A row without a bound, of ops that neither multiply nor
    send, has none of these.
    """
    program, phase = fabric.program, fabric.program.decode
    found = PhaseBounds(program, fabric.wafer, fabric.software)
    tokens, like = sum(each.tokens for each in alike), fabric.like_anywhere(phase)
    cycles, bounds = np.zeros((len(phase.steps), len(CAUSES))), np.zeros((len(phase.steps), len(BOUNDS)))
    for each in alike:
        cycles += each.cost.by_cause * each.tokens
        bounds += found.of(phase, each.slots, like) * each.tokens
    kinds = [_kind(layer) for layer in spec.layers]
    layer_of = [kinds[layer] if layer >= 0 else OUTSIDE for layer in program.op_layers]
    ops: list[int] = phase.steps.op.tolist()

    def rows(key: str, names: Iterable[str | int]) -> list[Report]:
        mine: dict[str | int, list[int]] = {}
        for step, name in enumerate(names):
            mine.setdefault(name, []).append(step)
        return [{key: name, **_row(cycles[steps], bounds[steps], tokens, grades)} for name, steps in mine.items()]

    by_op = rows("op", (program.op_kinds[op] for op in ops))
    by_layer = rows("layers", (layer_of[op] for op in ops))
    by_stage = rows("stage", phase.steps.stage.tolist())
    return {
        "token": _row(cycles, bounds, tokens, grades),
        "ops": [{**row, "count": program.op_kinds.count(row["op"])} for row in by_op],
        "layers": [{**row, "count": kinds.count(row["layers"])} for row in by_layer],
        "stages": [{**row, "wafer": program.stages[row["stage"]].wafer} for row in by_stage],
    }


def _row(cycles: F64, bounds: F64, tokens: int, grades: Grades) -> Report:
    """Of some steps, ``[steps, causes]`` and ``[steps, bounds]`` over all tokens."""
    by = dict(zip(CAUSES, (cycles.sum(axis=0) / tokens).tolist(), strict=True))
    below = dict(zip(BOUNDS, (bounds.sum(axis=0) / tokens).tolist(), strict=True))
    row: Report = {
        "cycles": sum(by.values()),
        "cycles_by": by,
        "bounds": below,
        "source": grades.source(by),
        "sources": grades.shares(by),
    }
    limit = max(below, key=lambda bound: below[bound])
    if below[limit]:
        row["limit"] = limit
        row["ratio"] = row["cycles"] / below[limit]
        row["bound_grade"] = grades.of_bound(limit)
        row["bound_source"] = SOURCES[grades.of_bound(limit)]
    return row


def _kind(layer: Layer) -> str:
    """What tells a layer from those of another kind."""
    reach = f"window of {layer.window}" if layer.window else f"chunks of {layer.chunk}" if layer.chunk else "full"
    turned = "" if layer.rotary else ", not rotated"
    return f"{reach} attention{turned}, {'experts' if layer.experts else 'dense'}"

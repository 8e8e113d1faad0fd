"""Equal ops and steps told once are those that a plain loop finds to be equal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import pytest

from tests.inspect.query.plain import executed_steps
from tests.inspect.runs import STORY
from wse.tracing.query.costs.folds import CAUSE_COLUMNS, fold_steps
from wse.tracing.query.costs.kinds import EqualOps, read_kinds
from wse.tracing.query.costs.step_sums import StepSums
from wse_traces.reader.read import Trace, open_trace
from wse_traces.schema import CAUSES


@pytest.fixture
def trace(path: Path) -> Iterator[Trace]:
    with open_trace(path) as trace:
        yield trace


@pytest.fixture(scope="module")
def plain_ops(path: Path) -> dict[tuple[str, str, tuple[int, ...]], list[int]]:
    """The layers of the ops of one phase, name within the layer and cycles by cause."""
    by_op: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0] * len(CAUSES))
    busy = set()
    with h5py.File(path) as file:
        layers = dict(zip(file["graph/ops/name"].asstr()[()], file["graph/ops/layer"][()].tolist(), strict=True))
    for step in executed_steps(path):
        key = step["phase"], step["op"], layers.get(step["op"], -1)
        by_op[key] = [had + more for had, more in zip(by_op[key], step["cycles_by"], strict=True)]
        if step["cycles"] or step["words"]:
            busy.add(key)
    folds = defaultdict(list)
    for (phase, op, layer), causes in by_op.items():
        if (phase, op, layer) in busy:
            folds[phase, op.split(".", 2)[-1] if layer >= 0 else op, tuple(causes)].append(layer)
    return folds


def test_equal_ops_are_told_once(plain_ops: dict[tuple[str, str, tuple[int, ...]], list[int]], trace: Trace) -> None:
    folds = [
        (phase, fold) for phase, kinds in read_kinds(StepSums(trace)).items() for kind in kinds for fold in kind.ops
    ]
    found = {
        (phase, fold.op, tuple(cycles // fold.count for cycles in fold.cycles_by.values())): fold
        for phase, fold in folds
    }
    assert len(folds) == len(found) == len(plain_ops)
    for key, layers in plain_ops.items():
        assert found[key].count == len(layers)
        assert tuple(found[key].cycles_by.values()) == tuple(len(layers) * cycles for cycles in key[-1])
        assert told(found[key]) == sorted({layer for layer in layers if layer >= 0})


def test_equal_steps_are_told_once(trace: Trace) -> None:
    sums = StepSums(trace)
    folded, layers = fold_steps(sums)
    names, kinds = ops_of(trace)
    folds = defaultdict(list)
    for row in range(len(sums.steps["op"])):
        step = {name: int(column[row]) for name, column in sums.steps.items()}
        causes = tuple(step[name] for name in CAUSE_COLUMNS)
        key = step["phase"], names[step["op"]], kinds[step["op"]], step["kind"], step["name"], step["times"], causes
        folds[key].append(step)
    assert len(folds) == len(layers) == len(folded["count"])
    for at, steps in enumerate(folds.values()):  # both in the order of their first steps
        row = {name: int(column[at]) for name, column in folded.items()}
        assert row["count"] == len(steps)
        for name in ("times", "cycles", "words", "hops", *CAUSE_COLUMNS):
            assert row[name] == sum(step[name] for step in steps)
        first = min(steps, key=lambda step: step["start_cycle"])
        for name in ("start_cycle", "layer", "stage", "wafer", "row", "col", "rows", "cols"):
            assert row[name] == first[name]
        numbers = [number for low, high in layers[at] for number in range(low, high + 1)]
        assert numbers == sorted({step["layer"] for step in steps if step["layer"] >= 0})


def test_one_cycle_in_another_cause_is_another_row(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    path.write_bytes(STORY.read_bytes())
    assert [told(fold) for fold in ops_named(path, "gate_up")] == [[0, 1, 2, 3, 4]]
    with h5py.File(path, "r+") as file:
        op = file["graph/ops/name"][()].tolist().index(b"layers.3.gate_up")
        rows = (file["steps/op"][()] == op).nonzero()[0]
        causes = file["steps/cycles_by"][rows[-1]]
        causes[CAUSES.index("launch")] += 1
        causes[CAUSES.index("compute")] -= 1
        file["steps/cycles_by"][rows[-1]] = causes
    alone, rest = sorted(ops_named(path, "gate_up"), key=lambda fold: fold.count)
    assert (told(alone), told(rest)) == ([3], [0, 1, 2, 4])


def ops_named(path: Path, name: str) -> list[EqualOps]:
    with open_trace(path) as trace:
        return [fold for kind in read_kinds(StepSums(trace))["decode"] for fold in kind.ops if fold.op == name]


def ops_of(trace: Trace) -> tuple[list[str], list[str]]:
    """Names within layers and kinds of all ops, and of none at the end."""
    ops: list[dict[str, Any]] = trace.records("op")
    names = [op["name"].split(".", 2)[-1] if op["layer"] >= 0 else op["name"] for op in ops]
    return [*names, ""], [*(op["kind"] for op in ops), ""]


def told(fold: EqualOps) -> list[int]:
    return [layer for first, last in fold.layers for layer in range(first, last + 1)]

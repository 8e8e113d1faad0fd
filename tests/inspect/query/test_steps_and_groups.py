"""Tests of the tables of steps and groups, with and without merged equal rows, against a plain loop over all steps."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inspect.query.plain import executed_steps, totals
from tests.inspect.runs import STORY, inspect
from tests.traces.conftest import write
from wse.errors import BadTrace
from wse.tracing.query.costs.folds import CAUSE_COLUMNS, fold_steps
from wse.tracing.query.costs.kinds import EqualOps, read_kinds
from wse.tracing.query.costs.step_sums import StepSums
from wse.tracing.query.costs.steps import ORDERS
from wse.tracing.query.request import inspect_trace
from wse.tracing.requests import InspectRequest
from wse_traces.reader.groups import distinct_rows
from wse_traces.reader.read import Trace, open_trace
from wse_traces.schema import CAUSES, TABLES

SUMS = ("cycles", "words", "hops")


@pytest.fixture(scope="module")
def plain_steps(path: Path) -> list[dict[str, Any]]:
    return executed_steps(path)


def groups(path: Path, by: str, **more: Any) -> list[dict[str, Any]]:
    """Return the groups of a trace; equal ops and layers are not merged. ``more`` are options of the request."""
    request = InspectRequest(trace=path, by=by, each_layer=by not in ("token", "wafer"), **more)
    found: list[dict[str, Any]] = inspect_trace(request).to_dict()["groups"]
    return found


@pytest.mark.parametrize("by", ["op", "layer", "wafer"])
def test_groups_of_steps_equal_plain_sums(path: Path, plain_steps: list[dict[str, Any]], by: str) -> None:
    rows = groups(path, by)
    expected = totals(plain_steps, lambda step: (step["phase"], step[by]), *SUMS)
    assert {(row["phase"], row[by]): tuple(row[name] for name in SUMS) for row in rows} == {
        key: sums for key, sums in expected.items() if any(sums)
    }
    in_phase = totals(plain_steps, lambda step: step["phase"], "cycles")
    passes = {phase: len({step["pass"] for step in plain_steps if step["phase"] == phase}) for phase in in_phase}
    for row in rows:
        members = [step for step in plain_steps if (step["phase"], step[by]) == (row["phase"], row[by])]
        causes = np.sum([step["cycles_by"] for step in members], axis=0)
        assert causes[CAUSES.index(row["mostly"])] == causes.max()
        assert row["fraction"] == pytest.approx(row["cycles"] / in_phase[row["phase"]][0])
        assert row["cycles_per_pass"] == pytest.approx(row["cycles"] / passes[row["phase"]])
    for phase in in_phase:
        cycles = [row["cycles"] for row in rows if row["phase"] == phase]
        assert cycles == sorted(cycles, reverse=True)


@pytest.mark.parametrize("each_layer", [True, False])
def test_groups_of_causes_equal_plain_sums(path: Path, plain_steps: list[dict[str, Any]], each_layer: bool) -> None:  # noqa: FBT001
    rows = {(row["phase"], row["cause"]): row for row in inspect(path, by="cause", each_layer=each_layer)["groups"]}
    totals_of = {}
    for phase, (index, cause) in itertools.product(("prefill", "decode"), enumerate(CAUSES)):
        cycles_of_op: Counter[str] = Counter()
        for step in plain_steps:
            if step["phase"] == phase:
                cycles_of_op[step["op"] if each_layer else step["op"].split(".")[-1]] += step["cycles_by"][index]
        if total := cycles_of_op.total():
            totals_of[phase, cause] = total
            row = rows[phase, cause]
            assert cycles_of_op[row["most_in"]] == max(cycles_of_op.values())
            assert row["most_fraction"] == pytest.approx(max(cycles_of_op.values()) / total)
    assert {key: row["cycles"] for key, row in rows.items()} == totals_of


def test_groups_of_tokens_equal_plain_sums(path: Path, plain_steps: list[dict[str, Any]]) -> None:
    rows = groups(path, "token")
    expected = totals(plain_steps, lambda step: step["pass"], "words", "hops")
    assert {row["pass"]: (row["words"], row["hops"]) for row in rows} == expected
    with h5py.File(path) as file:
        pass_of_token = file["tokens/pass"][()].tolist()
        duration = file["schedules/cycles"][()][file["passes/schedule"][()]].tolist()
    for row in rows:
        assert row["tokens"] == pass_of_token.count(row["pass"])
        assert row["token"] == pass_of_token.index(row["pass"])
        assert row["cycles"] == duration[row["pass"]]
    for phase in ("prefill", "decode"):
        assert sum(row["fraction"] for row in rows if row["phase"] == phase) == pytest.approx(1)


def test_groups_by_token_refuse_too_many_passes(tmp_path: Path) -> None:
    path = write(tmp_path / "t.h5")
    with h5py.File(path, "r+") as file:
        file["run/rows"][list(TABLES).index("pass")] = 1 << 21
        for column in file["passes"].values():
            column.resize(1 << 21, axis=0)
    with pytest.raises(BadTrace, match="2,097,152 passes, at most 1,048,576 are listed by token; use --by op"):
        groups(path, "token")


@pytest.mark.parametrize(
    ("order", "each_layer"), [("start", True), *((order, i % 2 > 0) for i, order in enumerate(sorted(ORDERS)))]
)
def test_steps_are_complete_and_sorted_in_every_order(
    path: Path,
    plain_steps: list[dict[str, Any]],
    order: str,
    each_layer: bool,  # noqa: FBT001
) -> None:
    request = InspectRequest(trace=path, steps=True, sort=order, top=10**6, each_layer=each_layer)
    steps = inspect_trace(request).to_dict()["steps"]
    in_phase = totals(plain_steps, lambda step: step["phase"], "cycles")
    for step in steps:
        assert step["fraction"] == pytest.approx(step["cycles"] / in_phase[step["phase"]][0])
    assert sum(step["times"] for step in steps) == len(plain_steps)
    for name in SUMS:
        assert sum(step[name] for step in steps) == sum(step[name] for step in plain_steps)
    if order == "start":
        values = [step["start_cycle"] for step in steps]
        assert values == sorted(values)
        if not each_layer:
            return
        first = {}
        for step in plain_steps:
            key = step["phase"], step["op"], step["stage"], step["layer"], step["wafer"]
            first[key] = min(step["start_cycle"], first.get(key, step["start_cycle"]))
        found = {}
        for step in steps:
            key = step["phase"], step["op"], step["stage"], step["layer"], step["wafer"]
            found[key] = min(step["start_cycle"], found.get(key, step["start_cycle"]))
        assert found == first
        return
    cause = order.removesuffix("-cycles")
    values = [step[order] if order in SUMS else step["cycles_by"][cause] for step in steps]
    assert values == sorted(values, reverse=True)
    few = inspect_trace(replace(request, top=3)).to_dict()["steps"]
    assert few == steps[:3]


def test_groups_of_kinds_are_sums_of_their_ops(path: Path) -> None:
    ops = groups(path, "op")
    for group in inspect(path, by="kind")["groups"]:
        members = [op for op in ops if (op["phase"], op.get("kind", "")) == (group["phase"], group["kind"])]
        assert group["count"] == len(members)
        layers = [layer for first, last in group["layers"] for layer in range(first, last + 1)]
        assert layers == sorted({op["layer"] for op in members if op["layer"] >= 0})
        for name in (*SUMS, "fraction"):
            assert group[name] == pytest.approx(sum(op[name] for op in members))


@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.lists(st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1)), min_size=width, max_size=width),
            max_size=12,
        ).map(lambda rows: (width, rows))
    )
)
def test_distinct_rows_equal_those_of_a_set(width_and_rows: tuple[int, list[list[int]]]) -> None:
    width, rows = width_and_rows
    table = np.array(rows, np.int64).reshape(-1, width)
    found, row_index = distinct_rows(list(table.T))
    assert [tuple(row) for row in found.tolist()] == sorted({tuple(row) for row in rows})
    assert (found[row_index] == table).all()


def test_top_selects_the_first_groups_of_each_phase(path: Path) -> None:
    all_groups, top_groups = groups(path, "op"), groups(path, "op", top=2)
    for phase in ("prefill", "decode"):
        assert [row for row in top_groups if row["phase"] == phase] == [
            row for row in all_groups if row["phase"] == phase
        ][:2]
    assert groups(path, "op", top=0) == []


@pytest.fixture
def trace(path: Path) -> Iterator[Trace]:
    with open_trace(path) as trace:
        yield trace


@pytest.fixture(scope="module")
def plain_ops(path: Path) -> dict[tuple[str, str, tuple[int, ...]], list[int]]:
    """Return the layers of equal ops by (phase, name of the op within its layer, cycles by cause)."""
    by_op: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0] * len(CAUSES))
    busy = set()
    with h5py.File(path) as file:
        layers = dict(zip(file["graph/ops/name"].asstr()[()], file["graph/ops/layer"][()].tolist(), strict=True))
    for step in executed_steps(path):
        key = step["phase"], step["op"], layers.get(step["op"], -1)
        by_op[key] = [sum_so_far + cycles for sum_so_far, cycles in zip(by_op[key], step["cycles_by"], strict=True)]
        if step["cycles"] or step["words"]:
            busy.add(key)
    folds = defaultdict(list)
    for (phase, op, layer), causes in by_op.items():
        if (phase, op, layer) in busy:
            folds[phase, op.split(".", 2)[-1] if layer >= 0 else op, tuple(causes)].append(layer)
    return folds


def test_equal_ops_are_one_row(plain_ops: dict[tuple[str, str, tuple[int, ...]], list[int]], trace: Trace) -> None:
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
        assert layers_of_fold(found[key]) == sorted({layer for layer in layers if layer >= 0})


def test_equal_steps_are_one_row(trace: Trace) -> None:
    sums = StepSums(trace)
    folded, layers = fold_steps(sums)
    names, kinds = names_and_kinds_of_ops(trace)
    folds = defaultdict(list)
    for row in range(len(sums.steps["op"])):
        step = {name: int(column[row]) for name, column in sums.steps.items()}
        causes = tuple(step[name] for name in CAUSE_COLUMNS)
        key = step["phase"], names[step["op"]], kinds[step["op"]], step["kind"], step["name"], step["times"], causes
        folds[key].append(step)
    assert len(folds) == len(layers) == len(folded["count"])
    for index, steps in enumerate(folds.values()):  # both are in the order of their first steps
        row = {name: int(column[index]) for name, column in folded.items()}
        assert row["count"] == len(steps)
        for name in ("times", "cycles", "words", "hops", *CAUSE_COLUMNS):
            assert row[name] == sum(step[name] for step in steps)
        first = min(steps, key=lambda step: step["start_cycle"])
        for name in ("start_cycle", "layer", "stage", "wafer", "row", "col", "rows", "cols"):
            assert row[name] == first[name]
        numbers = [number for low, high in layers[index] for number in range(low, high + 1)]
        assert numbers == sorted({step["layer"] for step in steps if step["layer"] >= 0})


def test_ops_that_differ_in_one_cycle_are_separate_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    path.write_bytes(STORY.read_bytes())
    assert [layers_of_fold(fold) for fold in equal_ops_named(path, "gate_up")] == [[0, 1, 2, 3, 4]]
    with h5py.File(path, "r+") as file:
        op = file["graph/ops/name"][()].tolist().index(b"layers.3.gate_up")
        rows = (file["steps/op"][()] == op).nonzero()[0]
        causes = file["steps/cycles_by"][rows[-1]]
        causes[CAUSES.index("launch")] += 1
        causes[CAUSES.index("compute")] -= 1
        file["steps/cycles_by"][rows[-1]] = causes
    changed, others = sorted(equal_ops_named(path, "gate_up"), key=lambda fold: fold.count)
    assert (layers_of_fold(changed), layers_of_fold(others)) == ([3], [0, 1, 2, 4])


def equal_ops_named(path: Path, name: str) -> list[EqualOps]:
    """Return the merged decode ops with a name, which is the name within the layer."""
    with open_trace(path) as trace:
        return [fold for kind in read_kinds(StepSums(trace))["decode"] for fold in kind.ops if fold.op == name]


def names_and_kinds_of_ops(trace: Trace) -> tuple[list[str], list[str]]:
    """Return the names (within the layer) and the kinds of all ops; the last element of each is "", for no op."""
    ops: list[dict[str, Any]] = trace.records("op")
    names = [op["name"].split(".", 2)[-1] if op["layer"] >= 0 else op["name"] for op in ops]
    return [*names, ""], [*(op["kind"] for op in ops), ""]


def layers_of_fold(fold: EqualOps) -> list[int]:
    """Return all layers of merged ops, from their ranges of layers."""
    return [layer for first, last in fold.layers for layer in range(first, last + 1)]

"""Tests of the totals, tokens and tensors of a trace, and of the differences between two traces."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import ml_dtypes
import numpy as np
import pytest

from tests.inspect.query.plain import executed_steps, totals
from tests.inspect.runs import STORY, TWO_WAFERS, TracedRun, inspect, traced_run
from tests.traces.conftest import GENERATED, HEADER, PROMPT, TEXTS, write
from wse_traces import Token, TraceWriter


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> TracedRun:
    """Run the tiny model on two wafers and write its trace."""
    folder = tmp_path_factory.mktemp("traced")
    return traced_run(folder, prompt_ids=(1, 2, 3), wafers=2, mesh="3x3", new_tokens=9)


def test_totals_equal_those_of_the_run(traced: TracedRun) -> None:
    _, report, path = traced
    facts = inspect(path)
    assert facts["complete"]
    assert facts["report"] == json.loads(json.dumps(report))
    assert facts["prompt_tokens"] == 3
    assert facts["generated_tokens"] == len(report["tokens"])
    assert facts["prefill"]["cycles"] == report["prefill"]["cycles"]
    assert facts["decode"]["cycles_by"] == pytest.approx(report["decode"]["cycles_by"])
    assert facts["decode"]["cycles_per_pass"] == pytest.approx(report["decode"]["cycles_per_token"])
    assert facts["decode"]["wavelet_hops_per_pass"] == pytest.approx(report["fabric"]["wavelet_hops_per_token"])
    assert report["sram"]["bytes_per_pe"] in facts["sram"]["stages"]


def test_tree_counts_every_cycle_once(traced: TracedRun) -> None:
    facts = inspect(traced.path)
    assert sum(node["decode"] for node in facts["tree"]) == pytest.approx(facts["decode"]["cycles_per_pass"])
    assert [node["layer"] for node in facts["tree"]] == [-1, 0, 1, -1]
    for node in facts["tree"]:
        assert node["decode"] == pytest.approx(sum(op["decode"] for op in node["ops"]))


def test_tokens_are_listed_in_order(tmp_path: Path) -> None:
    path = write(tmp_path / "t.h5")
    rows = inspect(path, tokens=True)["tokens"]
    assert len(rows) == PROMPT + GENERATED
    with h5py.File(path) as file:
        columns = {name: file[f"tokens/{name}"][()].tolist() for name in ("id", "pass", "cycles", "wall_s", "position")}
    for index, row in enumerate(rows):
        assert {name: row[name] for name in columns} == {name: column[index] for name, column in columns.items()}
        assert row["text"] == TEXTS[index % len(TEXTS)]
        assert row["of"] == ("prompt" if index < PROMPT else "generated")
        assert row["s"] == pytest.approx(row["cycles"] / HEADER.clock_hz)


def test_tokens_without_ids_have_neither_ids_nor_texts(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.h5", HEADER) as writer:
        writer.append_tokens(Token(token_id=-1, text=b"", is_prompt=False, pass_index=-1, position=0, cycles=9))
    (row,) = inspect(tmp_path / "t.h5", tokens=True)["tokens"]
    assert {"id", "text"}.isdisjoint(row)
    assert row["cycles"] == 9


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16", "int32", "uint8"])
def test_tensors_are_summarised(tmp_path: Path, dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    values = np.arange(1, 13).reshape(3, 4).astype(kind)
    with TraceWriter(tmp_path / "t.h5", HEADER) as writer:
        writer.append("op", {"name": ["mlp"], "kind": ["b"], "layer": [0], "stage": [-1]})
        writer.append_tensor(values, pass_index=3, op=0)
        writer.append_tensor(values[0], pass_index=4, op=7)
    first, second = inspect(tmp_path / "t.h5", tensors=True)["tensors"]
    expected = {"shape": [3, 4], "dtype": dtype, "bytes": 12 * kind.itemsize, "min": 1.0, "max": 12.0, "mean": 6.5}
    assert first == {"tensor": 0, "op": "mlp", "pass": 3, **expected, "nonfinite": 0}
    assert (second["op"], second["shape"], second["mean"]) == ("", [4], 2.5)


def test_values_that_are_not_finite_are_counted(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.h5", HEADER) as writer:
        writer.append_tensor(np.array([np.nan, np.inf, -2.0, 4.0]), pass_index=0, op=0)
        writer.append_tensor(np.array([-np.inf]), pass_index=0, op=0)
        writer.append_tensor(np.zeros(0), pass_index=0, op=0)
    first, second, empty = inspect(tmp_path / "t.h5", tensors=True)["tensors"]
    assert (first["min"], first["max"], first["mean"], first["nonfinite"]) == (-2.0, 4.0, 1.0, 2)
    assert (second.get("min"), second["nonfinite"]) == (None, 1)
    assert (empty.get("mean"), empty["nonfinite"]) == (None, 0)


def test_top_selects_the_slowest_tokens(tmp_path: Path) -> None:
    path = write(tmp_path / "t.h5")
    all_tokens = inspect(path, tokens=True)["tokens"]
    slowest = inspect(path, tokens=True, top=4)["tokens"]
    assert [row["cycles"] for row in slowest] == sorted((row["cycles"] for row in all_tokens), reverse=True)[:4]
    assert all(row in all_tokens for row in slowest)


def diff(first: Path, second: Path, *, each_layer: bool = False) -> dict[str, Any]:
    return inspect(first, diff=second, each_layer=each_layer)


def test_changes_equal_plain_sums() -> None:
    found = diff(STORY, TWO_WAFERS, each_layer=True)
    for phase in ("prefill", "decode"):
        rows = found["changes"][phase]
        sides = []
        for path in (STORY, TWO_WAFERS):
            steps = [step for step in executed_steps(path) if step["phase"] == phase]
            pass_count = 1 if phase == "prefill" else len({step["pass"] for step in steps})
            by_op = totals(steps, lambda step: step["op"], "cycles")
            sides.append({op: cycles / pass_count for op, (cycles,) in by_op.items()})
        ops = {row["name"]: row for row in rows if row["kind"] == "op"}
        assert set(ops) == {op for op in {*sides[0], *sides[1]} if sides[0].get(op) != sides[1].get(op)}
        for op, row in ops.items():
            assert (row["first"], row["second"]) == pytest.approx((sides[0].get(op, 0), sides[1].get(op, 0)))
            assert row["change"] == pytest.approx(row["second"] - row["first"])
            assert row["fraction"] == pytest.approx(row["change"] / row["first"])
        (total,) = (row for row in rows if row["kind"] == "all")
        for kind in ("cause", "kind of op", "layer", "op"):
            changes = [row["change"] for row in rows if row["kind"] == kind]
            assert sum(changes) == pytest.approx(total["change"])
            assert [abs(change) for change in changes] == sorted(map(abs, changes), reverse=True)
        folded = [row for row in diff(STORY, TWO_WAFERS)["changes"][phase] if row["kind"] == "op"]
        assert sum(row["change"] for row in folded) == pytest.approx(total["change"])
        assert sum(row.get("count", 1) for row in folded) == len(ops) > len(folded)


def test_diff_lists_settings_and_sram() -> None:
    found = diff(STORY, TWO_WAFERS)
    settings = {row["name"]: (row["first"], row["second"]) for row in found["settings"]}
    assert settings["mapping"] == ("region", "pipeline")
    assert settings["wafers"] == (1, 2)
    assert settings["decode passes"] == (5, 2)
    assert {"model", "option dtype", "option software"}.isdisjoint(settings)
    sram = {row["name"]: row for row in found["sram"]}
    assert sum(row["change"] for row in sram.values()) == 0
    assert sram["kv"]["unit"] == "B"
    assert sram["kv"]["fraction"] == pytest.approx(0.2)
    assert not found["same_program"]
    assert found["only"] == {"first": [], "second": []}


def test_diff_lists_what_only_one_trace_has(tmp_path: Path) -> None:
    other = write(tmp_path / "t.h5", replace(HEADER, options={"prompt": "Once", "new": {"a": [1]}}))
    found = diff(other, STORY)
    assert found["only"]["first"] == sorted(["embed", "mlp", "é"])
    assert "layers.0.qkv" in found["only"]["second"]
    settings = {row["name"]: row for row in found["settings"]}
    assert settings["option new"] == {"name": "option new", "first": {"a": [1]}}
    assert settings["option dtype"] == {"name": "option dtype", "second": "float16"}
    rows = {row["name"]: row for row in found["changes"]["decode"] if row["kind"] == "op"}
    assert (rows["mlp"]["only_in"], rows["mlp"]["second"]) == ("first", 0)
    assert (rows["head"]["only_in"], rows["head"]["first"]) == ("second", 0)
    assert "fraction" not in rows["head"]

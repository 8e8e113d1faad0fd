"""Two traces side by side: what differs adds up to the whole, and everything else is left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.inspect.query.plain import executed_steps, totals
from tests.inspect.runs import STORY as ONE
from tests.inspect.runs import TWO_WAFERS as TWO
from tests.inspect.runs import inspect
from tests.traces.conftest import HEADER, write


def diff(first: Path, second: Path, *, each_layer: bool = False) -> dict[str, Any]:
    return inspect(first, diff=second, each_layer=each_layer)


def test_changes_are_those_of_a_plain_count() -> None:
    found = diff(ONE, TWO, each_layer=True)
    for phase in ("prefill", "decode"):
        rows = found["changes"][phase]
        sides = []
        for path in (ONE, TWO):
            mine = [step for step in executed_steps(path) if step["phase"] == phase]
            share_out = 1 if phase == "prefill" else len({step["pass"] for step in mine})
            by_op = totals(mine, lambda step: step["op"], "cycles")
            sides.append({op: cycles / share_out for op, (cycles,) in by_op.items()})
        ops = {row["name"]: row for row in rows if row["kind"] == "op"}
        assert set(ops) == {op for op in {*sides[0], *sides[1]} if sides[0].get(op) != sides[1].get(op)}
        for op, row in ops.items():
            assert (row["first"], row["second"]) == pytest.approx((sides[0].get(op, 0), sides[1].get(op, 0)))
            assert row["change"] == pytest.approx(row["second"] - row["first"])
            assert row["fraction"] == pytest.approx(row["change"] / row["first"])
        (whole,) = (row for row in rows if row["kind"] == "all")
        for kind in ("cause", "kind of op", "layer", "op"):
            changes = [row["change"] for row in rows if row["kind"] == kind]
            assert sum(changes) == pytest.approx(whole["change"])
            assert [abs(change) for change in changes] == sorted(map(abs, changes), reverse=True)
        folded = [row for row in diff(ONE, TWO)["changes"][phase] if row["kind"] == "op"]
        assert sum(row["change"] for row in folded) == pytest.approx(whole["change"])
        assert sum(row.get("count", 1) for row in folded) == len(ops) > len(folded)


def test_settings_and_sram() -> None:
    found = diff(ONE, TWO)
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


def test_what_only_one_has(tmp_path: Path) -> None:
    other = write(tmp_path / "t.h5", replace(HEADER, options={"prompt": "Once", "new": {"a": [1]}}))
    found = diff(other, ONE)
    assert found["only"]["first"] == sorted(["embed", "mlp", "é"])
    assert "layers.0.qkv" in found["only"]["second"]
    settings = {row["name"]: row for row in found["settings"]}
    assert settings["option new"] == {"name": "option new", "first": {"a": [1]}}
    assert settings["option dtype"] == {"name": "option dtype", "second": "float16"}
    rows = {row["name"]: row for row in found["changes"]["decode"] if row["kind"] == "op"}
    assert (rows["mlp"]["only_in"], rows["mlp"]["second"]) == ("first", 0)
    assert (rows["head"]["only_in"], rows["head"]["first"]) == ("second", 0)
    assert "fraction" not in rows["head"]

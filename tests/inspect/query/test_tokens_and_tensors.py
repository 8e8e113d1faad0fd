"""Tokens and tensors of a trace, one row each."""

from __future__ import annotations

from pathlib import Path

import h5py
import ml_dtypes
import numpy as np
import pytest

from tests.inspect.runs import inspect
from tests.traces.conftest import GENERATED, HEADER, PROMPT, TEXTS, write
from wse_traces import Token, TraceWriter


def test_every_token_in_order(tmp_path: Path) -> None:
    path = write(tmp_path / "t.h5")
    rows = inspect(path, tokens=True)["tokens"]
    assert len(rows) == PROMPT + GENERATED
    with h5py.File(path) as file:
        columns = {name: file[f"tokens/{name}"][()].tolist() for name in ("id", "pass", "cycles", "wall_s", "position")}
    for at, row in enumerate(rows):
        assert {name: row[name] for name in columns} == {name: column[at] for name, column in columns.items()}
        assert row["text"] == TEXTS[at % len(TEXTS)]
        assert row["of"] == ("prompt" if at < PROMPT else "generated")
        assert row["s"] == pytest.approx(row["cycles"] / HEADER.clock_hz)


def test_tokens_without_ids_have_neither_ids_nor_texts(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.h5", HEADER) as writer:
        writer.append_tokens(Token(token_id=-1, text=b"", is_prompt=False, pass_index=-1, position=0, cycles=9))
    (row,) = inspect(tmp_path / "t.h5", tokens=True)["tokens"]
    assert {"id", "text"}.isdisjoint(row)
    assert row["cycles"] == 9


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16", "int32", "uint8"])
def test_values_of_a_tensor(tmp_path: Path, dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    values = np.arange(1, 13).reshape(3, 4).astype(kind)
    with TraceWriter(tmp_path / "t.h5", HEADER) as writer:
        writer.append("op", {"name": ["mlp"], "kind": ["b"], "layer": [0], "stage": [-1]})
        writer.append_tensor(values, pass_index=3, op=0)
        writer.append_tensor(values[0], pass_index=4, op=7)
    first, second = inspect(tmp_path / "t.h5", tensors=True)["tensors"]
    want = {"shape": [3, 4], "dtype": dtype, "bytes": 12 * kind.itemsize, "min": 1.0, "max": 12.0, "mean": 6.5}
    assert first == {"tensor": 0, "op": "mlp", "pass": 3, **want, "nonfinite": 0}
    assert (second["op"], second["shape"], second["mean"]) == ("", [4], 2.5)


def test_what_is_not_finite_is_counted(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.h5", HEADER) as writer:
        writer.append_tensor(np.array([np.nan, np.inf, -2.0, 4.0]), pass_index=0, op=0)
        writer.append_tensor(np.array([-np.inf]), pass_index=0, op=0)
        writer.append_tensor(np.zeros(0), pass_index=0, op=0)
    first, second, empty = inspect(tmp_path / "t.h5", tensors=True)["tensors"]
    assert (first["min"], first["max"], first["mean"], first["nonfinite"]) == (-2.0, 4.0, 1.0, 2)
    assert (second.get("min"), second["nonfinite"]) == (None, 1)
    assert (empty.get("mean"), empty["nonfinite"]) == (None, 0)


def test_slowest_tokens(tmp_path: Path) -> None:
    path = write(tmp_path / "t.h5")
    every = inspect(path, tokens=True)["tokens"]
    slowest = inspect(path, tokens=True, top=4)["tokens"]
    assert [row["cycles"] for row in slowest] == sorted((row["cycles"] for row in every), reverse=True)[:4]
    assert all(row in every for row in slowest)

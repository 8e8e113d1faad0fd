"""Tests of ``wse run --record`` and ``--record-pe``: operation outputs and buffer contents in the trace."""

import csv
import io
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.cli.conftest import Wse
from tests.models.helpers import write_model
from wse.cli import main
from wse.tracing.query.places.contents import read_content
from wse_traces import open_trace, problems

OPTIONS = (
    "--prompt-ids",
    "3,5,7,9,11,13,15",
    "--mesh",
    "4x4",
    "--mapping",
    "region",
    "--new-tokens",
    "4",
    "--schedule",
    "baseline",
)
PES = "0,0+0,1+0,2+0,3+1,0+2,0+3,0"


def test_every_pass_has_the_requested_tensors(wse: Wse, tiny: Path) -> None:
    command = ("run", tiny, *OPTIONS, "--logits", "--json", "--trace", "t.h5")
    report = json.loads(wse(*command, "--record", "activations", "--record-pe", PES).out)
    assert problems("t.h5") == []
    with open_trace("t.h5") as trace:
        ops, kinds, layers = (trace.column(f"graph/ops/{name}") for name in ("name", "kind", "layer"))
        passes, op_indices = trace.column("tensors/pass"), trace.column("tensors/op")
        pairs = enumerate(zip(passes, op_indices, strict=True))
        recorded = {(int(p), ops[op].decode()): trace.tensor(i) for i, (p, op) in pairs}
        assert len(recorded) == len(passes)
        tokens = trace.column("tokens/pass")[trace.column("tokens/is_prompt") == 1]
        prompt, last = np.unique(tokens), int(tokens.max())
        of_all_chunks = {
            op for op, layer, kind in zip(ops, layers, kinds, strict=True) if layer >= 0 or kind == b"embedding"
        }
        for index in range(trace.rows("pass")):
            # operations after the layers, such as the head, run only for the last chunk of a prompt
            has_all_ops = index not in prompt or index == last
            assert {name.encode() for p, name in recorded if p == index} == (set(ops) if has_all_ops else of_all_chunks)
            count = int((tokens == index).sum()) if index in prompt else 1
            assert recorded[index, "layers.1.down"].shape == (1, 1, count, trace.tensor(0).shape[-1])
        assert recorded[last, "head"].ravel().tolist() == report["prompt_logits_last"]
        tokens_of_logits = [int(recorded[index, "head"].argmax()) for index in range(last, trace.rows("pass"))]
        assert tokens_of_logits == report["tokens"]
        assert np.array_equal(recorded[last, "layers.0.qkv"].dtype, np.dtype("float32"))
    plain = json.loads(wse(*command).out)
    assert plain["tokens"] == report["tokens"]
    assert plain["decode"] == report["decode"]  # recording does not change the cycles


def test_operations_are_selected_by_name_and_pattern(wse: Wse, tiny: Path) -> None:
    assert wse("run", tiny, *OPTIONS, "--trace", "t.h5", "--record", "activations=layers.*.attention, head").code == 0
    with open_trace("t.h5") as trace:
        ops = trace.column("graph/ops/name")[np.unique(trace.column("tensors/op"))].tolist()
        assert ops == [b"layers.0.attention", b"layers.1.attention", b"head"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record the outputs of all operations, and the buffers of the PEs in `PES`, in a trace; return its path."""
    folder = tmp_path_factory.mktemp("recorded")
    model, trace = write_model(folder), folder / "t.h5"
    assert (
        main(["run", str(model), *OPTIONS, "--record", "activations", "--record-pe", PES, "--trace", str(trace)]) == 0
    )
    return trace


def elements(trace: Any, row: int, col: int, name: str, pass_index: int | None = None) -> npt.NDArray[np.float32]:
    """Return the elements of a buffer of PE (row, col) of wafer 0 after a pass; None is the last pass."""
    return np.array(read_content(trace, (0, row, col), name, pass_index).elements, np.float32)


def test_buffers_contain_the_shards_of_the_operation_outputs(recorded: Path) -> None:
    assert problems(recorded) == []
    with open_trace(recorded) as trace:
        names, ops = trace.texts("graph/ops/name"), trace.column("tensors/op")
        for index in (trace.rows("pass") - 2, trace.rows("pass") - 1):  # decoded tokens
            rows = np.flatnonzero(trace.column("tensors/pass") == index).tolist()
            outputs = {names[ops[row]]: trace.tensor(row).ravel() for row in rows}
            shards = [elements(trace, 0, col, "hidden", index) for col in range(4)]
            assert np.array_equal(np.concatenate([shard[:5] for shard in shards]), outputs["layers.1.gate_up"])
            shards = [elements(trace, row, 0, "x", index) for row in range(4)]
            assert np.array_equal(np.concatenate([shard[:3] for shard in shards]), outputs["layers.1.down"])


def test_buffer_content_is_recorded_only_when_it_changed(recorded: Path) -> None:
    with open_trace(recorded) as trace:
        columns, buffers = trace.table("content"), trace.records("buffer")
        for buffer, record in enumerate(buffers):
            of_buffer = (columns["buffer"] == buffer) & (columns["row"] == 0) & (columns["col"] == 0)
            passes = columns["pass"][of_buffer].tolist()
            contents = [trace.content(row).tobytes() for row in np.flatnonzero(of_buffer).tolist()]
            assert all(content != next_content for content, next_content in pairwise(contents))
            if record["use"] == "weights":
                assert passes == [0]
                content = read_content(trace, (0, 0, 0), record["name"], trace.rows("pass") - 1)
                assert (content.since_pass, content.pass_) == (0, trace.rows("pass") - 1)
            if record["use"] == "code":
                assert passes == []
        cached = columns["pass"][[buffers[at]["use"] == "kv" for at in columns["buffer"].tolist()]]
        assert len(set(cached.tolist())) > 1


def test_buffer_is_recorded_before_another_overwrites_it(wse: Wse, empty: Path) -> None:
    """Buffers gate_up and hidden overlap in the story model: one step reads the first and writes the second."""
    command = ("run", "--new-tokens", "2", "--dtype", "float32", "--mesh", "16x16", "--mapping", "region")
    assert wse(*command, "--schedule", "baseline", "--record-pe", "2,3", "--trace", "t.h5").code == 0
    with open_trace(empty / "t.h5") as trace:
        places = {record["name"]: (record["address"], record["bytes"]) for record in trace.records("buffer")}
        address, size = places["gate_up"]
        assert address <= places["hidden"][0] < address + size
        products, hidden = elements(trace, 2, 3, "gate_up"), elements(trace, 2, 3, "hidden")
    wide = next(n for n in range(1, len(hidden) + 1) if n * 2 >= len(products) or not products[2 * n :].any())
    assert any(
        np.allclose(gate / (1 + np.exp(-gate)) * products[n : 2 * n], hidden[:n], rtol=1e-4, atol=1e-6)
        for n in range(wide, 0, -1)
        if n > 2
        for gate in [products[:n]]
    )


def test_dump_prints_numbers_and_bytes(wse: Wse, recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_trace(recorded) as trace:
        content = read_content(trace, (0, 0, 1), "hidden", None)
    command = ("inspect", recorded, "--pe", "0,1", "--dump", "hidden")
    report = json.loads(wse(*command, "--json").out)
    assert report["view"] == "dump"
    assert report["content"]["shape"] == [len(content.elements)]
    assert np.array_equal(np.frombuffer(bytes.fromhex(report["content"]["hex"]), "<f4"), np.float32(content.elements))
    rows = list(csv.DictReader(io.StringIO(wse(*command, "--csv", "-").out)))
    assert [float(row["value"]) for row in rows] == list(content.elements)
    assert [int(row["address"]) for row in rows] == [content.address + 4 * n for n in range(len(rows))]
    monkeypatch.setenv("COLUMNS", "60")
    plain, digits = wse(*command).out, bytes.fromhex(report["content"]["hex"])[:8].hex(" ")
    assert f"{content.elements[0]:.6g}" in plain
    as_hex = wse(*command, "--hex", "--top", "2").out
    assert f"{content.address:#06x}  {digits} " in as_hex
    assert f"and {len(content.elements) - 2} more" in as_hex
    assert max(map(len, (plain + as_hex).splitlines())) <= 60
    assert wse(*command, "--dump-file", "a.npy").code == 0
    assert np.array_equal(np.load("a.npy"), np.float32(content.elements))
    assert wse(*command, "--dump-file", "a.bin").code == 0
    assert Path("a.bin").read_bytes().hex() == report["content"]["hex"]
    with open_trace(recorded) as trace:
        weights = read_content(trace, (0, 0, 1), "layers.0.down", None)
    by_address = json.loads(wse(*command[:-1], f"{weights.address:#06x}", "--json").out)
    assert by_address["content"]["hex"] == weights.hex


def test_too_many_recorded_bytes_are_refused(
    wse: Wse, tiny: Path, empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wse.tracing.record.selection.MAX_BYTES", 10_000)
    line = wse("run", tiny, *OPTIONS, "--record-pe", "0,0").refusal()
    assert "the limit is 10,000; name fewer PEs, or give a smaller --new-tokens" in line
    assert not list(empty.iterdir())

"""``wse run --record`` and ``--record-pe``: outputs of ops and contents of buffers in the trace."""

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
from wse.tracing.query.places.contents import read_content
from wse_traces import open_trace, problems

ASKED = (
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


def test_every_pass_has_the_tensors_that_were_asked_for(wse: Wse, tiny: Path) -> None:
    asked = ("run", tiny, *ASKED, "--logits", "--json", "--trace", "t.h5")
    report = json.loads(wse(*asked, "--record", "activations").out)
    assert problems("t.h5") == []
    with open_trace("t.h5") as trace:
        ops, kinds, layers = (trace.column(f"graph/ops/{name}") for name in ("name", "kind", "layer"))
        passes, of = trace.column("tensors/pass"), trace.column("tensors/op")
        held = {(int(p), ops[op].decode()): trace.tensor(i) for i, (p, op) in enumerate(zip(passes, of, strict=True))}
        assert len(held) == len(passes)
        tokens = trace.column("tokens/pass")[trace.column("tokens/is_prompt") == 1]
        prompt, last = np.unique(tokens), int(tokens.max())
        always = {op for op, layer, kind in zip(ops, layers, kinds, strict=True) if layer >= 0 or kind == b"embedding"}
        for index in range(trace.rows("pass")):
            ends = index not in prompt or index == last  # what follows the layers is of the last chunk alone
            assert {name.encode() for p, name in held if p == index} == (set(ops) if ends else always)
            count = int((tokens == index).sum()) if index in prompt else 1
            assert held[index, "layers.1.down"].shape == (1, 1, count, trace.tensor(0).shape[-1])
        assert held[last, "head"].ravel().tolist() == report["prompt_logits_last"]
        made = [int(held[index, "head"].argmax()) for index in range(last, trace.rows("pass"))]
        assert made == report["tokens"]
        assert np.array_equal(held[last, "layers.0.qkv"].dtype, np.dtype("float32"))
    plain = json.loads(wse(*asked).out)
    assert plain["tokens"] == report["tokens"]
    assert plain["decode"] == report["decode"]  # the wafer does not notice


def test_some_ops_by_name_and_pattern(wse: Wse, tiny: Path) -> None:
    assert wse("run", tiny, *ASKED, "--trace", "t.h5", "--record", "activations=layers.*.attention, head").code == 0
    with open_trace("t.h5") as trace:
        ops = trace.column("graph/ops/name")[np.unique(trace.column("tensors/op"))].tolist()
        assert ops == [b"layers.0.attention", b"layers.1.attention", b"head"]


PES = "0,0+0,1+0,2+0,3+1,0+2,0+3,0"


@pytest.fixture
def recorded(wse: Wse, tiny: Path, empty: Path) -> Path:
    options = ("--record", "activations", "--record-pe", PES, "--trace", "t.h5", "--json")
    report = json.loads(wse("run", tiny, *ASKED, *options).out)
    plain = json.loads(wse("run", tiny, *ASKED, "--trace", "none", "--json").out)
    assert (report["tokens"], report["decode"]) == (plain["tokens"], plain["decode"])  # the wafer does not notice
    return empty / "t.h5"


def elements(trace: Any, row: int, col: int, name: str, pass_index: int | None = None) -> npt.NDArray[np.float32]:
    return np.array(read_content(trace, (0, row, col), name, pass_index).elements, np.float32)


def test_buffers_hold_the_shares_of_what_ops_made(recorded: Path) -> None:
    assert problems(recorded) == []
    with open_trace(recorded) as trace:
        names, ops = trace.texts("graph/ops/name"), trace.column("tensors/op")
        for index in (trace.rows("pass") - 2, trace.rows("pass") - 1):  # decoded tokens
            rows = np.flatnonzero(trace.column("tensors/pass") == index).tolist()
            made = {names[ops[row]]: trace.tensor(row).ravel() for row in rows}
            shares = [elements(trace, 0, col, "hidden", index) for col in range(4)]
            assert np.array_equal(np.concatenate([share[:5] for share in shares]), made["layers.1.gate_up"])
            shares = [elements(trace, row, 0, "x", index) for row in range(4)]
            assert np.array_equal(np.concatenate([share[:3] for share in shares]), made["layers.1.down"])


def test_row_is_there_where_bytes_changed(recorded: Path) -> None:
    with open_trace(recorded) as trace:
        columns, buffers = trace.table("content"), trace.records("buffer")
        for buffer, record in enumerate(buffers):
            of_buffer = (columns["buffer"] == buffer) & (columns["row"] == 0) & (columns["col"] == 0)
            passes = columns["pass"][of_buffer].tolist()
            held = [trace.content(row).tobytes() for row in np.flatnonzero(of_buffer).tolist()]
            assert all(one != next_one for one, next_one in pairwise(held))
            if record["use"] == "weights":
                assert passes == [0]
                content = read_content(trace, (0, 0, 0), record["name"], trace.rows("pass") - 1)
                assert (content.since_pass, content.pass_) == (0, trace.rows("pass") - 1)
            if record["use"] == "code":
                assert passes == []
        cached = columns["pass"][[buffers[at]["use"] == "kv" for at in columns["buffer"].tolist()]]
        assert len(set(cached.tolist())) > 1


def test_buffer_that_another_is_written_over_is_read_before(wse: Wse, empty: Path) -> None:
    """Gates and their activations begin at one address of the story model, and are needed by one step."""
    asked = ("run", "--new-tokens", "2", "--schedule", "baseline", "--dtype", "float32", "--mesh", "16x16")
    assert wse(*asked, "--record-pe", "2,3", "--trace", "t.h5").code == 0
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
    ask = ("inspect", recorded, "--pe", "0,1", "--dump", "hidden")
    told = json.loads(wse(*ask, "--json").out)
    assert told["view"] == "dump"
    assert told["content"]["shape"] == [len(content.elements)]
    assert np.array_equal(np.frombuffer(bytes.fromhex(told["content"]["hex"]), "<f4"), np.float32(content.elements))
    rows = list(csv.DictReader(io.StringIO(wse(*ask, "--csv", "-").out)))
    assert [float(row["value"]) for row in rows] == list(content.elements)
    assert [int(row["address"]) for row in rows] == [content.address + 4 * n for n in range(len(rows))]
    monkeypatch.setenv("COLUMNS", "60")
    plain, digits = wse(*ask).out, bytes.fromhex(told["content"]["hex"])[:8].hex(" ")
    assert f"{content.elements[0]:.6g}" in plain
    as_hex = wse(*ask, "--hex", "--top", "2").out
    assert f"{content.address:#06x}  {digits} " in as_hex
    assert f"and {len(content.elements) - 2} more" in as_hex
    assert max(map(len, (plain + as_hex).splitlines())) <= 60
    assert wse(*ask, "--dump-file", "a.npy").code == 0
    assert np.array_equal(np.load("a.npy"), np.float32(content.elements))
    assert wse(*ask, "--dump-file", "a.bin").code == 0
    assert Path("a.bin").read_bytes().hex() == told["content"]["hex"]
    with open_trace(recorded) as trace:
        weights = read_content(trace, (0, 0, 1), "layers.0.down", None)
    by_address = json.loads(wse(*ask[:-1], f"{weights.address:#06x}", "--json").out)
    assert by_address["content"]["hex"] == weights.hex


def test_bytes_beyond_what_a_reader_takes(wse: Wse, tiny: Path, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wse.tracing.record.selection.MAX_BYTES", 10_000)
    line = wse("run", tiny, *ASKED, "--record-pe", "0,0").refusal()
    assert "the limit is 10,000; name fewer PEs, or give a smaller --new-tokens" in line
    assert not list(empty.iterdir())

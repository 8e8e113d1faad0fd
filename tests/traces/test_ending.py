"""A trace says why its run ended, where it ended before it was complete; and what is flushed when."""

from __future__ import annotations

from pathlib import Path

import pytest

from wse_traces import RunHeader, TraceWriter, open_trace, problems
from wse_traces.header import ATTRIBUTES
from wse_traces.writer import partial as partial_file

ROOM_BYTES = next(attribute.room_bytes for attribute in ATTRIBUTES if attribute.name == "ending")
CROSSING = {"pass": [0], "src_wafer": [-1], "dst_wafer": [0], "bytes": [4], "cycles": [9]}


def ended_by(error: BaseException, path: Path, header: RunHeader) -> Path:
    """The unfinished trace of a run that an error ends."""
    with pytest.raises(type(error)), TraceWriter(path, header):
        raise error
    return path.with_name(f"{path.name}.partial")


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (ValueError("layer 3: not finite"), "ValueError: layer 3: not finite"),
        (KeyboardInterrupt(), "interrupted"),
        (RuntimeError("é" * 600), ("RuntimeError: " + "é" * 600).encode()[:ROOM_BYTES].decode(errors="ignore")),
    ],
)
def test_run_that_ends_early_says_why(error: BaseException, ending: str, tmp_path: Path, header: RunHeader) -> None:
    partial = ended_by(error, tmp_path / "t.h5", header)
    assert problems(partial) == []
    with open_trace(partial) as trace:
        assert (trace.complete, trace.ending) == (False, ending)


def test_first_flushes_come_soon(tmp_path: Path, header: RunHeader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second after the first rows all except the last quarter of a second of them can be read."""
    now = 100.0
    monkeypatch.setattr(partial_file.time, "monotonic", lambda: now)
    flushed = []
    with TraceWriter(tmp_path / "t.h5", header) as writer:
        for tick in range(40):
            now = 100 + tick / 20
            writer.append("crossing", CROSSING)
            with open_trace(tmp_path / "t.h5.partial") as trace:
                flushed.append(trace.rows("crossing"))
    assert flushed[2] == 0  # one flush for each row would be slow
    assert flushed[4] > 0
    assert flushed[10] >= 6
    assert flushed[20] >= 10
    assert len(set(flushed)) < 7

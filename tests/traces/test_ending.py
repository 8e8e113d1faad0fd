"""Tests of traces of runs that end early or are killed, and of targets that cannot be written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiers import slow_but

from wse_traces import RunHeader, TraceError, TraceWriter, open_trace, problems
from wse_traces.header import ATTRIBUTES
from wse_traces.writer import partial as partial_file

# Program that writes tokens until it is killed. After each flush it prints how many tokens are on the disk.
WRITER = """
import sys, numpy as np
sys.path[:] = {path!r}
from wse_traces import RunHeader, Token, TraceError, TraceWriter
header = RunHeader(created_by="w", model="m", wafer="w", mapping="p", seed=0, program_digest="0" * 8,
                   wafers=1, rows=40, cols=30, clock_hz=1.0)
trace = None
{limit}
print("ready", flush=True)
try:
    trace = TraceWriter({target!r}, header)
    random, clock = np.random.default_rng(0), 0
    for token in range(10**9):
        n = int(random.integers(1, 400))
        zero = np.zeros(n, int)
        cycles = random.integers(0, 1000, n)
        by = np.zeros((n, 6), int)
        by[:, 2] = cycles
        rest = dict.fromkeys(("op", "stage", "name", "layer", "wafer"), zero - 1)
        rest |= dict.fromkeys(("kind", "words", "hops", "row", "col", "rows", "cols"), zero)
        steps = dict(start_cycle=np.cumsum(cycles) - cycles, cycles=cycles, cycles_by=by, **rest)
        schedule = trace.append_schedule(steps, phase="decode", kv_slots=token)
        index = trace.append_pass(schedule=schedule, start_cycle=clock, wall_s=0.0)
        text, took = b"%d " % token, int(cycles.sum())
        clock += took
        row = dict(token_id=token, text=text, position=token, cycles=took)
        trace.append_tokens(Token(is_prompt=False, pass_index=index, **row))
        if token % 3 == 0:
            trace.append_plane("links/words", random.integers(0, 9, (4, 40, 30))) if not token else None
            trace.flush()
            print(token + 1, flush=True)
except TraceError as error:
    print(error, flush=True)
    try:
        trace is None or trace.close()
    except TraceError:
        print(trace.path, flush=True)
"""


def start_writer(target, limit=""):
    """Start `WRITER` in a new process; ``limit`` is code that sets a limit on the file size."""
    code = WRITER.format(path=sys.path, target=str(target), limit=limit)
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )


def check_partial(partial, safe):
    """Check that the unfinished trace is valid and contains at least ``safe`` tokens."""
    assert problems(partial) == []
    with open_trace(partial) as trace:
        assert not trace.complete
        tokens = trace.rows("token")
        assert tokens >= safe
        assert trace.column("tokens/id").tolist() == list(range(tokens))
        assert trace.token_texts() == [f"{i} " for i in range(tokens)]
        assert len(trace.steps()["op"]) == trace.column("schedules/steps")[trace.column("passes/schedule")].sum()
        if safe:
            assert trace.column("links/words").shape == (1, 4, 40, 30)


def test_unfinished_trace_can_be_read_and_replaced(tmp_path):
    target = tmp_path / "t.h5"
    run = start_writer(target)
    for _ in range(3):
        line = run.stdout.readline()
    assert open_trace(tmp_path / "t.h5.partial").rows("token") >= int(line)
    run.kill()
    run.communicate()
    check_partial(tmp_path / "t.h5.partial", int(line))
    again = start_writer(target)
    for _ in range(2):
        again.stdout.readline()
    again.kill()
    again.communicate()
    check_partial(tmp_path / "t.h5.partial", 1)


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system cannot reserve disk space")
@pytest.mark.parametrize("kib", slow_but([0, 100, 200, 1500, 2600], 0, 1500))
def test_full_disk_gives_one_line_and_keeps_flushed_rows(tmp_path, kib):
    """The full disk is simulated by a limit on the file size, which fails in the same calls."""
    target = tmp_path / "t.h5"
    size = kib << 10
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"
    out, err = start_writer(target, limit).communicate(timeout=120)
    lines = out.splitlines()[1:]
    assert err == ""
    safe = [int(line) for line in lines if line.isdigit()]
    message = lines[len(safe)]
    assert "File too large" in message
    assert "--trace none" in message
    if (tmp_path / "t.h5.partial").exists():
        check_partial(tmp_path / "t.h5.partial", safe[-1] if safe else 0)
    else:
        assert list(tmp_path.iterdir()) == []
    assert bool(safe) == (kib > 1000)


ROOM_BYTES = next(attribute.room_bytes for attribute in ATTRIBUTES if attribute.name == "ending")
CROSSING = {"pass": [0], "src_wafer": [-1], "dst_wafer": [0], "bytes": [4], "cycles": [9]}


def partial_trace_after(error: BaseException, path: Path, header: RunHeader) -> Path:
    """Write a trace whose run ends with an error; return the path of the unfinished trace."""
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
def test_unfinished_trace_stores_the_error_of_its_run(
    error: BaseException, ending: str, tmp_path: Path, header: RunHeader
) -> None:
    partial = partial_trace_after(error, tmp_path / "t.h5", header)
    assert problems(partial) == []
    with open_trace(partial) as trace:
        assert (trace.complete, trace.ending) == (False, ending)


def test_first_rows_are_flushed_soon(tmp_path: Path, header: RunHeader, monkeypatch: pytest.MonkeyPatch) -> None:
    """After half a second, all rows can be read except those of about the last quarter of a second."""
    now = 100.0
    monkeypatch.setattr(partial_file.time, "monotonic", lambda: now)
    flushed = []
    with TraceWriter(tmp_path / "t.h5", header) as writer:
        for tick in range(40):
            now = 100 + tick / 20
            writer.append("crossing", CROSSING)
            with open_trace(tmp_path / "t.h5.partial") as trace:
                flushed.append(trace.rows("crossing"))
    assert flushed[2] == 0  # a flush after every row would be slow
    assert flushed[4] > 0
    assert flushed[10] >= 6
    assert flushed[20] >= 10
    assert len(set(flushed)) < 7


def test_writer_refuses_a_missing_folder_and_a_file_as_folder(tmp_path, header):
    (tmp_path / "file").touch()
    for name, message in (("no", "No such file or directory; give another path"), ("file", "cannot write a trace")):
        with pytest.raises(TraceError, match=message):
            TraceWriter(tmp_path / name / "t.h5", header)


def test_writer_refuses_a_folder_or_a_pipe_as_target(tmp_path, header):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(TraceError, match="not a regular file"):
            TraceWriter(path, header)
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


def test_partial_replaced_by_another_program_is_not_published(tmp_path, header):
    writer = TraceWriter(tmp_path / "t.h5", header)
    writer.path.unlink()
    writer.path.write_bytes(b"another")
    with pytest.raises(TraceError, match="replaced by another run"):
        writer.close()
    assert not (tmp_path / "t.h5").exists()

"""A writer that is killed, or whose disk is full, leaves a trace that reads up to the last flush."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tiers import slow_but

from wse_traces import open_trace, problems

# Writes tokens for ever; prints how many are safe after each flush.
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


def start(target, limit=""):
    code = WRITER.format(path=sys.path, target=str(target), limit=limit)
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )


def check_up_to(partial, safe):
    """All rows that were reported safe are there, and what is there is whole."""
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


def test_trace_can_be_read_while_it_is_written_and_a_killed_one_replaced(tmp_path):
    target = tmp_path / "t.h5"
    run = start(target)
    for _ in range(3):
        line = run.stdout.readline()
    assert open_trace(tmp_path / "t.h5.partial").rows("token") >= int(line)
    run.kill()
    run.communicate()
    check_up_to(tmp_path / "t.h5.partial", int(line))
    again = start(target)
    for _ in range(2):
        again.stdout.readline()
    again.kill()
    again.communicate()
    check_up_to(tmp_path / "t.h5.partial", 1)


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="no room can be reserved on this system")
@pytest.mark.parametrize("kib", slow_but([0, 100, 200, 1500, 2600], 0, 1500))
def test_full_disk_gives_one_line_and_keeps_what_was_flushed(tmp_path, kib):
    """A limit on the size of files stands for the disk: growing beyond it fails in the same calls."""
    target = tmp_path / "t.h5"
    size = kib << 10
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"
    out, err = start(target, limit).communicate(timeout=120)
    lines = out.splitlines()[1:]
    assert err == ""
    safe = [int(line) for line in lines if line.isdigit()]
    message = lines[len(safe)]
    assert "File too large" in message
    assert "--trace none" in message
    if (tmp_path / "t.h5.partial").exists():
        check_up_to(tmp_path / "t.h5.partial", safe[-1] if safe else 0)
    else:
        assert list(tmp_path.iterdir()) == []
    assert bool(safe) == (kib > 1000)

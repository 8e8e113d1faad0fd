"""``wse run`` killed at eight random points: what was flushed before is there, whole, and marked as incomplete."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from wse_traces import open_trace, problems

# Runs what the command runs in one child after another and kills them; says how many tokens each had flushed before.
KILLER = """
import json, os, random, signal, sys, time
sys.path[:] = {path!r}
from pathlib import Path
from wse.studies.options.option import make_request
from wse.studies.compile.choose import compile_program
from wse.tracing.record import run as recording
from wse.studies.run.prepare import prepare
from wse.studies.run.request import RunRequest
from wse.studies.run.execute import execute
from wse_traces import write

folder = Path({folder!r})
prepared = prepare(make_request(RunRequest, model={model!r}, prompt_ids=(3, 5, 7), mesh="4x4", new_tokens=24))
program = compile_program(prepared)
draw = random.Random(6)

def start(name):
    ours, theirs = os.pipe()
    process = os.fork()
    if process:
        os.close(theirs)
        return process, open(ours)
    flushed = write.TraceWriter.flush
    def flush(writer):
        flushed(writer)
        os.write(theirs, b"%d\\n" % writer._rows["token"])
    write.TraceWriter.flush = flush
    write._BUFFER_BYTES = 1 << 9  # a flush every token or so
    recording.MAX_PASSES = 1
    execute(prepared, program, trace=folder / name)
    os._exit(0)

execute(prepared, program)  # kernels are loaded
began = time.monotonic()
process, told = start("whole.h5")
flushes = len(told.readlines())
took = time.monotonic() - began
os.waitpid(process, 0)
for number in range(8):
    process, told = start(str(number) + ".h5")
    safe = [int(told.readline()) for _ in range(draw.randrange(flushes - 1))]
    time.sleep(draw.random() * took / (flushes if safe else 2))
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    safe += [int(line) for line in told.readlines() if line.endswith("\\n")]
    print(json.dumps([number, safe[-1] if safe else 0]), flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can be forked on this system")
def test_killed_at_eight_random_points(tiny: Path, tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}.h5").write_bytes(b"older")
    code = KILLER.format(path=sys.path, model=str(tiny), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(outcomes) == 8
    with open_trace(tmp_path / "whole.h5") as trace:
        whole, texts = trace.column("tokens/id").tolist(), trace.token_texts()
    held = set()
    for number, safe in outcomes:
        target = tmp_path / f"{number}.h5"
        if target.read_bytes() != b"older":  # a slow machine killed it too late
            with open_trace(target) as trace:
                assert (trace.complete, trace.column("tokens/id").tolist()) == (True, whole)
            continue
        unfinished = target.with_name(f"{number}.h5.partial")
        if not unfinished.exists():
            assert safe == 0
            continue
        assert problems(unfinished) == []
        with open_trace(unfinished) as trace:
            tokens = trace.rows("token")
            assert safe <= tokens <= len(whole)
            assert not trace.complete or tokens == len(whole)  # killed in the moment before it was renamed
            assert trace.column("tokens/id").tolist() == whole[:tokens]
            assert trace.token_texts() == texts[:tokens]
            assert len(trace.steps()["op"]) > 0 or not trace.rows("pass")
        held.add(tokens)
    assert len(held) > 2, "killed at a few points alone"

"""Flipped bits in traces, finished and not: what is read is what was written, or a clean error.

120 flips always, and some 500 more in the slow tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from wse_traces import TraceWriter, open_trace, schema

ROOT = Path(__file__).parents[2]
FLIPPER = ROOT / "tests/support/trace_flips.py"
GOLDEN = sorted((ROOT / "traces/golden").glob("v*/*.h5"))
QUICK = "v1/story-two-wafers"
MANY = pytest.param(100, marks=pytest.mark.slow)


def outcomes(trace, scratch, *, seed, flips):
    """What became of the flips, in a process that may take little memory and time, and that may not die of them."""
    command = [sys.executable, str(FLIPPER), str(trace), str(scratch), str(seed), str(flips)]
    paths = os.pathsep.join([str(ROOT / "traces"), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["not_opened"] + found["opened"] == flips
    return found


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=name, marks=() if name == QUICK else pytest.mark.slow)
        for path in GOLDEN
        for name in [f"{path.parent.name}/{path.stem}"]
    ],
)
def test_flips_in_golden_traces(path, tmp_path):
    found = outcomes(path, tmp_path / "t.h5", seed=1, flips=60 if QUICK in str(path) else 50)
    assert found["columns_refused"] > found["opened"] / 2, "every part of a file has a checksum"


@pytest.mark.slow
def test_flips_in_a_trace_with_all_tables(sample, tmp_path):
    found = outcomes(sample, tmp_path / "t.h5", seed=2, flips=75)
    assert found["columns_refused"] > found["opened"] / 2


@pytest.mark.parametrize("flips", [60, MANY])
def test_flips_in_a_trace_whose_run_goes_on(sample, header, flips, tmp_path):
    with TraceWriter(tmp_path / "t.h5", header) as writer, open_trace(sample) as trace:
        for table in schema.TABLES:
            writer.append(table, trace.table(table))
        writer.flush()
        (tmp_path / "on.h5.partial").write_bytes(writer.path.read_bytes())
    data = (tmp_path / "on.h5.partial").read_bytes().rstrip(b"\0")  # without the room that it took in advance
    (tmp_path / "on.h5.partial").write_bytes(data + bytes(64))
    found = outcomes(tmp_path / "on.h5.partial", tmp_path / "t.h5.partial", seed=3, flips=flips)
    assert found["columns_refused"] > found["opened"] / 2

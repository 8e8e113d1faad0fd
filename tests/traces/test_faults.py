"""Damaged traces: faults and flipped bits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from wse_traces import TraceError, TraceWriter, open_trace, problems, schema
from wse_traces.header import ATTRIBUTES


def read_steps(path):
    """Read what tables of steps read."""
    with open_trace(path) as trace:
        trace.top_steps()
        trace.steps()


def message_of(path):
    with pytest.raises(TraceError) as caught:
        read_steps(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_missing_file_names_the_unfinished_one(tmp_path):
    (tmp_path / "t.h5.partial").touch()
    assert "t.h5.partial is the trace of a run that is in progress or was stopped" in message_of(tmp_path / "t.h5")
    assert "not a regular file" in message_of(tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x89HDF\r\n\x1a", b"GGUF" * 100])
def test_not_hdf5(tmp_path, content):
    path = tmp_path / "t.h5"
    path.write_bytes(content)
    assert f"{'not an HDF5 file' if content else 'empty'}, so not a trace" in message_of(path)
    assert len(problems(path)) == 1


@pytest.mark.parametrize("length", [8, 48, 100, 2000, 0.5, 0.99])
def test_truncated(copy, length):
    data = copy.read_bytes()
    left = length if isinstance(length, int) else int(len(data) * length)
    copy.write_bytes(data[:left])
    says = f"truncated: it has {left:,} of its {len(data):,} bytes; make the trace again"
    assert message_of(copy).endswith(
        says if left >= 48 else "the first 48 of its 8 bytes are invalid; make the trace again"
    )
    for insides in ("eof", "sblock", "metadata", "synchronously"):
        assert insides not in message_of(copy).removeprefix(str(copy))


@pytest.mark.parametrize("name", [a.name for a in ATTRIBUTES if a.path == "/"])
def test_missing_attribute(copy, name):
    with h5py.File(copy, "r+") as file:
        del file.attrs[name]
    assert f"attribute '{name}' is missing" in message_of(copy)
    assert any(name in line for line in problems(copy))


def test_declared_sizes_are_compared_with_a_limit(copy):
    with h5py.File(copy, "r+") as file:
        for field in schema.FIELDS:
            file[field.path].resize(2**40, axis=0)
        file["run/rows"][...] = 2**40
    assert "the limit is" in message_of(copy)
    assert any("the limit is" in line for line in problems(copy))


def test_unknown_datasets_are_ignored(copy):
    with h5py.File(copy, "r+") as file:
        file["steps/from_the_future"] = [1, 2]
        file["future/x"] = 3
    assert problems(copy) == []


@pytest.mark.parametrize(("begin", "count"), [(-1, 5), (16, 5), (3, 2**62), (2**62, 2**62), (0, -1)])
def test_schedules_beyond_the_steps_are_refused(copy, begin, count):
    with h5py.File(copy, "r+") as file:
        file["schedules/first_step"][1], file["schedules/steps"][1] = begin, count
    with open_trace(copy) as trace:
        for read in (trace.steps, lambda: trace.steps(5), trace.top_steps):
            with pytest.raises(TraceError, match="schedules: rows beyond the 18 of steps; make the trace again"):
                read()
    assert any(line.startswith(("schedules/first_step[1]", "schedules/steps[1]")) for line in problems(copy))


def test_schedules_that_share_steps_are_refused(copy):
    with h5py.File(copy, "r+") as file:
        file["schedules/first_step"][1], file["schedules/steps"][1] = 0, 18
    with open_trace(copy) as trace, pytest.raises(TraceError, match="schedules: they share rows of the 18 of steps"):
        trace.top_steps()
    assert any(line.startswith("schedules/first_step[1]") for line in problems(copy))


def test_problem_of_the_header_is_listed_once(copy):
    with h5py.File(copy, "r+") as file:
        file.attrs.modify("rows", np.int64(0))
        file.attrs.modify("clock_hz", -1.0)
    size, clock = problems(copy)
    assert "0x5 PEs" in size
    assert "'clock_hz' is -1.0" in clock


@pytest.mark.parametrize(("column", "value"), [("pass", -1), ("pass", 9), ("step", -1), ("step", 5)])
def test_shifts_that_are_nowhere_are_refused(copy, column, value):
    with h5py.File(copy, "r+") as file:
        file[f"shifts/{column}"][1] = value
    with open_trace(copy) as trace:
        for read in (trace.steps, lambda: trace.steps(5), trace.top_steps):
            with pytest.raises(TraceError, match=f"shifts/{column}: "):
                read()
    assert any(line.startswith(f"shifts/{column}[1]") for line in problems(copy))


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

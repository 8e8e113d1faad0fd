"""Tests of damaged traces: truncated files, missing attributes, inconsistent rows and flipped bits."""

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
    """Read the steps of all passes and the most expensive steps."""
    with open_trace(path) as trace:
        trace.top_steps()
        trace.steps()


def message_of(path):
    """Return the error message of reading a damaged trace; check that it is one line and names the file."""
    with pytest.raises(TraceError) as caught:
        read_steps(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_message_of_a_missing_file_names_the_unfinished_file(tmp_path):
    (tmp_path / "t.h5.partial").touch()
    assert "t.h5.partial is the trace of a run that is in progress or was stopped" in message_of(tmp_path / "t.h5")
    assert "not a regular file" in message_of(tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x89HDF\r\n\x1a", b"GGUF" * 100])
def test_file_that_is_not_hdf5_is_refused(tmp_path, content):
    path = tmp_path / "t.h5"
    path.write_bytes(content)
    assert f"{'not an HDF5 file' if content else 'empty'}, so not a trace" in message_of(path)
    assert len(problems(path)) == 1


@pytest.mark.parametrize("length", [8, 48, 100, 2000, 0.5, 0.99])
def test_truncated_file_is_refused_with_its_size(copy, length):
    data = copy.read_bytes()
    remaining = length if isinstance(length, int) else int(len(data) * length)
    copy.write_bytes(data[:remaining])
    message = f"truncated: it has {remaining:,} of its {len(data):,} bytes; make the trace again"
    assert message_of(copy).endswith(
        message if remaining >= 48 else "the first 48 of its 8 bytes are invalid; make the trace again"
    )
    for hdf5_term in ("eof", "sblock", "metadata", "synchronously"):
        assert hdf5_term not in message_of(copy).removeprefix(str(copy))


@pytest.mark.parametrize("name", [a.name for a in ATTRIBUTES if a.path == "/"])
def test_missing_attribute_is_named(copy, name):
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
def test_shifts_without_pass_or_step_are_refused(copy, column, value):
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


def outcomes_of_flips(trace, scratch, *, seed, flips):
    """Flip bits of a trace and read it, in a process with limited memory and time that must not crash.

    Args:
        trace: Path of the sound trace.
        scratch: Path of the damaged copy.
        seed: Seed of the positions of the flips.
        flips: Number of flips.

    Returns:
        Numbers of flips after which the file does not open or opens, and of columns read or refused.
    """
    command = [sys.executable, str(FLIPPER), str(trace), str(scratch), str(seed), str(flips)]
    paths = os.pathsep.join([str(ROOT / "traces"), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
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
def test_flips_in_golden_traces_are_detected(path, tmp_path):
    found = outcomes_of_flips(path, tmp_path / "t.h5", seed=1, flips=60 if QUICK in str(path) else 50)
    assert found["columns_refused"] > found["opened"] / 2, "every part of a file has a checksum"


@pytest.mark.slow
def test_flips_in_a_trace_with_all_tables_are_detected(sample, tmp_path):
    found = outcomes_of_flips(sample, tmp_path / "t.h5", seed=2, flips=75)
    assert found["columns_refused"] > found["opened"] / 2


@pytest.mark.parametrize("flips", [60, MANY])
def test_flips_in_an_unfinished_trace_are_detected(sample, header, flips, tmp_path):
    with TraceWriter(tmp_path / "t.h5", header) as writer, open_trace(sample) as trace:
        for table in schema.TABLES:
            writer.append(table, trace.table(table))
        writer.flush()
        (tmp_path / "on.h5.partial").write_bytes(writer.path.read_bytes())
    data = (tmp_path / "on.h5.partial").read_bytes().rstrip(b"\0")  # without the disk space that the writer reserves
    (tmp_path / "on.h5.partial").write_bytes(data + bytes(64))
    found = outcomes_of_flips(tmp_path / "on.h5.partial", tmp_path / "t.h5.partial", seed=3, flips=flips)
    assert found["columns_refused"] > found["opened"] / 2

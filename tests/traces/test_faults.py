"""Bad files: one clean line each, and nothing read without a check."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from wse_traces import TraceError, open_trace, problems, schema
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


# --- files that are no traces ---


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

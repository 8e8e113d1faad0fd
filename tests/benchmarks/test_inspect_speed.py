"""Time and memory of ``wse inspect`` on whole wafers; ``pytest tests/benchmarks/test_inspect_speed.py -s`` prints them.

Goal: every view of a trace of three whole wafers and 115,200 steps in 1 s and 200 MB from a cold start of Python,
on one core; ``--diff`` reads two traces and may take twice that.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from full_wafer_trace import write_full_wafer

GOAL_S, GOAL_MB = 1.0, 200
REPEATS = 3
COMMAND = """
import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from wse.cli import main
code = main()
print(*(line for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
sys.exit(code)
"""
VIEWS = (
    [],
    ["--steps"],
    ["--by", "op"],
    ["--by", "token"],
    ["--links", "--top", "100"],
    ["--pe", "1:500,300"],
    ["--tokens"],
    ["--tree"],
    ["--diff", "TRACE"],
)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_full_wafer(tmp_path_factory.mktemp("full") / "full.h5")


def cold(*arguments: str) -> tuple[float, float]:
    """Seconds of the processor, the least of several cold processes, and the most memory of one in MB."""
    seconds, peaks = [], []
    for _ in range(REPEATS):
        with subprocess.Popen(
            [sys.executable, "-c", COMMAND, "inspect", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        ) as process:
            assert process.stderr is not None
            said = process.stderr.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, said.decode()
        seconds.append(used.ru_utime + used.ru_stime)
        peaks.append(int(re.findall(r"VmHWM:\s+(\d+) kB", said.decode())[-1]) / 1024)  # wait4 counts the parent, too
    return min(seconds), max(peaks)


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: " ".join(view) or "summary")
def test_a_view_of_whole_wafers(trace: Path, view: list[str]) -> None:
    seconds, peak_mb = cold(str(trace), *(str(trace) if part == "TRACE" else part for part in view))
    print(f"\n{' '.join(view) or 'summary':24} {seconds:5.2f} s {peak_mb:6.0f} MB")  # noqa: T201
    assert seconds < GOAL_S * (2 if "--diff" in view else 1)
    assert peak_mb < GOAL_MB

"""Measurement of the processor time and memory of a ``wse`` command in a new process on one core (Linux only)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import NamedTuple

COMMAND = """
import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from wse.cli import main
code = main()
print(*(line for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
sys.exit(code)
"""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class CommandCost(NamedTuple):
    """Cost of a command that was run several times.

    Attributes:
        cpu_s: Minimum processor time of the processes, in seconds.
        peak_mb: Maximum memory of a process, in MiB.
        out: Standard output of the last process.
    """

    cpu_s: float
    peak_mb: float
    out: bytes


def measure_command(*arguments: str, repeats: int = 3) -> CommandCost:
    """Run ``wse`` with the given arguments in ``repeats`` sequential processes, which must all succeed."""
    seconds, peaks, out = [], [], b""
    for _ in range(repeats):
        with subprocess.Popen(
            [sys.executable, "-c", COMMAND, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | ONE_THREAD,
        ) as process:
            out, err = process.stdout.read(), process.stderr.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, err.decode()
        seconds.append(usage.ru_utime + usage.ru_stime)
        peaks.append(
            int(re.findall(r"VmHWM:\s+(\d+) kB", err.decode())[-1]) / 1024
        )  # the peak that wait4 returns includes the parent
    return CommandCost(min(seconds), max(peaks), out)

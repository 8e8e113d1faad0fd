"""Processor time and memory of a ``wse`` command in a new process on one core (Linux only)."""

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


class Cold(NamedTuple):
    """Minimum processor seconds of several processes, maximum memory of one, and the last output."""

    cpu_s: float
    peak_mb: float
    out: bytes


def cold(*arguments: str, repeats: int = 3) -> Cold:
    """Run ``wse`` with the given arguments in ``repeats`` processes, one after another; all must succeed."""
    seconds, peaks, out = [], [], b""
    for _ in range(repeats):
        with subprocess.Popen(
            [sys.executable, "-c", COMMAND, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | ONE_THREAD,
        ) as process:
            out, said = process.stdout.read(), process.stderr.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, said.decode()
        seconds.append(used.ru_utime + used.ru_stime)
        peaks.append(int(re.findall(r"VmHWM:\s+(\d+) kB", said.decode())[-1]) / 1024)  # wait4 counts the parent, too
    return Cold(min(seconds), max(peaks), out)

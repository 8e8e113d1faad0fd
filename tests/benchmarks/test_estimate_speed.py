"""Benchmark of the time and the memory of ``wse estimate`` from a cold start of Python, on one core.

Goals: 2 s and 1 GB each, including imports, for Llama-3.1-405B on the wafers that it needs, and for a
mixture of experts with 10^12 parameters. The growth with layers, wafers and mesh is printed as seconds
beyond those of a very small request, which are mostly imports, and as ratios.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.benchmarks.conftest import BySize, Say
from wse.models.catalogue import CONFIGURATIONS

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
    """Minimum processor time and peak memory of several processes, and the output of the last one."""

    cpu_s: float
    peak_mb: float
    out: bytes


def cold(*arguments: str, repeats: int = 3) -> Cold:
    """Run ``wse`` with these arguments in ``repeats`` processes, one after another; all must succeed."""
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


PrintGrowth = Callable[[str, dict[str, list[str]]], None]
GOAL_S, GOAL_MB = 2.0, 1000
SHORT = ["--dtype", "int8", "--capacity", "report", "--prompt-len", "256", "--new-tokens", "256", "--json"]


def config(folder: Path, base: str, **changes: Any) -> str:
    """Write a bundled config.json with changes, and return its path."""
    path = folder / f"{'-'.join(map(str, changes.values()))}.json"
    path.write_text(json.dumps(json.loads(CONFIGURATIONS[base].read_text()) | changes))
    return str(path)


def summary(name: str, measured: Cold) -> str:
    report = json.loads(measured.out)
    model, wafers = report["model"], report["system"]["wafers"]
    return (
        f"{name}: {model['parameters'] / 1e9:,.0f}B parameters as {model['dtype']} on {wafers} wafers: "
        f"{measured.cpu_s:.2f} s (goal {GOAL_S:.0f} s), {measured.peak_mb:.0f} MB (goal {GOAL_MB} MB)"
    )


@pytest.fixture(scope="module")
def repeats(by_size: BySize) -> int:
    """Number of processes per measurement; the fastest counts."""
    return int(by_size(small=1, full=3))


@pytest.mark.parametrize("dtype", [pytest.param("bfloat16", marks=pytest.mark.full_size), "fp8"])
def test_405b(dtype: str, repeats: int, by_size: BySize, say: Say) -> None:
    """The small size uses Llama-3-8B."""
    model = by_size(small="llama-3-8b", full="llama-3.1-405b")
    say(summary(model, cold("estimate", model, "--dtype", dtype, "--json", repeats=repeats)))


@pytest.mark.full_size
def test_a_mixture_of_a_trillion_parameters(repeats: int, say: Say) -> None:
    command = ("estimate", "kimi-k2.6", "--dtype", "fp8", "--capacity", "report", "--json")
    say(summary("Kimi K2.6", cold(*command, repeats=repeats)))


@pytest.fixture(scope="module")
def idle_s(repeats: int) -> float:
    """Seconds of a request with very little work, mostly imports."""
    return cold("estimate", "story", *SHORT, "--wafers", "1", "--mesh", "64x64", repeats=repeats).cpu_s


@pytest.fixture
def print_growth(idle_s: float, repeats: int, by_size: BySize, say: Say) -> PrintGrowth:
    """Print the time of each of some requests beyond ``idle_s``; in the small size, of the first two."""

    def measure(what: str, sizes: dict[str, list[str]]) -> None:
        beyond = {}
        for size in list(sizes)[: by_size(small=2, full=None)]:
            beyond[size] = cold("estimate", *sizes[size], *SHORT, repeats=repeats).cpu_s - idle_s
        base_s = next(iter(beyond.values()))
        times = ", ".join(f"{size}: {seconds:.2f} s ({seconds / base_s:.1f})" for size, seconds in beyond.items())
        say(f"{what}, beyond {idle_s:.2f} s: {times}")

    return measure


def test_layers(tmp_path: Path, print_growth: PrintGrowth) -> None:
    models = {n: config(tmp_path, "llama-3-8b", num_hidden_layers=n) for n in (16, 32, 64, 128, 256)}
    print_growth("layers on 8 wafers", {str(n): [model, "--wafers", "8"] for n, model in models.items()})


@pytest.mark.full_size
def test_wafers(print_growth: PrintGrowth) -> None:
    print_growth("wafers of 405B", {str(n): ["llama-3.1-405b", "--wafers", str(n)] for n in (8, 16, 32, 64, 126)})


@pytest.mark.full_size
def test_mesh(print_growth: PrintGrowth) -> None:
    sides = (64, 128, 256, 512, 750)
    print_growth("sides of the mesh", {str(n): ["llama-3-8b", "--wafers", "1", "--mesh", f"{n}x{n}"] for n in sides})

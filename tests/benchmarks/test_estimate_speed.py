"""Time and memory of ``wse estimate``.

``pytest tests/benchmarks/test_estimate_speed.py`` prints them. Goals are 2 s of one core and 1 GB,
including the start of Python and imports, for Llama-3.1-405B on the number of wafers that it needs
and for a mixture of experts with 10^12 parameters.

The growth of the time with layers, wafers and the area of the mesh is printed as well. From these
times, the time of a very small request is subtracted, which consists mostly of imports.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cold_process import Cold, cold

from tests.benchmarks.conftest import BySize, Say
from wse.models.catalogue import CONFIGURATIONS

PrintGrowth = Callable[[str, dict[str, list[str]]], None]

GOAL_S, GOAL_MB = 2.0, 1000
SHORT = ["--dtype", "int8", "--capacity", "report", "--prompt-len", "256", "--new-tokens", "256", "--json"]


def config(folder: Path, base: str, **changes: Any) -> str:
    """Write a bundled model configuration with some changed keys, and return the file's path."""
    path = folder / f"{'-'.join(map(str, changes.values()))}.json"
    path.write_text(json.dumps(json.loads(CONFIGURATIONS[base].read_text()) | changes))
    return str(path)


def summary(name: str, measured: Cold) -> str:
    """Return a line with the processor time and peak memory of an estimate, and their goals."""
    report = json.loads(measured.out)
    model, wafers = report["model"], report["system"]["wafers"]
    return (
        f"{name}: {model['parameters'] / 1e9:,.0f}B parameters as {model['dtype']} on {wafers} wafers: "
        f"{measured.cpu_s:.2f} s (goal {GOAL_S:.0f} s), {measured.peak_mb:.0f} MB (goal {GOAL_MB} MB)"
    )


@pytest.fixture(scope="module")
def repeats(by_size: BySize) -> int:
    """Number of processes per measurement; the fastest one counts."""
    return int(by_size(small=1, full=3))


@pytest.mark.parametrize("dtype", [pytest.param("bfloat16", marks=pytest.mark.full_size), "fp8"])
def test_405b(dtype: str, repeats: int, by_size: BySize, say: Say) -> None:
    """Print time and memory for Llama-3.1-405B, or for Llama-3-8B in the small size."""
    model = by_size(small="llama-3-8b", full="llama-3.1-405b")
    say(summary(model, cold("estimate", model, "--dtype", dtype, "--json", repeats=repeats)))


@pytest.mark.full_size
def test_a_mixture_of_a_trillion_parameters(repeats: int, say: Say) -> None:
    command = ("estimate", "kimi-k2.6", "--dtype", "fp8", "--capacity", "report", "--json")
    say(summary("Kimi K2.6", cold(*command, repeats=repeats)))


@pytest.fixture(scope="module")
def idle_s(repeats: int) -> float:
    """Processor seconds of the fastest estimate, most of which are for imports."""
    return cold("estimate", "story", *SHORT, "--wafers", "1", "--mesh", "64x64", repeats=repeats).cpu_s


@pytest.fixture
def print_growth(idle_s: float, repeats: int, by_size: BySize, say: Say) -> PrintGrowth:
    """Return a function that prints the times of several requests, each minus ``idle_s``.

    In the small size, only the first two requests are measured.
    """

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

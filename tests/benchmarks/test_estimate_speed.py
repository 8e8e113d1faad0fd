"""Time and memory of ``wse estimate``.

``pytest tests/benchmarks/test_estimate_speed.py`` prints them. Goals are 2 s of one core and 1 GB,
including the start of Python and imports, for Llama-3.1-405B on the number of wafers that it needs
and for a mixture of experts with 10^12 parameters.
"""

from __future__ import annotations

import json

import pytest
from cold_process import CommandCost, measure_command

from tests.benchmarks.conftest import BySize, Say

GOAL_S, GOAL_MB = 2.0, 1000


def summary(name: str, measured: CommandCost) -> str:
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
def test_estimate_of_405b_prints_time_and_memory(dtype: str, repeats: int, by_size: BySize, say: Say) -> None:
    """Print time and memory for Llama-3.1-405B, or for Llama-3-8B in the small size."""
    model = by_size(small="llama-3-8b", full="llama-3.1-405b")
    say(summary(model, measure_command("estimate", model, "--dtype", dtype, "--json", repeats=repeats)))


@pytest.mark.full_size
def test_estimate_of_a_mixture_of_a_trillion_parameters_prints_time_and_memory(repeats: int, say: Say) -> None:
    command = ("estimate", "kimi-k2.6", "--dtype", "fp8", "--capacity", "report", "--json")
    say(summary("Kimi K2.6", measure_command(*command, repeats=repeats)))

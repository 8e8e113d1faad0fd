"""Speed of sweeps: settings a second on all cores against one; ``pytest tests/benchmarks/test_sweep_speed.py -s``.

Goal: 1,000 settings on all cores, in as many times less than on one as there are cores. On one core a part of them is
timed, on all cores all; both count the start of processes. Where cores are shared with others, the processor time of a
setting tells more: on all cores as on one, it says that cores are all that a sweep waits for. The last figure is what
is not estimates: the time of one process of a sweep over that of the same estimates in a loop here.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from wse.studies.estimate.estimate import estimate
from wse.studies.sweep.grid import Grid
from wse.studies.sweep.read_grid import read_grid
from wse.studies.sweep.sweep import sweep

MODELS = {
    "story": ("mesh=16x16,18x18,20x20,24x24", "prompt_len=16", "new_tokens=16"),
    "llama-3-8b": ("wafers=1,2,4,8", "dtype=fp8"),
}
OTHERS = (
    "batch=1,2,4,8,16",
    "wafer.wafer_link_latency_s=5e-7,1e-6,2e-6,5e-6,2e-5",
    "wafer.wafer_link_bytes_per_s=8e9,16e9,32e9,50e9,64e9,75e9,100e9,125e9,140e9,150e9",
)
FEWER = ("batch=1,2,4,8,16", "wafer.wafer_link_latency_s=5e-7,2e-5")


def show(capsys: pytest.CaptureFixture[str], line: str) -> None:
    with capsys.disabled():
        print(f"\n    {line}")  # noqa: T201


@dataclass(frozen=True)
class Spent:
    """On one setting."""

    wall_s: float
    processor_s: float


def spent(grid: Grid, table: Path, jobs: int | None) -> Spent:
    began, processor_s = time.perf_counter(), of_children_s()
    report = sweep(grid, table, jobs=jobs)
    assert report["settings_failed"] < report["settings"]
    return Spent((time.perf_counter() - began) / len(grid), (of_children_s() - processor_s) / len(grid))


def of_children_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


@pytest.mark.parametrize("model", MODELS)
def test_a_thousand_settings(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, part = read_grid(model, [*MODELS[model], *OTHERS]), read_grid(model, [*MODELS[model], *FEWER])
    assert (len(whole), len(part)) == (1000, 40)
    one = spent(part, tmp_path / "one.csv", 1)
    began = time.process_time()
    for setting in range(len(part)):
        estimate(part.request(setting))
    loop_s = (time.process_time() - began) / len(part)
    every = spent(whole, tmp_path / "all.csv", None)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    show(
        capsys,
        f"{model}: {1 / every.wall_s:.1f} settings/s on {cores} cores, {1 / one.wall_s:.1f} on one: "
        f"{one.wall_s / every.wall_s:.2f} times; 1,000 in {1000 * every.wall_s:.0f} s",
    )
    show(
        capsys,
        f"{model}: {every.processor_s:.2f} s of a processor a setting on {cores} cores, {one.processor_s:.2f} on one, "
        f"{loop_s:.2f} in a loop",
    )

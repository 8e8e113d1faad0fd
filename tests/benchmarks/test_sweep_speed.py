"""Speed of sweeps: settings a second on all cores against one; ``pytest tests/benchmarks/test_sweep_speed.py -s``.

Goal: 1,000 settings on all cores, in as many times less than on one as there are cores. On one core a part of them is
timed, on all cores all; both count the start of processes. The second line tells what is not estimates: what one
process of the sweep takes for the same settings, over the same estimates in a loop here.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from wse.studies.estimate import estimate
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


def seconds(grid: Grid, table: Path, jobs: int | None) -> float:
    began = time.perf_counter()
    report = sweep(grid, table, jobs=jobs)
    assert report["settings_failed"] < report["settings"]
    return time.perf_counter() - began


@pytest.mark.parametrize("model", MODELS)
def test_a_thousand_settings(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, part = read_grid(model, [*MODELS[model], *OTHERS]), read_grid(model, [*MODELS[model], *FEWER])
    assert (len(whole), len(part)) == (1000, 40)
    one_s = seconds(part, tmp_path / "one.csv", 1) / len(part)
    began = time.perf_counter()
    for setting in range(len(part)):
        estimate(part.request(setting))
    loop_s = (time.perf_counter() - began) / len(part)
    all_s = seconds(whole, tmp_path / "all.csv", None) / len(whole)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    show(
        capsys,
        f"{model}: {1 / all_s:.1f} settings/s on {cores} cores, {1 / one_s:.1f} on one: {one_s / all_s:.2f} times; "
        f"1,000 in {1000 * all_s:.0f} s",
    )
    show(capsys, f"{model}: one process of a sweep takes {one_s / loop_s:.2f} times a loop over its estimates")

"""Speed of sweeps: settings a second on all cores against one; ``pytest tests/benchmarks/test_sweep_speed.py``.

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

from tests.benchmarks.conftest import BySize, Say
from wse.studies.estimate.study import estimate
from wse.studies.sweep.grid import Grid
from wse.studies.sweep.request import read_grid
from wse.studies.sweep.study import sweep

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
FEWEST = ["mesh=16x16,18x18", "prompt_len=16", "new_tokens=16", "schedule=baseline"]


@dataclass(frozen=True)
class SettingTime:
    """Seconds on one setting."""

    wall_s: float
    processor_s: float


def time_sweep(grid: Grid, table: Path, jobs: int | None) -> SettingTime:
    began, processor_s = time.perf_counter(), processor_s_of_children()
    result = sweep(grid, table, jobs=jobs)
    assert result.settings_failed < result.settings
    count = len(grid)
    return SettingTime((time.perf_counter() - began) / count, (processor_s_of_children() - processor_s) / count)


def processor_s_of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


@pytest.mark.parametrize("model", ["story", pytest.param("llama-3-8b", marks=pytest.mark.full_size)])
def test_settings_a_second(model: str, tmp_path: Path, by_size: BySize, say: Say) -> None:
    whole = read_grid(model, by_size(small=FEWEST, full=[*MODELS[model], *OTHERS]))
    part = read_grid(model, by_size(small=FEWEST, full=[*MODELS[model], *FEWER]))
    one_core = time_sweep(part, tmp_path / "one.csv", 1)
    began = time.process_time()
    for setting in range(len(part)):
        estimate(part.request(setting))
    loop_s = (time.process_time() - began) / len(part)
    all_cores = time_sweep(whole, tmp_path / "all.csv", None)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    say(
        f"{model}: {1 / all_cores.wall_s:.1f} settings/s on {cores} cores, {1 / one_core.wall_s:.1f} on one: "
        f"{one_core.wall_s / all_cores.wall_s:.2f} times; 1,000 in {1000 * all_cores.wall_s:.0f} s",
    )
    say(
        f"{model}: {all_cores.processor_s:.2f} s of a processor a setting on {cores} cores, "
        f"{one_core.processor_s:.2f} on one, {loop_s:.2f} in a loop",
    )

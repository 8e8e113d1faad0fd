"""A sweep's rows are those of each estimate alone, whatever happens to its processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from tests.comparison.sweep.conftest import MakeGrid
from wse.errors import BadInput, WseBug
from wse.models.load import load_model
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import estimate
from wse.studies.sweep import row as rows
from wse.studies.sweep import study as module
from wse.studies.sweep.grid import Grid
from wse.studies.sweep.row import JournalEntry, flat
from wse.studies.sweep.study import sweep
from wse.studies.sweep.table import write_table
from wse.studies.workers import pool


def alone(grid: Grid, table: Path) -> bytes:
    """The table as it should be, of estimates one by one in this process."""
    entries = [
        JournalEntry(setting=setting, row=flat(estimate(grid.request(setting)).to_dict()))
        for setting in range(len(grid))
    ]
    write_table(grid, lambda: entries, table)
    return table.read_bytes()


@pytest.mark.slow
def test_killed_worker_takes_nothing_along(tmp_path: Path, grid_of: MakeGrid) -> None:
    grid = grid_of("mesh=3x3,3x2", "wafer.ramp_cycles=2,3")
    killed: list[int] = []

    def kill(done: int, failed: int) -> None:
        if done in (1, 2):
            child = multiprocessing.active_children()[0]
            assert child.pid is not None
            os.kill(child.pid, signal.SIGTERM)
            killed.append(child.pid)

    sweep(grid, tmp_path / "t.csv", jobs=1, on_row=kill)
    assert len(set(killed)) == 2
    assert (tmp_path / "t.csv").read_bytes() == alone(grid, tmp_path / "alone.csv")


@pytest.mark.slow
def test_setting_that_kills_its_process_each_time_is_a_row(grid_of: MakeGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    class Deadly(EstimateRequest):
        def __reduce__(self) -> tuple[object, tuple[int]]:
            return os._exit, (9,)

    monkeypatch.setattr(Grid, "request", lambda grid, setting: Deadly())
    (answered,) = module._outcomes(grid_of("mesh=3x3"), [0], 1, pool.outputs)
    entry = JournalEntry.model_validate_json(answered.line)
    assert "ended 2 times (exit code 9)" in entry.error
    assert "fewer --jobs" in entry.error


def test_processes_that_cannot_start_are_one_line(grid_of: MakeGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "work", os._exit)  # of a pipe: the process ends with exit code 1
    with pytest.raises(
        BadInput, match=r"could not start \(exit code 1\).*fewer --jobs, and give the same command again"
    ):
        list(module._outcomes(grid_of("mesh=3x3"), [0], 1, pool.outputs))


def test_bug_is_a_row_and_is_told_when_the_table_is_there(
    tmp_path: Path, grid_of: MakeGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(request: EstimateRequest) -> object:
        message = "oh"
        raise KeyError(message)

    monkeypatch.setattr(rows, "estimate", broken)
    monkeypatch.setattr(
        module, "_outcomes", lambda grid, *_: iter([rows.estimate_setting(0, grid.request(0))])
    )  # in this process, where estimate is broken
    with pytest.raises(WseBug, match=r"(?s)1 settings ended in a bug.*Traceback.*KeyError: 'oh'"):
        sweep(grid_of("mesh=3x3"), tmp_path / "t.csv")
    assert "a bug of wse: KeyError: 'oh'" in (tmp_path / "t.csv").read_text()


def test_another_model_of_the_same_name_is_another_sweep(tmp_path: Path, grid_of: MakeGrid, config: Path) -> None:
    grid, table = grid_of("mesh=3x3"), tmp_path / "t.csv"
    table.mkdir()
    before = module._digest(grid)
    config.write_text(config.read_text().replace('"intermediate_size": 20', '"intermediate_size": 24'))
    assert load_model(str(config)).spec.ffn_size == 24
    assert module._digest(grid) != before


def test_another_pattern_in_the_same_file_is_another_sweep(tmp_path: Path, grid_of: MakeGrid) -> None:
    file = tmp_path / "mine.py"
    file.write_text("mine = None")
    grid = grid_of(f"all_reduce=chain,{file}:mine")
    before = module._digest(grid)
    assert module._digest(grid) == before
    file.write_text("mine = 1")
    assert module._digest(grid) != before

"""Tests of the journal of a sweep, which lets an interrupted sweep continue, and of sweeps whose workers fail."""

import multiprocessing
import os
import signal
from pathlib import Path

import pytest
from small_files import small_files

from tests.comparison.sweep.conftest import MakeGrid
from wse.errors import BadInput, WseBug
from wse.models.load import load_model
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import estimate
from wse.studies.sweep import row as rows
from wse.studies.sweep import study as module
from wse.studies.sweep.grid import Grid
from wse.studies.sweep.journal import Journal, journal_path
from wse.studies.sweep.row import JournalEntry, flat
from wse.studies.sweep.study import sweep
from wse.studies.sweep.table import write_table
from wse.studies.workers import pool

ENTRIES = [
    JournalEntry(setting=2, row={"a": 1, "b": 0.1, "c": True, "d": None, "e": "1\n,\u2028é"}),
    JournalEntry(setting=0, error="does not fit"),
    JournalEntry(setting=1, row={"a": 1e300, "b": -0.0}),
]
SETTINGS = 4


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table.csv"


def write(table: Path, *, restart: bool = False) -> None:
    """Write a journal with the rows of `ENTRIES`."""
    with Journal(table, "d", SETTINGS, restart=restart) as journal:
        for entry in ENTRIES:
            journal.append(entry)
        assert {entry.setting: entry for entry in journal.entries()} == {entry.setting: entry for entry in ENTRIES}


def test_journal_yields_finished_settings_in_grid_order(table: Path) -> None:
    write(table)
    with Journal(table, "d", SETTINGS) as journal:
        assert journal.finished_settings() == [0, 1, 2]
        found = list(journal.entries())
        assert found == sorted(ENTRIES, key=lambda entry: entry.setting)
        assert [type(cell) for cell in found[2].row.values()] == [int, float, bool, type(None), str]
        with pytest.raises(WseBug):
            journal.append(ENTRIES[0])
        journal.remove()
    assert not journal_path(table).exists()


def test_journal_cut_at_any_byte_keeps_all_whole_lines(table: Path) -> None:
    write(table)
    whole = journal_path(table).read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    for cut in (*range(0, len(whole), 3), *(end + by for end in ends[:-1] for by in (-1, 0, 1))):
        journal_path(table).write_bytes(whole[:cut])
        kept = max(0, sum(end <= cut for end in ends) - 1)
        with Journal(table, "d", SETTINGS) as journal:
            assert len(journal.finished_settings()) == kept, cut
            for entry in ENTRIES[kept:]:
                journal.append(entry)
        assert journal_path(table).read_bytes() == whole, cut


def test_journal_is_open_only_once_at_a_time(table: Path) -> None:
    with Journal(table, "d", SETTINGS) as journal:
        journal.append(ENTRIES[1])
        with pytest.raises(BadInput, match=r"another sweep is writing it; wait for that, or give another path with -o"):
            Journal(table, "d", SETTINGS)
    with Journal(table, "d", SETTINGS) as journal:
        assert journal.finished_settings() == [0]


@pytest.mark.parametrize(("digest", "settings"), [("e", SETTINGS), ("d", SETTINGS + 1)])
def test_other_settings_are_refused_without_restart(table: Path, digest: str, settings: int) -> None:
    write(table)
    before = journal_path(table).read_bytes()
    with pytest.raises(BadInput, match=r"was begun with other settings.*--restart"):
        Journal(table, digest, settings)
    assert journal_path(table).read_bytes() == before
    with Journal(table, digest, settings, restart=True) as journal:
        assert journal.finished_settings() == []


def test_another_version_is_refused(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(table)
    monkeypatch.setattr("wse.__version__", "99.0")
    with pytest.raises(BadInput, match=r"was begun by wse '0.*', this is 99.0; .*--restart"):
        Journal(table, "d", SETTINGS)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("content", [b"mine\n", b"mine", b"[]\n", b"{}\n", b"[" * 100_000 + b"\n", b"\xff\x00\n"])
def test_file_that_is_no_journal_is_left_alone(table: Path, content: bytes, restart: bool) -> None:  # noqa: FBT001
    journal_path(table).write_bytes(content)
    with pytest.raises(BadInput, match=r"is not the journal of a sweep; move it away, or give another path with -o"):
        Journal(table, "d", SETTINGS, restart=restart)
    assert journal_path(table).read_bytes() == content


@pytest.mark.parametrize(
    "line",
    [
        b'{"setting": 4, "row": {}}',
        b'{"setting": -1, "row": {}}',
        b'{"setting": 0, "error": "again"}',
        b'{"setting": 3.0, "row": {}}',
        b'{"setting": 3, "row": {"a": [1]}}',
        b'{"setting": 3, "row": {"a": NaN}}',
        b'{"setting": 3, "row": {"a": "' + b"x" * 2**20 + b'"}}',
    ],
)
def test_line_that_is_no_setting_is_refused(table: Path, line: bytes) -> None:
    write(table)
    with journal_path(table).open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(BadInput, match=r"line 5 is not a setting of this sweep; start again with --restart"):
        Journal(table, "d", SETTINGS)
    write(table, restart=True)


def test_full_disk_is_an_error_that_keeps_finished_settings(table: Path) -> None:
    with Journal(table, "d", SETTINGS) as journal:
        journal.append(ENTRIES[1])
        size = journal_path(table).stat().st_size
        message = r"cannot write table.csv.partial: File too large; correct that and"
        with pytest.raises(BadInput, match=message), small_files(size + 9):
            journal.append(ENTRIES[2])
        assert journal.finished_settings() == [0]
    with Journal(table, "d", SETTINGS) as journal:
        assert journal.finished_settings() == [0]


def test_path_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot write table.csv.partial: No such file or directory"):
        Journal(tmp_path / "none" / "table.csv", "d", SETTINGS)
    journal_path(tmp_path / "a.csv").mkdir()
    (tmp_path / "b.csv").mkdir()
    for name in ("a.csv", "b.csv"):
        with pytest.raises(BadInput, match=r"is not a regular file; give another path with -o"):
            Journal(tmp_path / name, "d", SETTINGS)


def estimated_in_this_process(grid: Grid, table: Path) -> bytes:
    """Return the expected table: estimate each setting of the grid in this process and write the rows to `table`."""
    entries = [
        JournalEntry(setting=setting, row=flat(estimate(grid.request(setting)).to_dict()))
        for setting in range(len(grid))
    ]
    write_table(grid, lambda: entries, table)
    return table.read_bytes()


@pytest.mark.slow
def test_killed_worker_loses_no_setting(tmp_path: Path, grid_of: MakeGrid) -> None:
    grid = grid_of("mesh=3x3,3x2", "wafer.ramp_cycles=2,3", "mapping=region", "schedule=baseline")
    killed: list[int] = []

    def kill(done: int, total: int, name: str) -> None:
        if done == 1:
            child = multiprocessing.active_children()[0]
            assert child.pid is not None
            os.kill(child.pid, signal.SIGTERM)
            killed.append(child.pid)

    sweep(grid, tmp_path / "t.csv", jobs=1, on_progress=kill)
    assert len(killed) == 1
    assert (tmp_path / "t.csv").read_bytes() == estimated_in_this_process(grid, tmp_path / "expected.csv")


@pytest.mark.slow
def test_setting_that_always_kills_its_process_is_an_error_row(
    grid_of: MakeGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deadly(EstimateRequest):
        def __reduce__(self) -> tuple[object, tuple[int]]:
            return os._exit, (9,)

    monkeypatch.setattr(Grid, "request", lambda grid, setting: Deadly())
    ((entry, _),) = module._outcomes(grid_of("mesh=3x3"), [0], 1, pool.outputs)
    assert "ended 2 times (exit code 9)" in entry.error
    assert "fewer --jobs" in entry.error


def test_processes_that_cannot_start_are_an_error(grid_of: MakeGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "work", os._exit)  # its argument is a pipe, so the process ends with exit code 1
    with pytest.raises(
        BadInput, match=r"could not start \(exit code 1\).*fewer --jobs, and give the same command again"
    ):
        list(module._outcomes(grid_of("mesh=3x3"), [0], 1, pool.outputs))


def test_bug_is_a_row_and_is_raised_after_the_table_is_written(
    tmp_path: Path, grid_of: MakeGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(request: EstimateRequest) -> object:
        raise KeyError("oh")

    monkeypatch.setattr(rows, "cached_estimate", broken)
    # Run the setting in this process, because `cached_estimate` is replaced only here.
    monkeypatch.setattr(module, "_outcomes", lambda grid, *_: iter([rows.estimate_setting(0, grid.request(0))]))
    with pytest.raises(WseBug, match=r"(?s)1 settings ended in a bug.*Traceback.*KeyError: 'oh'"):
        sweep(grid_of("mesh=3x3"), tmp_path / "t.csv")
    assert "a bug of wse: KeyError: 'oh'" in (tmp_path / "t.csv").read_text()


def test_digest_changes_with_the_content_of_the_config_file(grid_of: MakeGrid, config: Path) -> None:
    grid = grid_of("mesh=3x3")
    before = module._digest(grid)
    config.write_text(config.read_text().replace('"intermediate_size": 20', '"intermediate_size": 24'))
    assert load_model(str(config)).spec.ffn_size == 24
    assert module._digest(grid) != before


def test_digest_changes_with_the_content_of_a_pattern_file(tmp_path: Path, grid_of: MakeGrid) -> None:
    file = tmp_path / "mine.py"
    file.write_text("mine = None")
    grid = grid_of(f"all_reduce=chain,{file}:mine")
    before = module._digest(grid)
    assert module._digest(grid) == before
    file.write_text("mine = 1")
    assert module._digest(grid) != before

"""Tests of the cache on disk: damaged files, eviction, file system errors and several processes."""

import json
import os
from multiprocessing import get_context
from pathlib import Path

import pytest

from wse.cache import store
from wse.cache.store import FOLDER_VARIABLE, cache_folder, clear, read_entry, stored_files, without_cache, write_entry

KEY, OTHER_KEY = "0" * 64, "f" * 64
CLEANING_KEY = "f" * 63 + "0"
"""A key whose writing also deletes old entries, because its last digit is `store.CLEANING_DIGIT`."""
VALUES = ["layout", 1.5, [None, True, "µs"]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the cache folder to a new path and return it."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_entry_is_read_only_under_its_key(folder: Path) -> None:
    write_entry(KEY, VALUES)
    assert read_entry(KEY) == VALUES
    assert read_entry(OTHER_KEY) is None
    assert folder.stat().st_mode & 0o077 == 0
    assert [file.path.name for file in stored_files(folder)] == [f"{KEY}.entry"]
    with without_cache():
        assert cache_folder() is None
        assert read_entry(KEY) is None
    assert read_entry(KEY) == VALUES


@pytest.mark.parametrize("damage", ["cut", "digit", "other key", "not JSON", "empty", "folder", "nested", "huge"])
def test_damaged_or_foreign_file_is_ignored_and_replaced(
    folder: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_entry(KEY, VALUES)
    path = folder / f"{KEY}.entry"
    data = path.read_bytes()
    body = {"not JSON": b"[1,", "nested": b"[" * 10**6}.get(damage, json.dumps(VALUES).encode())
    if damage == "folder":
        path.unlink()
        path.mkdir()
    elif damage == "other key":
        path.rename(folder / f"{OTHER_KEY}.entry")
        assert read_entry(OTHER_KEY) is None
    elif damage == "huge":
        monkeypatch.setattr(store, "ENTRY_LIMIT_BYTES", len(data) - 1)
    else:
        with_body = store._first_line(KEY, body).encode() + b"\n" + body
        damaged = {"cut": data[:-3], "digit": data.replace(b"1.5", b"1.6"), "empty": b""}
        path.write_bytes(damaged.get(damage, with_body))
    assert read_entry(KEY) is None
    if damage not in ("folder", "huge"):
        write_entry(KEY, VALUES)
        assert read_entry(KEY) == VALUES


def test_least_recently_used_entries_are_deleted_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"{number:064x}" for number in range(8)]
    for number, key in enumerate(keys):
        write_entry(key, VALUES)
        os.utime(folder / f"{key}.entry", (number, number))
    assert read_entry(keys[0]) == VALUES  # reading marks the entry as used now
    left_over, foreign = folder / f"{KEY}.1-1.tmp", folder / "notes.txt"
    for path in (left_over, foreign):
        path.write_text("x")
        os.utime(path, (0, 0))
    size = stored_files(folder)[0].bytes
    monkeypatch.setattr(store, "LIMIT_BYTES", 8 * size)
    write_entry(OTHER_KEY, VALUES)
    assert len(stored_files(folder)) == 10
    write_entry(CLEANING_KEY, VALUES)
    kept = {file.path.name for file in stored_files(folder)}
    assert kept == {f"{key}.entry" for key in (keys[0], *keys[5:], OTHER_KEY, CLEANING_KEY)}
    assert clear(folder) == 6
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_file_system_errors_do_not_raise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "file" / "cache"))
    write_entry(KEY, VALUES)
    assert read_entry(KEY) is None


def test_processes_share_the_folder(folder: Path) -> None:
    with get_context("fork").Pool(4) as pool:
        assert set(pool.map(_write_and_read, range(40))) == {True}
    assert len(stored_files(folder)) == 4


def _write_and_read(number: int) -> bool:
    """Write an entry that other processes write too, and return whether it is read back completely."""
    key = f"{number % 4:064x}"
    values = [number % 4] * 1000
    write_entry(key, values)
    return bool(read_entry(key) == values)

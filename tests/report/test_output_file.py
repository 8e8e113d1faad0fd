"""Tests of output files and folders: they are written completely, or the old ones stay unchanged."""

import os
import re
from pathlib import Path

import pytest

from wse.errors import BadInput
from wse.reports.output_file import open_output, open_output_folder, output_path, write_output


class WriteError(Exception):
    """An error in the middle of writing."""


def test_file_is_replaced_only_when_completely_written(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(WriteError), open_output("-o", path) as file:  # noqa: PT012
        file.write(b"half")
        file.flush()
        assert path.read_bytes() == b"old"
        raise WriteError
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"x": b"old"}
    write_output("-o", path, b"new")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"x": b"new"}


def test_folder_is_replaced_only_when_completely_written(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for name in ("a", "b"):
        with open_output_folder("-o", path) as folder:
            (folder / name).write_bytes(b"")
        assert [p.name for p in path.iterdir()] == [name]
    with pytest.raises(WriteError), open_output_folder("-o", path) as folder:  # noqa: PT012
        (folder / "c").write_bytes(b"")
        raise WriteError
    assert [p.relative_to(tmp_path).as_posix() for p in sorted(tmp_path.rglob("*"))] == ["x", "x/b"]


def test_link_stays_a_link_and_a_long_name_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_output("-o", tmp_path / "link", b"1")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"1"
    for name in ("x" * 255, "é" * 127):
        write_output("-o", tmp_path / name, b"2")
        assert (tmp_path / name).read_bytes() == b"2"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_device_is_written_to_directly() -> None:
    with pytest.raises(BadInput, match=r"-o /dev/full: cannot be written \(No space left on device\)"):
        write_output("-o", Path("/dev/full"), b"x")
    assert not Path("/dev/full").is_file()


def test_path_that_cannot_be_created_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file" / "x", tmp_path / "no" / "x", tmp_path / ("x" * 300)):
        with pytest.raises(BadInput, match=r"^-o .*: cannot be written \(.*\); give another name$"):
            write_output("-o", path, b"")
        with (
            pytest.raises(BadInput, match=r"^-o .*: cannot be written \(.*\); give another name$"),
            open_output_folder("-o", path),
        ):
            pass
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_folder_without_write_permission_is_refused_before_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(BadInput, match=f"^--csv .*x.csv: {re.escape(str(tmp_path))} may not be written; give another"):
        output_path("--csv", str(tmp_path / "x.csv"))
    assert output_path("--csv", os.devnull) == Path(os.devnull)

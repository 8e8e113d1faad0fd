"""Targets that cannot be written: one clean line each."""

from __future__ import annotations

import os

import pytest

from wse_traces import TraceError, TraceWriter


def test_folder_of_a_target_is_missing_or_a_file(tmp_path, header):
    (tmp_path / "file").touch()
    for name, message in (
        ("no", "No such file or directory; give another path"),
        ("file", "cannot write a trace"),
    ):
        with pytest.raises(TraceError, match=message):
            TraceWriter(tmp_path / name / "t.h5", header)


def test_target_is_a_folder_or_a_device(tmp_path, header):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(TraceError, match="not a regular file"):
            TraceWriter(path, header)
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


def test_target_folder_not_writable(tmp_path, header):
    tmp_path.chmod(0o500)
    try:
        if os.access(tmp_path, os.W_OK):
            pytest.skip("this user may write everywhere")
        with pytest.raises(TraceError, match="Permission denied"):
            TraceWriter(tmp_path / "t.h5", header)
    finally:
        tmp_path.chmod(0o700)


def test_partial_replaced_by_another_program_is_not_published(tmp_path, header):
    writer = TraceWriter(tmp_path / "t.h5", header)
    writer.path.unlink()
    writer.path.write_bytes(b"another")
    with pytest.raises(TraceError, match="replaced by another run"):
        writer.close()
    assert not (tmp_path / "t.h5").exists()

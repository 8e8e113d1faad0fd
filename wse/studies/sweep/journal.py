"""Journal of a sweep: finished settings, kept in ``TABLE.partial`` until the table is written.

The file contains lines of JSON. The first line identifies the settings and the wse version. Each
subsequent line is a finished setting, in order of completion. A killed process leaves at most one
incomplete line at the end, which is removed when the sweep resumes.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Literal

import pydantic

import wse
from wse.errors import BadInput, WseBug
from wse.studies.sweep.row import JournalEntry

if sys.platform != "win32":
    import fcntl

LONGEST_LINE_BYTES: Final = 2**20
_ABSENT: Final = -1


class _Header(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    kind: Literal["wse-sweep"] = "wse-sweep"
    format: Literal[1] = 1
    wse: str = wse.__version__
    digest: str
    settings: int

    def line(self) -> bytes:
        """Return the first line of a journal."""
        return self.model_dump_json().encode() + b"\n"


def journal_path(table: Path) -> Path:
    """Return the path of the journal, which stores finished settings until the table is written.

    For a table ``table.csv``, it is ``table.csv.partial``.
    """
    return table.with_name(table.name + ".partial")


class Journal:
    """File in which a sweep stores finished settings until its table is written.

    An interrupted sweep resumes from this file. A file lock ensures that only one process has the
    file open at a time.
    """

    def __init__(self, table: Path, digest: str, settings: int, *, restart: bool = False) -> None:
        """Open or create the journal of a table.

        Args:
            table: Path of the table that the sweep will write.
            digest: Digest of everything that affects the results.
            settings: Number of settings in the sweep.
            restart: True to discard the results in an existing journal. False to keep them, so that
                the sweep continues after the last finished setting.

        Raises:
            BadInput: The folder is not writable, another sweep has the journal open, or the
                existing file is not a journal or belongs to a sweep with different settings.
        """
        self.path = journal_path(table)
        self._table = table
        self._at = array("q", [_ABSENT]) * settings  # start of each setting's line in the file
        self._header = _Header(digest=digest, settings=settings)
        self._end = 0
        self._file = self._lock()
        try:
            with self._refused_in_one_line():
                self._resume(restart=restart)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def finished_settings(self) -> list[int]:
        """Return the indices of the finished settings, in grid order."""
        return [setting for setting, at in enumerate(self._at) if at != _ABSENT]

    def append(self, entry: JournalEntry) -> None:
        """Append the result of a finished setting to the file.

        Raises:
            BadInput: The line cannot be written, for example because the disk is full.
            WseBug: The setting is already in the journal.
        """
        if self._at[entry.setting] != _ABSENT:
            raise WseBug(f"setting {entry.setting} is done twice")
        start = self._end
        with self._refused_in_one_line():
            self._write(entry.line())
        self._at[entry.setting] = start

    def entries(self) -> Iterator[JournalEntry]:
        """Yield the finished settings with their results, in grid order."""
        for at in self._at:
            if at != _ABSENT:
                self._file.seek(at)
                yield JournalEntry.model_validate_json(self._file.readline(LONGEST_LINE_BYTES))

    def remove(self) -> None:
        """Delete the file, which is no longer needed once the table is written."""
        with self._refused_in_one_line():
            self.path.unlink()

    def _lock(self) -> BinaryIO:
        if any(path.exists() and not path.is_file() for path in (self._table, self.path)):
            raise BadInput(f"{self._table}: it or {self.path.name} is not a regular file; give another path with -o")
        with self._refused_in_one_line():
            while True:
                file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644), "rb")
                try:
                    if sys.platform != "win32":
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
                        return file
                except BlockingIOError:
                    file.close()
                    raise BadInput(
                        f"{self._table}: another sweep is writing it; wait for that, or give another path with -o"
                    ) from None
                except FileNotFoundError:
                    pass  # the other sweep has just finished and removed the file
                file.close()

    def _resume(self, *, restart: bool) -> None:
        first = self._file.readline(LONGEST_LINE_BYTES)
        is_complete = first.endswith(b"\n")
        if first and (is_complete or not self._header.line().startswith(first)):
            self._check_header(first, restart=restart)
        if restart or not is_complete:
            os.ftruncate(self._file.fileno(), 0)
            self._write(self._header.line())
            return
        self._end = len(first)
        for number, line in enumerate(iter(lambda: self._file.readline(LONGEST_LINE_BYTES), b""), start=2):
            if not line.endswith(b"\n") and len(line) < LONGEST_LINE_BYTES:  # incomplete last line of a killed sweep
                os.ftruncate(self._file.fileno(), self._end)
                return
            self._note(line, number)
            self._end += len(line)

    def _write(self, line: bytes) -> None:
        """Append a line to the file without buffering, so that no line is lost in a crash."""
        written_bytes = 0
        while written_bytes < len(line):
            written_bytes += os.pwrite(self._file.fileno(), line[written_bytes:], self._end + written_bytes)
        self._end += written_bytes

    def _check_header(self, line: bytes, *, restart: bool) -> None:
        remedy = "give --restart to start again, or another path with -o to keep it"
        try:
            content = json.loads(line)
            if not isinstance(content, dict) or content.get("kind") != self._header.kind:
                raise ValueError
        except (ValueError, RecursionError):
            raise BadInput(
                f"{self.path}: is not the journal of a sweep; move it away, or give another path with -o"
            ) from None
        if restart:
            return
        if content.get("wse") != wse.__version__:
            raise BadInput(f"{self.path}: was begun by wse {content.get('wse')!r}, this is {wse.__version__}; {remedy}")
        if content != self._header.model_dump():
            raise BadInput(
                f"{self.path}: was begun with other settings, or files that they name have changed; {remedy}"
            )

    def _note(self, line: bytes, number: int) -> None:
        try:
            setting = JournalEntry.model_validate_json(line).setting
            if not 0 <= setting < len(self._at) or self._at[setting] != _ABSENT:
                raise ValueError
        except ValueError:
            raise BadInput(
                f"{self.path}: line {number} is not a setting of this sweep; start again with --restart"
            ) from None
        self._at[setting] = self._end

    @contextlib.contextmanager
    def _refused_in_one_line(self) -> Iterator[None]:
        """Convert operating-system errors raised inside the ``with`` block to BadInput.

        The message tells the user how to resume the sweep.
        """
        try:
            yield
        except OSError as error:
            raise BadInput(
                f"{self._table}: cannot write {self.path.name}: {error.strerror or error}; correct that "
                "and give the same command again, which resumes the sweep, or give another path with -o"
            ) from error

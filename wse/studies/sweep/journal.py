"""Journal of a sweep: finished settings on disk, as ``TABLE.partial`` beside the table until that is written.

Lines of JSON. The first says which settings and which version of wse; each further one is a setting that is done, in
the order in which they were. A line goes out whole, so a process that is killed leaves at most a last line without an
end, which is cut off when the sweep goes on.
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
from wse.studies.sweep.row import Entry

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
    """Return the path of a table's journal: ``table.csv.partial``."""
    return table.with_name(table.name + ".partial")


class Journal:
    """The open journal of a table. One process has it at a time."""

    def __init__(self, table: Path, digest: str, settings: int, *, restart: bool = False) -> None:
        """Open the journal beside ``table``, or begin one.

        Args:
            table: The file that the sweep will write.
            digest: Of everything that the rows depend on.
            settings: The number of settings.
            restart: Whether what an earlier sweep has done is dropped.

        Raises:
            BadInput: the place cannot be written, another sweep is writing there, or the file that is there is of other
                settings or no journal.
        """
        self.path = journal_path(table)
        self._table = table
        self._at = array("q", [_ABSENT]) * settings  # where each setting's line begins
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
        """Return the finished settings, in the grid's order."""
        return [setting for setting, at in enumerate(self._at) if at != _ABSENT]

    def append(self, setting: int, line: bytes) -> None:
        """Write down a setting that is done, as the line of its `Entry`. Raises BadInput where there is no room."""
        if self._at[setting] != _ABSENT:
            message = f"setting {setting} is done twice"
            raise WseBug(message)
        with self._refused_in_one_line():
            self._write(line)
        self._at[setting] = self._end - len(line)

    def entries(self) -> Iterator[Entry]:
        """Yield the finished settings with their rows, in the grid's order."""
        for at in self._at:
            if at != _ABSENT:
                self._file.seek(at)
                yield Entry.model_validate_json(self._file.readline(LONGEST_LINE_BYTES))

    def remove(self) -> None:
        """Take the file away, once the table is there."""
        with self._refused_in_one_line():
            self.path.unlink()

    def _lock(self) -> BinaryIO:
        if any(path.exists() and not path.is_file() for path in (self._table, self.path)):
            message = f"{self._table}: it or {self.path.name} is no regular file; give another path with -o"
            raise BadInput(message)
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
                    message = f"{self._table}: another sweep is writing it; wait for that, or give another path with -o"
                    raise BadInput(message) from None
                except FileNotFoundError:
                    pass  # the sweep that had it has just finished
                file.close()

    def _resume(self, *, restart: bool) -> None:
        first = self._file.readline(LONGEST_LINE_BYTES)
        whole = first.endswith(b"\n")
        if first and (whole or not self._header.line().startswith(first)):
            self._check_header(first, restart=restart)
        if restart or not whole:
            os.ftruncate(self._file.fileno(), 0)
            self._write(self._header.line())
            return
        self._end = len(first)
        for number, line in enumerate(iter(lambda: self._file.readline(LONGEST_LINE_BYTES), b""), start=2):
            if not line.endswith(b"\n") and len(line) < LONGEST_LINE_BYTES:  # the last, cut off by a kill
                os.ftruncate(self._file.fileno(), self._end)
                return
            self._note(line, number)
            self._end += len(line)

    def _write(self, line: bytes) -> None:
        """Past all buffers, so that what is written is all there is to write when the file is closed."""
        written = 0
        while written < len(line):
            written += os.pwrite(self._file.fileno(), line[written:], self._end + written)
        self._end += written

    def _check_header(self, line: bytes, *, restart: bool) -> None:
        remedy = "to begin anew give --restart, to keep it another path with -o"
        try:
            content = json.loads(line)
            if not isinstance(content, dict) or content.get("kind") != self._header.kind:
                raise ValueError
        except (ValueError, RecursionError):
            message = f"{self.path}: is no journal of a sweep; move it away, or give another path with -o"
            raise BadInput(message) from None
        if restart:
            return
        if content.get("wse") != wse.__version__:
            message = f"{self.path}: was begun by wse {content.get('wse')!r}, this is {wse.__version__}; {remedy}"
            raise BadInput(message)
        if content != self._header.model_dump():
            message = f"{self.path}: was begun with other settings, or files that they name have changed; {remedy}"
            raise BadInput(message)

    def _note(self, line: bytes, number: int) -> None:
        try:
            setting = Entry.model_validate_json(line).setting
            if not 0 <= setting < len(self._at) or self._at[setting] != _ABSENT:
                raise ValueError
        except ValueError:
            message = f"{self.path}: line {number} is no setting of this sweep; begin anew with --restart"
            raise BadInput(message) from None
        self._at[setting] = self._end

    @contextlib.contextmanager
    def _refused_in_one_line(self) -> Iterator[None]:
        """Errors of the system inside become BadInput, in one line."""
        try:
            yield
        except OSError as error:
            message = (
                f"{self._table}: cannot write {self.path.name} there: {error.strerror or error}; mend that "
                "and give the same command again, which goes on after what it holds, or another path with -o"
            )
            raise BadInput(message) from error

"""Lines of a trace file, read one by one with limits on their size and number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from wse.errors import BadInput

LIMIT_BYTES: Final = 256 * 2**20
MAX_LINE_BYTES: Final = 2**20
BYTE_ORDER_MARK: Final = "\ufeff"


class TraceLine(NamedTuple):
    """One line of a trace file.

    Attributes:
        path: The file.
        number: Line number, from 1.
        text: The line without its line break.
    """

    path: Path
    number: int
    text: str

    @property
    def place(self) -> str:
        """File and line number, for error messages."""
        return f"{self.path}, line {self.number}"


def read_lines(path: Path) -> Iterator[TraceLine]:
    """Read a trace file line by line, so that a large file can be read in part.

    Args:
        path: Path of the file.

    Yields:
        The lines that are not empty, in the order of the file.

    Raises:
        BadInput: The file is not a readable regular file or not text in UTF-8, or a line or the
            part of the file that is read is too large.
    """
    number = total_bytes = 0
    try:
        if not path.is_file():
            reason = "is not a regular file" if path.exists() else "does not exist"
            raise BadInput(f"{path}: {reason}; give the path of a trace of requests")
        with path.open("rb") as stream:
            while data := stream.readline(MAX_LINE_BYTES + 1):
                number, total_bytes = number + 1, total_bytes + len(data)
                _check_sizes(path, number, len(data), total_bytes)
                text = data.decode("utf-8").rstrip("\r\n")
                text = text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text
                if text.strip():
                    yield TraceLine(path, number, text)
    except UnicodeDecodeError as fault:
        message = f"{path}, line {number}: not text in UTF-8 ({fault.reason}); give a CSV or JSON Lines file"
        raise BadInput(message) from fault
    except (OSError, ValueError) as fault:
        raise BadInput(f"{path}: cannot be read ({fault}); check the path and its permissions") from fault


def _check_sizes(path: Path, number: int, line_bytes: int, total_bytes: int) -> None:
    """Raise BadInput if a line is too long, or if too much of the file has been read.

    Args:
        path: Path of the file, for the message.
        number: Line number, for the message.
        line_bytes: Size of the line.
        total_bytes: Size of all lines read so far, including this one.
    """
    if line_bytes > MAX_LINE_BYTES:
        message = f"{path}, line {number}: is over {MAX_LINE_BYTES:,} bytes; is it a trace with one request per line?"
        raise BadInput(message)
    if total_bytes > LIMIT_BYTES:
        raise BadInput(f"{path}, line {number}: more than {LIMIT_BYTES:,} bytes; read fewer requests, with --requests")

"""Reading files that nobody has checked: regular ones, and no more of them than they may have."""

from __future__ import annotations

from pathlib import Path

from wse.errors import BadInput


def read_file(path: Path, limit_bytes: int, error: type[BadInput], what: str = "a readable file") -> bytes:
    """The bytes of a regular file; ``what`` it should have been is for the message.

    Raises:
        error: the file is missing, is not a regular file, cannot be read, or is over ``limit_bytes``.
    """
    try:
        if not path.is_file():
            reason = "is not a regular file" if path.exists() else "does not exist"
            msg = f"{path}: {reason}; give the path of {what}"
            raise error(msg)
        with path.open("rb") as stream:
            data = stream.read(limit_bytes + 1)
    except (OSError, ValueError) as fault:
        msg = f"{path}: cannot be read ({fault}); check the path and its permissions"
        raise error(msg) from fault
    if len(data) > limit_bytes:
        msg = f"{path}: is over {limit_bytes:,} bytes, the most such a file may have; is it the right file?"
        raise error(msg)
    return data

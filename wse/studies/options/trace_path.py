"""Check of a trace path before any slow work starts."""

from __future__ import annotations

import os
from pathlib import Path

from wse.errors import BadInput, BadTrace


def trace_path(trace: str | Path | None) -> Path | None:
    """Check that a trace file can be written to a path, and return the path.

    Nothing is written. Call this function before any slow work, so that errors are reported early.

    Args:
        trace: Path of the trace file, or None for no trace.

    Raises:
        BadInput: The path is empty.
        BadTrace: The folder is missing or not writable, or the path exists and is not a regular
            file.
    """
    if trace is None:
        return None
    if str(trace) == "":
        raise BadInput("--trace '': the path is empty; give a file name, or none")
    path = Path(trace)
    reason = _refusal(path)
    if reason:
        raise BadTrace(f"--trace {path}: cannot be written: {reason}; give another path with --trace, or --trace none")
    return path


def _refusal(path: Path) -> str:
    """Return the reason why no file can be written to a path; empty if a file can be written."""
    try:
        folder, name = path.parent, path.name
        if not folder.is_dir():
            return f"{folder} is not a folder"
        if (path.exists() and not path.is_file()) or not name:
            return "it is not a regular file"
        if not os.access(folder, os.W_OK | os.X_OK):
            return f"the folder {folder} may not be written"
    except (OSError, ValueError) as error:
        return str(getattr(error, "strerror", None) or error)
    return ""

"""The path of a trace, checked before anything long is done."""

from __future__ import annotations

import os
from pathlib import Path

from wse.errors import BadInput, BadTrace


def trace_path(trace: str | Path | None) -> Path | None:
    """Return the path of the trace that a request asks for; None where it asks for none. Nothing is written.

    Raises:
        BadInput: the path is empty.
        BadTrace: the folder is missing or cannot be written, or the path is something else than a file.
    """
    if trace is None:
        return None
    if str(trace) == "":
        message = "--trace '': the path is empty; give a file name, or none"
        raise BadInput(message)
    path = Path(trace)
    reason = _refusal(path)
    if reason:
        message = f"--trace {path}: cannot be written: {reason}; give another path with --trace, or --trace none"
        raise BadTrace(message)
    return path


def _refusal(path: Path) -> str:
    """Return the reason why no trace can be written at a path; empty where one can."""
    try:
        folder, name = path.parent, path.name
        if not folder.is_dir():
            return f"{folder} is no folder"
        if (path.exists() and not path.is_file()) or not name:
            return "it is not a regular file"
        if not os.access(folder, os.W_OK | os.X_OK):
            return f"the folder {folder} may not be written"
    except (OSError, ValueError) as error:
        return str(getattr(error, "strerror", None) or error)
    return ""

"""Where a trace may be written, found out before anything long is done."""

from __future__ import annotations

import os
from pathlib import Path

from wse.errors import BadTrace


def check_trace_path(path: Path) -> None:
    """Refuse a path where no trace can be written, before anything long is done; nothing is written.

    Raises:
        BadTrace: the folder is missing or cannot be written, or the path is something else than a file.
    """
    try:
        folder, name = path.parent, path.name
        if not folder.is_dir():
            reason = f"{folder} is no folder"
        elif (path.exists() and not path.is_file()) or not name:
            reason = "it is not a regular file"
        elif not os.access(folder, os.W_OK | os.X_OK):
            reason = f"the folder {folder} may not be written"
        else:
            return
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error)
    message = f"--trace {path}: cannot be written: {reason}; give another path with --trace, or --trace none"
    raise BadTrace(message)

"""Files that a command writes besides: named well before any work is done, written after."""

from __future__ import annotations

from pathlib import Path

from wse.errors import BadInput


def output_path(option: str, text: str, *, suffix: str = "", kind: str = "") -> Path:
    """The path that an option names; ``suffix`` and what ``kind`` of file it is for where only one will do.

    Raises:
        BadInput: the path does not end in ``suffix``, is empty or a folder, or its folder is missing.
    """
    path = Path(text)
    if suffix and path.suffix != suffix:
        message = f"{option} {path}: give the name of {kind}, which ends in {suffix}"
        raise BadInput(message)
    if text == "" or path.is_dir():
        message = f"{option} {text!r}: {'is a folder' if text else 'the path is empty'}; give a file name"
        raise BadInput(message)
    if not path.parent.is_dir():
        message = f"{option} {text}: {path.parent} is no folder; make it, or give another name"
        raise BadInput(message)
    return path


def write_output(option: str, path: Path, content: bytes) -> None:
    """Write what an option asked for. Raises BadInput when that cannot be."""
    try:
        path.write_bytes(content)
    except OSError as error:
        message = f"{option} {path}: cannot be written ({error.strerror}); give another name"
        raise BadInput(message) from error

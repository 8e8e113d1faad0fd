"""Files that a command writes besides: named well before any work is done, written after, whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

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
    with open_output(option, path) as file:
        file.write(content)


@contextmanager
def open_output(option: str, path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of ``path`` once all is written; when that fails, ``path`` stays as it was.

    A path that is no regular file, such as a device, is written to as it is.

    Raises:
        BadInput: it cannot be written.
    """
    path = path.resolve()
    beside = path if path.exists() and not path.is_file() else _beside(path)
    try:
        with beside.open("wb") as file:
            yield file
        if beside != path:
            beside.replace(path)
    except OSError as error:
        raise _unwritable(option, path, error) from error
    finally:
        if beside != path:
            beside.unlink(missing_ok=True)


@contextmanager
def open_output_folder(option: str, path: Path) -> Iterator[Path]:
    """An empty folder that takes the place of ``path`` once all is in it; when that fails, ``path`` stays as it was.

    Raises:
        BadInput: it cannot be written.
    """
    path = path.resolve()
    beside, old = _beside(path), path.with_name(f".{path.name[:200]}.{os.getpid()}.old")
    try:
        beside.mkdir()
        yield beside
        if path.exists():
            path.rename(old)
        beside.rename(path)
    except OSError as error:
        raise _unwritable(option, path, error) from error
    finally:
        if old.exists() and not path.exists():
            old.rename(path)
        shutil.rmtree(old, ignore_errors=True)
        shutil.rmtree(beside, ignore_errors=True)


def _beside(path: Path) -> Path:
    """A name in the same folder that nothing else uses."""
    return path.with_name(f".{path.name[:200]}.{os.getpid()}.partial")


def _unwritable(option: str, path: Path, error: OSError) -> BadInput:
    return BadInput(f"{option} {path}: cannot be written ({error.strerror or error}); give another name")

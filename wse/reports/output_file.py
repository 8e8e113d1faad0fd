"""Files that a command writes in addition to its report: paths checked first, content written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from wse.errors import BadInput
from wse_traces.errors import TraceError

_LONGEST: Final = 50  # characters of a name that the file beside it begins with, at most 200 bytes of the 255 there are


def output_path(option: str, text: str, *, suffix: str = "", kind: str = "", inputs: Iterable[Path] = ()) -> Path:
    """Return the path that an option names; ``suffix`` and what ``kind`` of file it is for where only one will do.

    Raises:
        BadInput: the path does not end in ``suffix``, is empty, a folder or one of the ``inputs``, which are read, or
            its folder is missing or may not be written.
    """
    path = Path(text)
    if text == "" or path.is_dir():
        message = f"{option} {text!r}: {'is a folder' if text else 'the path is empty'}; give a file name"
        raise BadInput(message)
    if not path.parent.is_dir():
        message = f"{option} {text}: {path.parent} is no folder; make it, or give another name"
        raise BadInput(message)
    written = path if path.exists() and not path.is_file() else path.parent  # a device, or the folder of a file
    if not os.access(written, os.W_OK):
        message = f"{option} {text}: {written} may not be written; give another name"
        raise BadInput(message)
    if path.exists() and any(source.exists() and path.samefile(source) for source in inputs):
        message = f"{option} {text}: is one of the files that are read; give another name"
        raise BadInput(message)
    if suffix and path.suffix != suffix:
        message = f"{option} {path}: give the name of {kind}, which ends in {suffix}"
        raise BadInput(message)
    return path


def picture_path(option: str, text: str, *, inputs: Iterable[Path] = ()) -> Path:
    """Return the path of a picture that an option names: PNG is what is drawn.

    Raises BadInput as `output_path` does.
    """
    return output_path(option, text, suffix=".png", kind="a PNG image", inputs=inputs)


def page_path(option: str, text: str, *, inputs: Iterable[Path] = ()) -> Path:
    """Return the path of an HTML page that an option names. Raises BadInput as `output_path` does."""
    return output_path(option, text, suffix=".html", kind="a page", inputs=inputs)


def write_output(option: str, path: Path, content: bytes) -> None:
    """Write what an option requested. Raises BadInput when that cannot be."""
    with open_output(option, path) as file:
        file.write(content)


@contextmanager
def open_output(option: str, path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of ``path`` once all is written; when that fails, ``path`` stays as it was.

    A path that is no regular file, such as a device, is written to as it is.

    Raises:
        BadInput: it cannot be written.
    """
    with _refused_in_one_line(option, path), contextlib.ExitStack() as stack:
        target = path.resolve()
        device = target.exists() and not target.is_file()
        beside = target if device else _free_path(target, "partial")
        if not device:
            stack.callback(beside.unlink, missing_ok=True)
        with beside.open("wb") as file:
            yield file
        if not device:
            beside.replace(target)


@contextmanager
def open_output_folder(option: str, path: Path) -> Iterator[Path]:
    """An empty folder that takes the place of ``path`` once all is in it; when that fails, ``path`` stays as it was.

    Raises:
        BadInput: it cannot be written.
    """
    with _refused_in_one_line(option, path), contextlib.ExitStack() as stack:
        target = path.resolve()
        beside, old = _free_path(target, "partial"), _free_path(target, "old")
        beside.mkdir()
        stack.callback(shutil.rmtree, beside, ignore_errors=True)
        yield beside
        if target.exists():
            target.rename(old)
            stack.callback(shutil.rmtree, old, ignore_errors=True)
        try:
            beside.rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise


@contextmanager
def _refused_in_one_line(option: str, path: Path) -> Iterator[None]:
    """Errors of the operating system inside become BadInput; those of a trace that is read meanwhile stay."""
    try:
        yield
    except TraceError:
        raise
    except OSError as error:
        message = f"{option} {path}: cannot be written ({error.strerror or error}); give another name"
        raise BadInput(message) from error


def _free_path(path: Path, kind: str) -> Path:
    """Return a name in the same folder that nothing else uses."""
    return path.with_name(f".{path.name[:_LONGEST]}.{os.getpid()}.{kind}")

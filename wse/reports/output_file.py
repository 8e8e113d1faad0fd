"""Output files of commands: path checks, and writing files either completely or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from wse.errors import BadInput
from wse_traces.errors import TraceError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LONGEST: Final = 50  # characters of a name to use for the temporary file: up to 200 of the 255 bytes of a name


def output_path(option: str, text: str, *, suffix: str = "", kind: str = "", inputs: Iterable[Path] = ()) -> Path:
    """Check and return the path of an output file specified by an option.

    Args:
        option: Name of the option, for error messages.
        text: Value of the option.
        suffix: Required suffix, or "" if any suffix is allowed.
        kind: Kind of file with an article, such as "a PNG image", for the error about the suffix.
        inputs: Files that are read, which must not be overwritten.

    Raises:
        BadInput: The path is empty, a folder or an input, has the wrong suffix, or its folder does
            not exist or is not writable.
    """
    path = Path(text)
    if text == "" or path.is_dir():
        raise BadInput(f"{option} {text!r}: {'is a folder' if text else 'the path is empty'}; give a file name")
    if not path.parent.is_dir():
        raise BadInput(f"{option} {text}: {path.parent} is not a folder; make it, or give another name")
    target = path if path.exists() and not path.is_file() else path.parent  # a device, or the folder of a file
    if not os.access(target, os.W_OK):
        raise BadInput(f"{option} {text}: {target} may not be written; give another name")
    if path.exists() and any(source.exists() and path.samefile(source) for source in inputs):
        raise BadInput(f"{option} {text}: is one of the files that are read; give another name")
    if suffix and path.suffix != suffix:
        raise BadInput(f"{option} {path}: give the name of {kind}, which ends in {suffix}")
    return path


def picture_path(option: str, text: str, *, inputs: Iterable[Path] = ()) -> Path:
    """Check and return the path of a PNG image specified by an option.

    Args:
        option: Name of the option, for error messages.
        text: Value of the option.
        inputs: Files that are read, which must not be overwritten.

    Raises:
        BadInput: The path cannot be written, is an input, or does not end in ``.png``.
    """
    return output_path(option, text, suffix=".png", kind="a PNG image", inputs=inputs)


def page_path(option: str, text: str, *, inputs: Iterable[Path] = ()) -> Path:
    """Check and return the path of an HTML page specified by an option.

    Args:
        option: Name of the option, for error messages.
        text: Value of the option.
        inputs: Files that are read, which must not be overwritten.

    Raises:
        BadInput: The path cannot be written, is an input, or does not end in ``.html``.
    """
    return output_path(option, text, suffix=".html", kind="a page", inputs=inputs)


def png_of(figure: Figure, dpi: int = 110) -> bytes:
    """Return a figure as a PNG image with a resolution of ``dpi`` dots per inch."""
    image = io.BytesIO()
    figure.savefig(image, dpi=dpi, format="png", metadata={"Software": None})
    return image.getvalue()


def write_output(option: str, path: Path, content: bytes) -> None:
    """Write a file that an option names, either completely or not at all.

    Args:
        option: Name of the option, for error messages.
        path: File to write.
        content: Content of the file.

    Raises:
        BadInput: The file cannot be written.
    """
    with open_output(option, path) as file:
        file.write(content)


@contextmanager
def open_output(option: str, path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file for writing, which replaces ``path`` when the context ends.

    After an error, ``path`` is unchanged. A path that is not a regular file, such as a device, is
    written directly.

    Args:
        option: Name of the option, for error messages.
        path: File to write.

    Raises:
        BadInput: The file cannot be written.
    """
    with _os_errors_as_bad_input(option, path), contextlib.ExitStack() as stack:
        target = path.resolve()
        is_device = target.exists() and not target.is_file()
        temporary_path = target if is_device else _free_path(target, "partial")
        if not is_device:
            stack.callback(temporary_path.unlink, missing_ok=True)
        with temporary_path.open("wb") as file:
            yield file
        if not is_device:
            temporary_path.replace(target)


@contextmanager
def open_output_folder(option: str, path: Path) -> Iterator[Path]:
    """Create an empty temporary folder, which replaces ``path`` when the context ends.

    After an error, ``path`` is unchanged.

    Args:
        option: Name of the option, for error messages.
        path: Folder to write.

    Raises:
        BadInput: The folder cannot be written.
    """
    with _os_errors_as_bad_input(option, path), contextlib.ExitStack() as stack:
        target = path.resolve()
        temporary_path, old_path = _free_path(target, "partial"), _free_path(target, "old")
        temporary_path.mkdir()
        stack.callback(shutil.rmtree, temporary_path, ignore_errors=True)
        yield temporary_path
        if target.exists():
            target.rename(old_path)
            stack.callback(shutil.rmtree, old_path, ignore_errors=True)
        try:
            temporary_path.rename(target)
        except OSError:
            if old_path.exists():
                old_path.rename(target)
            raise


@contextmanager
def _os_errors_as_bad_input(option: str, path: Path) -> Iterator[None]:
    """Convert operating-system errors to BadInput while an output is written.

    Errors from concurrently reading a trace are not converted.
    """
    try:
        yield
    except TraceError:
        raise
    except OSError as error:
        raise BadInput(f"{option} {path}: cannot be written ({error.strerror or error}); give another name") from error


def _free_path(path: Path, kind: str) -> Path:
    """Return an unused path for a hidden temporary file or folder next to a given path.

    Args:
        path: File or folder that the temporary one will replace.
        kind: Suffix that states the purpose, such as "partial".
    """
    return path.with_name(f".{path.name[:_LONGEST]}.{os.getpid()}.{kind}")

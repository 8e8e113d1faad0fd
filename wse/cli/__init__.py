"""The command line.

Each command has a file that parses options, calls a study, and prints the result.

``main`` converts errors to exit codes:

- Errors that the user can fix: one line on stderr, and exit code 2.
- Ctrl-C: exit code 130.
- A closed standard output, as by ``head``: exit code 0. Requested files are still written first.
- Bugs of wse: a traceback, and exit code 1.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from wse.cli.options import drop_stdout
from wse.garbage_collection import collect_rarely

INTERRUPTED = 130
COMPLETION = "_WSE_COMPLETE"
"""Environment variable that a shell sets when it calls ``wse`` for completion."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code.

    Args:
        arguments: Command-line arguments. With None, the arguments of the process are used, and the
            process is expected to end after the call.
    """
    is_process, arguments = arguments is None, sys.argv[1:] if arguments is None else arguments
    collect_rarely()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # do not fail for characters that the terminal lacks
    try:
        code = _run(list(arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        drop_stdout()
        return 0
    except OSError as error:
        if error.errno == errno.ENOSPC:
            message = "no space left on the device: free some, or write elsewhere"
        elif error.errno == errno.ENAMETOOLONG:
            from wse.reports.terminal import printable  # slow to load, and only needed here

            name = printable(Path(str(error.filename)).name[:20])
            message = f"{name}...: too long for the name of a file; give a shorter one"
        else:
            raise
        drop_stdout()
        sys.stderr.write(f"wse: {message}\n")
        return 2
    if is_process:
        gc.freeze()  # spares Python a last search for reference cycles among all objects
    return code


def _run(arguments: list[str]) -> int:
    """Run one command. Print errors that the user can fix on stderr, and return the exit code."""
    import typer

    from wse.cli.app import command, usage_error
    from wse.errors import WseError

    group = command()
    if COMPLETION in os.environ:
        group.main(arguments, prog_name="wse")  # answers the shell, and exits
    try:
        with group.make_context("wse", arguments) as context:
            group.invoke(context)
    except typer.Exit as request:
        return request.exit_code
    except typer.Abort:
        return INTERRUPTED
    except WseError as error:
        _print_error(str(error))
        return 2
    except Exception as error:
        message = usage_error(error, arguments)
        if message is None:
            raise
        _print_error(message)
        return 2
    return 0


def _print_error(message: str) -> None:
    """Print an error message on stderr, after everything that was printed on stdout."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        drop_stdout()
    sys.stderr.write(f"wse: {message}\n")

"""The command line. One file a command: parse, call, print; it decides nothing.

``main`` is the border: what a user can mend leaves as one line on stderr and exit code 2, Ctrl-C as 130, a reader that
went away as 0, and only after all files that were requested; our own bugs alone show a traceback, with exit code 1.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from collections.abc import Sequence

from wse.cli.standard_output import drop_stdout

INTERRUPTED = 130
COMPLETION = "_WSE_COMPLETE"
"""The variable with which a shell that completes a line calls ``wse``."""
OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Python's 700 would go often through the many small objects of a compiled model, which live on."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. ``arguments`` defaults to those of the process, which ends with it."""
    is_process, arguments = arguments is None, sys.argv[1:] if arguments is None else arguments
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a character that the terminal lacks is no reason to stop
    try:
        code = _run(list(arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        drop_stdout()
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        drop_stdout()
        sys.stderr.write("wse: standard output: no space left to write to; free some, or write elsewhere\n")
        return 2
    if is_process:
        gc.freeze()  # Python looks for cycles in all that is there before it ends
    return code


def _run(arguments: list[str]) -> int:
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
        _say(str(error))
        return 2
    except Exception as error:
        message = usage_error(error, arguments)
        if message is None:
            raise
        _say(message)
        return 2
    return 0


def _say(message: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(f"wse: {message}\n")

"""Compiling kernels before they are called, in several processes where many were not kept from an earlier run.

In one process numba compiles one kernel after another, on one core. Other processes take kernels from the end of the
list, one at a time, and leave what they compile in the folder of kernels, from where this one loads it in the end. One
that cannot be started or dies costs the time of its kernel; where the folder cannot be written to there are none.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Final

from wse_kernels._jit import KERNEL_FILES, build_of, compile_for, is_compiled, is_kept, types_of
from wse_kernels.library import compiled_kernel

KERNELS_A_PROCESS: Final = 6
"""Kernels to compile for each process that helps: it takes as long to start as one of them to compile."""

MOST_PROCESSES: Final = 8

_START: Final = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer);"
    "from wse_kernels.precompile import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
)

Call = tuple[Callable[..., Any], Sequence[Any]]
Build = tuple[str, bool, Any]
"""Name of a kernel, whether it is the build for all cores, types of its arguments."""


def precompile(calls: Sequence[Call], report: Callable[[int, int, str], None]) -> None:
    """Compile the kernels of ``calls`` for the types of their arguments, or load them, without calling them.

    ``report`` takes (done, all, name) before each that is compiled here, and at the end; those that are loaded do not
    count.
    """
    typed = [(function, types_of(arguments)) for function, arguments in calls if is_compiled(function)]
    waiting = deque((function, types) for function, types in typed if not is_kept(function, types))
    total = len(waiting)

    def compile_next() -> bool:
        try:
            function, types = waiting.popleft()
        except IndexError:
            return False
        report(total - len(waiting) - 1, total, function.__name__)
        compile_for(function, types)
        return True

    if compile_next():  # which shows whether what is compiled can be kept
        with _helpers(waiting):
            while compile_next():
                pass
    for function, types in typed:
        compile_for(function, types)
    report(total, total, "")


@contextmanager
def _helpers(waiting: deque[tuple[Any, Any]]) -> Iterator[None]:
    """Processes that take kernels off the end of ``waiting`` while the caller takes them off its start."""
    wanted = 0 if KERNEL_FILES.trouble else min(_cores() - 1, len(waiting) // KERNELS_A_PROCESS, MOST_PROCESSES)
    processes = [process for process in (_start_process() for _ in range(wanted)) if process is not None]
    threads = [threading.Thread(target=_feed, args=(process, waiting), daemon=True) for process in processes]
    try:
        for thread in threads:
            thread.start()
        yield
        for thread in threads:
            thread.join()
    finally:
        for process, thread in zip(processes, threads, strict=True):
            process.kill()
            thread.join()
            with suppress(BrokenPipeError), process:
                pass


def _start_process() -> subprocess.Popen[bytes] | None:
    if not sys.executable or getattr(sys, "frozen", False):
        return None
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    try:
        return subprocess.Popen([sys.executable, "-c", _START], **pipes)
    except OSError:
        return None


def _feed(process: subprocess.Popen[bytes], waiting: deque[tuple[Any, Any]]) -> None:
    """Give a process one kernel after another, each when it is done with the last."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        _send(process.stdin, sys.path)
        while process.stdout.readline():
            function, types = waiting.pop()
            _send(process.stdin, (*build_of(function), types))
    except (OSError, IndexError):  # it died, or nothing is left
        return


def _send(pipe: BinaryIO | Any, content: object) -> None:
    pipe.write(pickle.dumps(content))
    pipe.flush()


def serve(orders: BinaryIO, answers: BinaryIO) -> None:
    """Compile the builds that come in ``orders`` until that ends; a line of ``answers`` says that this one is ready."""
    while True:
        answers.write(b"\n")
        answers.flush()
        try:
            name, parallel, types = pickle.load(orders)
        except EOFError:
            return
        kernel = compiled_kernel(name)
        compile_for(kernel.parallel if parallel else kernel.serial, types)


def _cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

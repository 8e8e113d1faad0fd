"""Compilation of kernels before they are called, in several processes if many are not cached yet.

In one process, numba compiles kernels sequentially on a single core. Helper processes take
kernels from the end of the list, one at a time, and store the compiled code in the cache, from
which this process loads it. If a helper cannot be started or dies, only the time of its kernel is
lost. Without a writable cache there are no helpers.
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

from wse_kernels.codegen.jit import KERNEL_FILES, build_of, compile_for, is_cached, is_compiled, types_of
from wse_kernels.library import compiled_kernel

KERNELS_PER_PROCESS: Final = 6
"""Minimum kernels per helper process. Starting one takes as long as compiling a kernel."""

MAX_PROCESSES: Final = 8

_START: Final = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer);"
    "from wse_kernels.precompile import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
)

Call = tuple[Callable[..., Any], Sequence[Any]]
Build = tuple[str, bool, Any]
"""Name of a kernel, whether it is the build for all cores, and the types of its arguments."""


def precompile(calls: Sequence[Call], report: Callable[[int, int, str], None]) -> None:
    """Compile the kernels of some calls for their argument types, without calling them.

    Cached kernels are loaded instead of compiled.

    Args:
        calls: Kernels and their arguments.
        report: Function called with (number finished, number to compile, kernel name) before each
            kernel that this process compiles, and once at the end. Cached kernels are not counted.
    """
    typed = [(function, types_of(arguments)) for function, arguments in calls if is_compiled(function)]
    waiting_kernels = deque((function, types) for function, types in typed if not is_cached(function, types))
    total = len(waiting_kernels)

    def compile_next() -> bool:
        """Compile the first waiting kernel. Return False if no kernel is waiting."""
        try:
            function, types = waiting_kernels.popleft()
        except IndexError:
            return False
        report(total - len(waiting_kernels) - 1, total, function.__name__)
        compile_for(function, types)
        return True

    if compile_next():  # shows whether the cache can be written
        with _helpers(waiting_kernels):
            while compile_next():
                pass
    for function, types in typed:
        compile_for(function, types)
    report(total, total, "")


@contextmanager
def _helpers(waiting_kernels: deque[tuple[Any, Any]]) -> Iterator[None]:
    """Run helper processes that compile waiting kernels during the ``with`` block.

    Helpers take kernels from the end of the list, and the caller takes them from its start. The end
    of the block waits until all helpers are done.
    """
    process_count = (
        0 if KERNEL_FILES.trouble else min(_cores() - 1, len(waiting_kernels) // KERNELS_PER_PROCESS, MAX_PROCESSES)
    )
    processes = [process for process in (_start_process() for _ in range(process_count)) if process is not None]
    threads = [threading.Thread(target=_feed, args=(process, waiting_kernels), daemon=True) for process in processes]
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
    """Start a helper process, or return None if that is impossible, as in a frozen application."""
    if not sys.executable or getattr(sys, "frozen", False):
        return None
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    try:
        return subprocess.Popen([sys.executable, "-c", _START], **pipes)
    except OSError:
        return None


def _feed(process: subprocess.Popen[bytes], waiting_kernels: deque[tuple[Any, Any]]) -> None:
    """Send waiting kernels to a helper process, one at a time, whenever it is ready for one.

    Kernels are taken from the end of the list.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        _send(process.stdin, sys.path)
        while process.stdout.readline():
            function, types = waiting_kernels.pop()
            _send(process.stdin, (*build_of(function), types))
    except (OSError, IndexError):  # the process died, or no kernel is left
        return


def _send(pipe: BinaryIO | Any, content: object) -> None:
    """Write an object in pickle format to the standard input of a helper process."""
    pipe.write(pickle.dumps(content))
    pipe.flush()


def serve(orders: BinaryIO, answers: BinaryIO) -> None:
    """Compile kernels on request. This is the main loop of a helper process.

    Args:
        orders: Stream of pickled (name, whether for all cores, argument types) tuples.
        answers: Stream that receives a newline whenever this process is ready for the next kernel.
    """
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
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""Table of all kernels by name, each compiled for one CPU core and for all cores.

Kernels that store weights are compiled for one core only. ``compiled_kernel(name)`` returns both
builds, and ``for_time`` selects the parallel one if a step is long enough to be worth waking the
other cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from math import inf
from types import FunctionType, ModuleType
from typing import NamedTuple

import numpy as np

from wse_kernels.codegen.blocks import VIEWS, over_blocks, over_blocks_and_cores, over_cores_by_loop, views_of
from wse_kernels.codegen.jit import config, get_threads, kernel, parallel_kernel, spread_kernel
from wse_kernels.communication import column_messages, column_sums, copies, exchanges, row_messages, row_sums
from wse_kernels.compute import (
    activation,
    convolution,
    delta_rule,
    elementwise,
    latent,
    linear,
    random_numbers,
    rotary,
    router,
    storing,
    vocabulary,
)
from wse_kernels.compute.attention import kv_cache, normalisation, ring, softmax
from wse_kernels.compute.experts import pairs, products
from wse_kernels.compute.norm import layer_norm, rms_norm
from wse_kernels.timing import wavelet


def _kernels(*modules: ModuleType) -> dict[str, Callable[..., None]]:
    """Return all kernels of some modules, keyed by name.

    The kernels of a module are the public functions that it defines. If numba is disabled, a module
    also has public names for private plain Python functions, which are not kernels and are omitted.
    """
    return {
        name: function
        for module in modules
        for name, function in vars(module).items()
        if isinstance(function, FunctionType) and function.__module__ == module.__name__ and function.__name__[0] != "_"
    }


COMPUTE = _kernels(
    *(linear, rms_norm, layer_norm, rotary),
    *(kv_cache, softmax, ring, normalisation),
    *(elementwise, latent, convolution, delta_rule, activation, vocabulary, router),
    *(pairs, products),
)
"""Compute kernels, as functions of one block. `over_blocks` adds the calling convention."""

TRANSFER = _kernels(row_messages, column_messages, copies, exchanges, row_sums, column_sums)
"""Transfer kernels, which move words between PEs. Each has its own operands."""

TIMING = _kernels(wavelet)
"""Timing kernels, which count cycles. They allocate memory."""

STORING = _kernels(random_numbers, storing)
"""Kernels that generate weights and store them in SRAM. Callers distribute them over threads."""

THREADS: int = config.NUMBA_NUM_THREADS
"""Maximum number of threads that the kernels of this process use."""

MIN_CORE_S = 2e-5
"""Seconds on one core below which a step is never distributed across several cores."""
WAKES = 4
"""Minimum duration of a parallel step, as a multiple of the time to wake the other cores."""
TRIALS = 40


def thread_count() -> int:
    """Return the number of threads that kernels currently use.

    This is the number that was last set with numba's ``set_num_threads``, at most THREADS. It is 1
    if numba is disabled.
    """
    return 1 if config.DISABLE_JIT else int(get_threads())


@cache
def parallel_core_s() -> float:
    """Return the duration in seconds above which a kernel call runs on all CPU cores.

    A call runs on all cores if it would take longer than this on one core. The limit is WAKES times
    the median time to wake the other cores, measured once per process. Waking takes 2 to 5
    microseconds with OpenMP and 80 with numba's own threads. The median is used because waking
    sometimes takes milliseconds while other programs use the cores. With a single thread, the limit
    is infinite.
    """
    if THREADS == 1:
        return inf
    kernel, view, operands = compiled_kernel("clear").parallel, np.zeros((2, 1, 16), np.float32), np.zeros(25, np.int64)
    operands[1:3] = 2, 1
    for _ in range(TRIALS // 4):  # the first calls start the threads
        kernel(view, operands)
    stamps_s = [time.perf_counter()]
    for _ in range(TRIALS):
        kernel(view, operands)
        stamps_s.append(time.perf_counter())
    return WAKES * float(np.median(np.diff(stamps_s)))


class CompiledKernel(NamedTuple):
    """A kernel in two versions: one for a single CPU core and one for all cores.

    Numba compiles a version when it is first called with a combination of element types.

    Attributes:
        serial: Version for one core.
        parallel: Version for all cores. For kernels that store weights, it is the same as
            ``serial``.
        takes: First arguments of a compute kernel, before its operands: SRAM arrays and counters,
            as indices into `wse_kernels.codegen.blocks.VIEWS`. Empty for other kernels.
    """

    serial: Callable[..., None]
    parallel: Callable[..., None]
    takes: tuple[int, ...] = ()

    def for_time(self, core_s: float) -> Callable[..., None]:
        """Return the faster version for a call that takes ``core_s`` seconds on one core."""
        return self.parallel if core_s > MIN_CORE_S and core_s > parallel_core_s() else self.serial


@cache
def compiled_kernel(name: str) -> CompiledKernel:
    """Return the kernel with a given name, which numba compiles when it is first called.

    COMPUTE, TRANSFER, TIMING and STORING contain the names of all kernels.

    Raises:
        KeyError: There is no kernel with this name.
    """
    if name in STORING:
        serial = kernel(STORING[name])
        return CompiledKernel(serial, serial)
    if name not in COMPUTE:
        function = (TRANSFER | TIMING)[name]
        allocates = name in TIMING
        spread_function = over_cores_by_loop(function)
        parallel = (
            parallel_kernel(function, allocates=allocates)
            if spread_function is None
            else spread_kernel(spread_function)
        )
        return CompiledKernel(kernel(function, allocates=allocates), parallel)
    function = COMPUTE[name]
    takes = tuple(map(VIEWS.index, views_of(function)))
    return CompiledKernel(kernel(over_blocks(function)), spread_kernel(over_blocks_and_cores(function)), takes)

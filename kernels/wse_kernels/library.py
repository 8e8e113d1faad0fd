"""The kernels by name, each compiled for one core and, except for those that store weights, for all of them.

``compiled_kernel(name)`` gives both; ``for_time`` picks the parallel one when a step is worth waking the other cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from math import inf
from types import FunctionType, ModuleType
from typing import NamedTuple

import numpy as np

from wse_kernels import (
    activation,
    attention,
    column_sums,
    elementwise,
    exchanges,
    experts,
    latent,
    linear,
    norm,
    random_numbers,
    rotary,
    router,
    row_sums,
    storing,
    transfers,
    vocabulary,
    wavelet,
)
from wse_kernels._blocks import VIEWS, over_blocks, over_blocks_and_cores, over_cores_by_loop, views_of
from wse_kernels._jit import KERNEL_FILES, config, get_threads, kernel, parallel_kernel, spread_kernel
from wse_kernels._lanes import MOST_LANES

__all__ = [
    "COMPUTE",
    "KERNEL_FILES",
    "MOST_LANES",
    "STORING",
    "THREADS",
    "TIMING",
    "TRANSFER",
    "CompiledKernel",
    "compiled_kernel",
    "thread_count",
]


def _kernels(*modules: ModuleType) -> dict[str, Callable[..., None]]:
    """Return the kernels by name: every public function of a kernel file is one."""
    return {
        name: function
        for module in modules
        for name, function in vars(module).items()
        if isinstance(function, FunctionType) and function.__module__ == module.__name__ and name[0] != "_"
    }


COMPUTE = _kernels(linear, norm, rotary, attention, elementwise, latent, activation, vocabulary, router, experts)
"""Compute kernels, as functions of one block; `over_blocks` puts the calling convention around them."""

TRANSFER = _kernels(transfers, exchanges, row_sums, column_sums)
"""Kernels that move words between PEs; each has its own operands."""

TIMING = _kernels(wavelet)
"""Kernels that count cycles; they allocate."""

STORING = _kernels(random_numbers, storing)
"""Kernels that make weights and put them where PEs store them, which threads of the caller have their turns at."""

THREADS: int = config.NUMBA_NUM_THREADS
"""The most threads that kernels of this process are spread over."""

LEAST_CORE_S = 2e-5
"""Seconds of one core below which no step is spread over all."""
WAKES = 4
"""The number of times that a step must take one core what it takes to wake the others."""
TRIALS = 40


def thread_count() -> int:
    """Return the number of threads that the caller has set for kernels, THREADS at the most.

    1 where they are interpreted.
    """
    return 1 if config.DISABLE_JIT else int(get_threads())


@cache
def parallel_core_s() -> float:
    """Return the seconds of one core above which a step is spread over all, measured once in a process.

    To wake the others takes 2 to 5 microseconds by OpenMP, 80 by numba's own threads, and milliseconds now and then
    where other programs have the cores: the median counts, as one such trial is no reason to keep to one core for all
    of a run (`wse_kernels.shared_cores` sees to programs that go on). One thread has no others to wake.
    """
    if THREADS == 1:
        return inf
    kernel, view, operands = compiled_kernel("clear").parallel, np.zeros((2, 1, 16), np.float32), np.zeros(25, np.int64)
    operands[1:3] = 2, 1
    for _ in range(TRIALS // 4):  # which start threads
        kernel(view, operands)
    stamps_s = [time.perf_counter()]
    for _ in range(TRIALS):
        kernel(view, operands)
        stamps_s.append(time.perf_counter())
    return WAKES * float(np.median(np.diff(stamps_s)))


class CompiledKernel(NamedTuple):
    """A kernel in its two builds, compiled lazily by numba at the first call for each combination of element types.

    Attributes:
        serial: The build for one core.
        parallel: The build for all cores; of a kernel that stores weights, the serial one.
        takes: What a compute kernel is called with before its operands, as indices into `wse_kernels._blocks.VIEWS`.
    """

    serial: Callable[..., None]
    parallel: Callable[..., None]
    takes: tuple[int, ...] = ()

    def for_time(self, core_s: float) -> Callable[..., None]:
        """Return the build for a call that needs about ``core_s`` seconds of one core."""
        return self.parallel if core_s > LEAST_CORE_S and core_s > parallel_core_s() else self.serial


@cache
def compiled_kernel(name: str) -> CompiledKernel:
    """Return the kernel ``name`` of COMPUTE, TRANSFER, TIMING or STORING. Raises KeyError for an unknown name."""
    if name in STORING:
        serial = kernel(STORING[name])
        return CompiledKernel(serial, serial)
    if name not in COMPUTE:
        function = (TRANSFER | TIMING)[name]
        allocates = name in TIMING
        spread = over_cores_by_loop(function)
        parallel = parallel_kernel(function, allocates=allocates) if spread is None else spread_kernel(spread)
        return CompiledKernel(kernel(function, allocates=allocates), parallel)
    function = COMPUTE[name]
    takes = tuple(map(VIEWS.index, views_of(function)))
    return CompiledKernel(kernel(over_blocks(function)), spread_kernel(over_blocks_and_cores(function)), takes)

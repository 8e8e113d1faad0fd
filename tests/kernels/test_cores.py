"""A range is distributed over all cores. Every index is processed once; errors are passed on."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from wse_kernels.codegen.cores import over_cores
from wse_kernels.codegen.jit import part_function, spread_kernel


@part_function
def count_visits(begin: int, end: int, visits: Any, factor: int) -> None:
    for i in range(begin, end):
        visits[i] += factor


@spread_kernel
def count_all(visits: Any, begin: int, factor: int) -> None:
    over_cores(count_visits, begin, len(visits), (visits, factor))


@part_function
def refuse(begin: int, end: int, index: int) -> None:
    if begin <= index < end:
        raise ValueError


@spread_kernel
def refuse_all(count: int, index: int) -> None:
    over_cores(refuse, 0, count, (index,))


@pytest.mark.parametrize("threads", [1, numba.config.NUMBA_NUM_THREADS])
def test_every_index_is_visited_once(threads: int) -> None:
    before = numba.get_num_threads()
    numba.set_num_threads(threads)
    try:
        for count in (1, 2, 3, 7, 1000):
            visits = np.zeros(count, np.int64)
            count_all(visits, count // 3, 5)
            assert visits.tolist() == [0] * (count // 3) + [5] * (count - count // 3)
    finally:
        numba.set_num_threads(before)


@pytest.mark.parametrize("index", [0, 6])
def test_an_error_on_any_core_is_raised(index: int) -> None:
    refuse_all(7, 7)
    with pytest.raises((IndexError, ValueError)):
        refuse_all(7, index)

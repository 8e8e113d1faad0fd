"""Rate at which this computer reads memory, a limit for any emulation."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt


def read_bytes_per_s(memory: npt.NDArray[Any], repeats: int = 5) -> float:
    """Measure the rate, in bytes per second, at which all cores together read an array.

    Each core sums a part of the array with numpy. The result is the rate of the fastest of several
    readings, after one warm-up reading that is not counted.

    Args:
        memory: Any array.
        repeats: Number of readings.
    """
    words = memory.reshape(-1).view(np.uint8)[: memory.nbytes // 8 * 8].view(np.uint64)
    cores = os.cpu_count() or 1
    parts = np.array_split(words, cores)
    seconds = []
    with ThreadPoolExecutor(cores) as pool:
        for _ in range(repeats + 1):
            began = time.perf_counter()
            list(pool.map(np.sum, parts))
            seconds.append(time.perf_counter() - began)
    return float(words.nbytes / min(seconds[1:]))

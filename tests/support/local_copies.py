"""Copies within the memory of a PE, which need no wavelets."""

from wse.arrays import F32
from wse.backends.wavelet.lines import Lines


def memory_after_copies(lines: Lines, memory: F32) -> F32:
    """Return ``memory``, float32 ``[rows, cols, words]``, after the local copies of ``lines``."""
    after = memory.copy()
    flat, before = after.reshape(-1, memory.shape[2]), memory.reshape(-1, memory.shape[2])
    for pes, source, target, words in lines.copies:
        flat[pes, target : target + words] = before[pes, source : source + words]
    return after

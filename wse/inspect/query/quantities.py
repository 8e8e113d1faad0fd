"""Quantities of every PE of a wafer, int64 or int32 ``[row, col]``: SRAM by use, busy cycles, words by direction."""

from __future__ import annotations

from wse_traces.read import Array, Trace
from wse_traces.schema import DIRECTIONS, USES


def sram_bytes(trace: Trace, wafer: int) -> dict[str, Array]:
    """The bytes of SRAM by use, ``free`` among them; nothing where they were not recorded."""
    return _layers(trace, "sram/bytes_per_pe", wafer, USES)


def busy_cycles(trace: Trace, wafer: int) -> Array | None:
    """The cycles in which each PE computes, over the run; None where they were not recorded."""
    path = "pe/busy_cycles"
    return trace.column(path, wafer, wafer + 1)[0] if wafer < trace.rows(path) else None


def link_words(trace: Trace, wafer: int) -> dict[str, Array]:
    """The words that leave each PE by direction, over the run; nothing where they were not recorded."""
    return _layers(trace, "links/words", wafer, DIRECTIONS)


def _layers(trace: Trace, path: str, wafer: int, names: tuple[str, ...]) -> dict[str, Array]:
    if wafer >= trace.rows(path):
        return {}
    return dict(zip(names, trace.column(path, wafer, wafer + 1)[0], strict=True))

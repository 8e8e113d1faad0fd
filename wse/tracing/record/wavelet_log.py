"""The last pass of a run once more, wavelet by wavelet, with every move in the trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wse.arrays import I64
from wse.backends.wavelet.phase import phase_run
from wse.backends.wavelet.size import check_size
from wse.errors import BadInput
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.phase import Phase
from wse.program.program import Program
from wse_traces.write import TraceWriter


class WaveletLog(NamedTuple):
    """The length of a pass in cycles, the links that its wavelets used, and the number of moves in the log."""

    cycles: int
    wavelet_hops: int
    moves: int


def check_loggable(program: Program, wafer: WaferSpec, *, traced: bool) -> None:
    """Refuse what cannot be logged, before any long computation.

    Raises:
        BadInput: there is no trace to write to.
        BadMesh: a region is larger than the reference can hold.
    """
    if not traced:
        message = "the log of wavelets is kept in the trace, and none is written: give --trace PATH"
        raise BadInput(message)
    check_size(program, wafer)


def log_wavelets(
    writer: TraceWriter,
    program: Program,
    phase: Phase,
    lengths: Sequence[int],
    wafer: WaferSpec,
    software: SoftwareProfile,
    *,
    pass_index: int,
) -> WaveletLog:
    """Simulate ``phase`` and append its log.

    ``lengths`` are the tokens in the cache before it, of the user whose prompt it reads, or of each.
    Cycles are those of the wavelet reader, without crossings between wafers and to the host.
    """
    moved = 0

    def on_moves(step: int, moves: I64) -> None:
        nonlocal moved
        moved += len(moves)
        cycle, on_wafer, row, col, colour, port, source = moves.T
        place = {"cycle": cycle, "wafer": on_wafer, "row": row, "col": col, "colour": colour, "direction": port}
        writer.append("wavelet", {**place, "pass": 0 * cycle + pass_index, "step": 0 * cycle + step})
        writer.append("wavelet_source", {"source": source})

    ran = phase_run(program, phase, lengths, wafer, software, on_moves=on_moves)
    return WaveletLog(cycles=ran.cycles, wavelet_hops=int(ran.hops.sum()), moves=moved)

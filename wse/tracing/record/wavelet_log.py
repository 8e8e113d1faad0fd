"""Recording of the last pass of a run wavelet by wavelet, with every move in the trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wse.arrays import I64
from wse.backends.wavelet.phases.mesh_state import check_size
from wse.backends.wavelet.phases.phase import phase_run
from wse.errors import BadInput
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.program import Program
from wse.program.steps import Phase
from wse_traces.writer.write import TraceWriter


class WaveletLog(NamedTuple):
    """Result of simulating a pass wavelet by wavelet (a wavelet is a 32-bit word in the fabric).

    Attributes:
        cycles: Number of cycles that the pass takes, excluding transfers between wafers and to the
            host.
        wavelet_hops: Number of links that wavelets crossed, summed over wavelets.
        moves: Number of moves in the log.
    """

    cycles: int
    wavelet_hops: int
    moves: int


def check_loggable(program: Program, wafer: WaferSpec, *, traced: bool) -> None:
    """Check that the wavelets of a pass can be logged, before any long computation starts.

    Args:
        program: The compiled Program.
        wafer: Wafer type for which the Program was compiled.
        traced: Whether the run writes a trace.

    Raises:
        BadInput: The run writes no trace.
        BadMesh: A region is too large for the wavelet simulation.
    """
    if not traced:
        raise BadInput("the log of wavelets is kept in the trace, and none is written: give --trace PATH")
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
    """Simulate a pass wavelet by wavelet, and append every move to the trace.

    Args:
        writer: Writer of the trace.
        program: The compiled Program.
        phase: Phase that the pass executes.
        lengths: Number of tokens in each user's KV cache before the pass. Prefill and verification
            passes are for a single user, so the list has one item.
        wafer: Wafer type for which the Program was compiled.
        software: Costs of the software on the wafer.
        pass_index: Index of the pass in the trace.

    Returns:
        Cycles, hops and number of moves, excluding transfers between wafers and to the host.
    """
    move_count = 0

    def on_moves(step: int, moves: I64) -> None:
        """Append the moves of one step to the trace while the pass is being simulated."""
        nonlocal move_count
        move_count += len(moves)
        cycle, on_wafer, row, col, colour, port, source = moves.T
        place = {"cycle": cycle, "wafer": on_wafer, "row": row, "col": col, "colour": colour, "direction": port}
        pass_and_step = {"pass": np.full_like(cycle, pass_index), "step": np.full_like(cycle, step)}
        writer.append("wavelet", place | pass_and_step)
        writer.append("wavelet_source", {"source": source})

    result = phase_run(program, phase, lengths, wafer, software, on_moves=on_moves)
    return WaveletLog(cycles=result.cycles, wavelet_hops=int(result.hops.sum()), moves=move_count)

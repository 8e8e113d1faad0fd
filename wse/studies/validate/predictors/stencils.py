"""Predictor of star stencils with one cell or one tile of cells per PE.

A PE with one cell gets its neighbours' values over the fabric. PEs with tiles exchange the cells at
the borders (the halo). Work is counted in vector operations (`pe_core.py`). No constant was fitted
to stencil measurements. The programs come from github.com/Jorineg/cerebras.
"""

from __future__ import annotations

import re
from typing import Final

from wse.hardware.generations import RECORDS
from wse.hardware.spec import WaferSpec
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import wafer_of
from wse.studies.validate.predictors.pe_core import (
    COMPILED,
    METHOD,
    SAME_BANKS_FRACTION,
    SETUP_CYCLES,
    add,
    bank_conflict_slowdown,
    multiply_add,
)
from wse.studies.validate.predictors.prediction import NO_GENERATION, Prediction, decline

ELEMENT_BYTES: Final = 4  # the programs are in float32
MULTIPLY_PER_CYCLE: Final = 1
"""Elements per cycle when multiplying a float32 vector by a scalar. The instructions fmuls and
fmacs have the same width (Cerebras SDK, appendix on SIMD)."""

DEPENDENT_CYCLES: Final = 2
"""Cycles from an operation on one element to the next operation that needs its result.

Source: WSE-3 simulator, notes in
github.com/luozoupi/FABRICA-CUDA2CSL-Optmization-Benchmark-and-Agentic-Framework."""

_TILE: Final = re.compile(r"\btile ([0-9]{1,4})x([0-9]{1,4}), radius ([0-9]{1,3})\b")


def predict(m: Measurement) -> Prediction | None:
    """Predict how many cycles one iteration of a running stencil program takes.

    Returns:
        A Prediction with the value, or with the reason why there is none. None if something else
        was measured.
    """
    if not re.search(r"\bstencil\b", m.text("kernel"), re.IGNORECASE):
        return None
    wafer = wafer_of(m)
    if wafer is None:
        return NO_GENERATION
    if m.text("metric").strip().lower() != "cycles per iteration":
        return decline("the time of a whole program; only an iteration of a running program is modelled")
    if (tile := _TILE.search(m.text("algorithm"))) is not None:
        cols, rows, radius = (int(part) for part in tile.groups())
        if min(cols, rows, radius) < 1:
            return decline("an empty tile, or a stencil of radius 0")
        return Prediction(value=tile_cycles(wafer, rows, cols, radius), method=METHOD, software=COMPILED)
    if "1 cell per pe" in m.text("algorithm").lower() and m.rows is not None and m.cols is not None:
        cycles = single_cell_cycles(wafer, waits_for_neighbours=max(m.rows, m.cols) > 3)
        return Prediction(value=cycles, method=METHOD)
    return decline("the row does not state the cells of a PE")


def single_cell_cycles(wafer: WaferSpec, *, waits_for_neighbours: bool) -> float:
    """Return how many cycles one iteration of a five-point stencil takes with one cell per PE.

    A PE multiplies twice: once to send a value into the fabric and once for its own cell. Then it
    adds the values of its four neighbours. A WSE-2 operation can read both operands from the
    fabric. A WSE-3 operation reads only one, so each of its four additions waits until an operand
    has crossed the ramp.

    Args:
        wafer: The wafer generation.
        waits_for_neighbours: Whether a PE waits for its neighbours' words. False if all neighbours
            are on the border of the mesh; border PEs only send, so their words arrive early.
    """
    receive_cycles = wafer.ramp_cycles + 1
    add_cycles = DEPENDENT_CYCLES if RECORDS[wafer.generation].adds_two_from_fabric else receive_cycles
    work_cycles = 2 * DEPENDENT_CYCLES + 4 * add_cycles
    transit_cycles = wafer.hop_cycles + 2 * wafer.ramp_cycles + 1
    # The PE's own multiply runs while the words are in transit.
    wait_cycles = transit_cycles - DEPENDENT_CYCLES if waits_for_neighbours else 0
    return work_cycles + wait_cycles


def tile_cycles(wafer: WaferSpec, rows: int, cols: int, radius: int) -> float:
    """Return how many cycles one iteration of a star stencil takes with a tile of cells per PE.

    The star has 4 * radius + 1 points. The cycles are spent on vector operations and on the
    exchange of border cells (the halo):

    - With radius 1, there are six vector operations: three additions for the sum of the four
      neighbours, a multiplication of the sum, a multiplication of the cell, and an addition of both
      products.
    - With a larger radius, there is one multiply-add per point. For a quarter of these operations,
      the operands are in the same memory banks, which is slower.
    - The words of the halo are sent and received, one word per cycle each.

    Args:
        wafer: The wafer generation.
        rows: Height of the tile in cells.
        cols: Width of the tile in cells.
        radius: Number of cells from the centre to the tip of the star.
    """
    cells, halo_words = rows * cols, 2 * radius * (rows + cols)
    if radius == 1:
        adds_per_cycle = add(wafer, ELEMENT_BYTES).elements_per_cycle(wafer, silicon=False)
        operations, cycles_per_cell = 6, 4 / adds_per_cycle + 2 / MULTIPLY_PER_CYCLE
    else:
        slowdown = 1 + SAME_BANKS_FRACTION * (bank_conflict_slowdown(wafer) - 1)
        operations = 4 * radius + 1
        rate = multiply_add(wafer, ELEMENT_BYTES).elements_per_cycle(wafer, silicon=False)
        cycles_per_cell = operations * slowdown / rate
    return operations * SETUP_CYCLES + cells * cycles_per_cell + 2 * halo_words

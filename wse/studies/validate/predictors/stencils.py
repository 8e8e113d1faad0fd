"""Star stencils: one cell a PE with its neighbours' values over the fabric, or a tile a PE with an exchange of halos.

Work is counted in vector operations (`pe_core.py`); no constant was fitted to rows of stencils. The programs:
github.com/Jorineg/cerebras.
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
    SAME_BANKS_SHARE,
    SETUP_CYCLES,
    add,
    conflicts,
    multiply_add,
)
from wse.studies.validate.predictors.prediction import NO_GENERATION, Prediction, decline

ELEMENT_BYTES: Final = 4  # the programs are in float32
MULTIPLY_PER_CYCLE: Final = 1
"""float32 products of a vector and a scalar; fmuls and fmacs have one width (Cerebras SDK, appendix on SIMD)."""

DEPENDENT_CYCLES: Final = 2
"""Cycles from an operation on one element to the next one, which needs its result; WSE-3 simulator, FABRICA notes,
github.com/luozoupi/FABRICA-CUDA2CSL-Optmization-Benchmark-and-Agentic-Framework."""

_TILE: Final = re.compile(r"\btile ([0-9]{1,4})x([0-9]{1,4}), radius ([0-9]{1,3})\b")


def predict(m: Measurement) -> Prediction | None:
    """Return the cycles of one step in the steady state."""
    if not re.search(r"\bstencil\b", m.text("kernel"), re.IGNORECASE):
        return None
    wafer = wafer_of(m)
    if wafer is None:
        return NO_GENERATION
    if m.text("metric").strip().lower() != "cycles per iteration":
        return decline("the time of a whole program; only one more step of a running one is modelled")
    if (tile := _TILE.search(m.text("algorithm"))) is not None:
        cols, rows, radius = (int(part) for part in tile.groups())
        if min(cols, rows, radius) < 1:
            return decline("an empty tile, or a stencil of radius 0")
        return Prediction(value=tile_cycles(wafer, rows, cols, radius), method=METHOD, software=COMPILED)
    if "1 cell per pe" in m.text("algorithm").lower() and m.rows is not None and m.cols is not None:
        return Prediction(value=one_cell(wafer, alone=max(m.rows, m.cols) <= 3), method=METHOD)
    return decline("the row does not say what cells a PE has")


def one_cell(wafer: WaferSpec, *, alone: bool) -> float:
    """Return a five-point step with one cell a PE, and two multiplies: one into the fabric, one for the PE itself.

    WSE-2 adds two operands from the fabric at once, twice, and then two sums in memory; WSE-3, whose operations take
    one operand from the fabric, adds four times, each waiting for its operand to cross the ramp.

    Args:
        wafer: The generation.
        alone: Whether all neighbours are on the border. Those only send, and are ahead: nobody waits for them.
    """
    arrive = wafer.ramp_cycles + 1
    work = 2 * DEPENDENT_CYCLES + 4 * (DEPENDENT_CYCLES if RECORDS[wafer.generation].adds_two_from_fabric else arrive)
    way = wafer.hop_cycles + 2 * wafer.ramp_cycles + 1
    waiting = 0 if alone else way - DEPENDENT_CYCLES  # the PE's own multiply runs while the words are in transit
    return work + waiting


def tile_cycles(wafer: WaferSpec, rows: int, cols: int, radius: int) -> float:
    """Return a star of 4 ``radius`` + 1 points on a tile of ``rows`` × ``cols`` cells a PE.

    Radius 1: three adds for the sum of four neighbours, a multiply for it and one for the cell, and an add of both: six
    operations. Beyond: one multiply-add a point, a quarter of which meet in the memory banks. The halo goes out and
    comes in, a word a cycle each.
    """
    cells, halo = rows * cols, 2 * radius * (rows + cols)
    if radius == 1:
        sums = add(wafer, ELEMENT_BYTES).elements_per_cycle(wafer, silicon=False)
        operations, each_cell = 6, 4 / sums + 2 / MULTIPLY_PER_CYCLE
    else:
        meet = 1 + SAME_BANKS_SHARE * (conflicts(wafer) - 1)
        operations = 4 * radius + 1
        each_cell = operations * meet / multiply_add(wafer, ELEMENT_BYTES).elements_per_cycle(wafer, silicon=False)
    return operations * SETUP_CYCLES + cells * each_cell + 2 * halo

"""Predictors of one PE: vector operations, products of its tiles, and star stencils.

The rate of an operation is the minimum of its SIMD width and the rate that the memory's read ports
deliver. It is lower if two operands are in the same memory banks. Silicon also limits the sum of
reads and writes.

In a stencil, a PE with one cell gets its neighbours' values over the fabric. PEs with tiles
exchange the cells at the borders (the halo). Work is counted in vector operations. No constant was
fitted to stencil measurements. The programs come from github.com/Jorineg/cerebras.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from wse.hardware.generations import RECORDS
from wse.hardware.spec import WaferSpec
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import on_silicon, software, wafer_of
from wse.studies.validate.measured.text_numbers import convert_cycles
from wse.studies.validate.predictors.prediction import NO_GENERATION, OWN_CONSTANT, Declined, Prediction, require
from wse_mappings.rounding import ceil_div

SETUP_CYCLES: Final = 16
"""Cycles before the first element of a vector operation: 15 to 17, depending on the operation.

Source: WSE-3 simulator,
github.com/luozoupi/FABRICA-CUDA2CSL-Optmization-Benchmark-and-Agentic-Framework."""

SAME_BANKS_FRACTION: Final = 0.25
"""Fraction of two-operand alignments in which both operands use the same memory banks. Source:
FABRICA, as above."""

COMPILED: Final = "academic"
"""Software profile with the slowdown for operands that a compiler placed in the same memory
banks."""

METHOD: Final = "PE core model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A vector operation of a PE on operands in SRAM.

    Attributes:
        width: SIMD width in elements per cycle.
        element_bytes: Bytes per element.
        sources: Number of vector operands that are read.
    """

    width: int
    element_bytes: int
    sources: int

    def elements_per_cycle(self, wafer: WaferSpec, *, silicon: bool) -> float:
        """Return the rate if all operands are in different memory banks, in elements per cycle.

        Args:
            wafer: The wafer generation.
            silicon: Whether to limit the sum of reads and writes per cycle, as silicon does. The
                vendor's simulator has no such limit.
        """
        rates = [self.width, RECORDS[wafer.generation].read_bytes_per_cycle / (self.sources * self.element_bytes)]
        if silicon:
            rates.append(wafer.sram_bytes_per_cycle / ((self.sources + 1) * self.element_bytes))
        return min(rates)


def copy(wafer: WaferSpec, element_bytes: int) -> Operation:
    """Return the vector operation that copies a vector.

    16-bit elements are copied at the rate of 16-bit additions.
    """
    width = wafer.add_fp16_per_cycle if element_bytes == 2 else wafer.move_32bit_per_cycle
    return Operation(width=width, element_bytes=element_bytes, sources=1)


def multiply_add(wafer: WaferSpec, element_bytes: int) -> Operation:
    """Return the vector operation that adds a scaled vector to another vector."""
    width = wafer.mac_fp16_per_cycle if element_bytes == 2 else wafer.mac_fp32_per_cycle
    return Operation(width=width, element_bytes=element_bytes, sources=2)


def add(wafer: WaferSpec, element_bytes: int) -> Operation:
    """Return the addition of two vectors."""
    width = wafer.add_fp16_per_cycle if element_bytes == 2 else wafer.add_fp32_per_cycle
    return Operation(width=width, element_bytes=element_bytes, sources=2)


def bank_conflict_slowdown(wafer: WaferSpec) -> float:
    """Return the factor by which a vector operation is slower if its operands share banks.

    The two operands then compete for the same memory banks (parts of a PE's SRAM).
    """
    return software(COMPILED, wafer.generation).bank_conflict_ratio


def rate_in_same_banks(operation: Operation, wafer: WaferSpec, *, silicon: bool) -> float:
    """Return the rate of an operation whose operands share memory banks, in elements per cycle.

    An operation that reads a single vector has no bank conflicts.

    Args:
        operation: The operation.
        wafer: The wafer generation.
        silicon: Whether to limit the sum of reads and writes per cycle, as silicon does. The
            vendor's simulator has no such limit.
    """
    conflict_free_rate = operation.elements_per_cycle(wafer, silicon=silicon)
    if operation.sources != 2:
        return conflict_free_rate
    return min(conflict_free_rate, operation.width / bank_conflict_slowdown(wafer))


_KIND: Final = re.compile(r"(copy|fma|fmacs?|add)\s+(fp16|f16|fp32|f32)|(fmacs)\b")
_OPERATIONS: Final = {"copy": copy, "fma": multiply_add, "fmac": multiply_add, "fmacs": multiply_add, "add": add}
_N_ELEMENTS: Final = re.compile(r"cycles dsd ([0-9]{1,7})-element (int16|f16|f32) add")


def predict(m: Measurement) -> Prediction | None:
    """Predict the rate, set-up time or cycle count of a vector operation on one PE.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    kernel, metric = m.text("kernel").lower(), m.text("metric").strip().lower()
    kind = _KIND.match(kernel) or (_KIND.match(m.text("algorithm").lower()) if kernel == "pe core" else None)
    if kind is None and kernel != "pe core":
        return None
    wafer = require(wafer_of(m), NO_GENERATION)
    if kind is not None:
        bytes_ = 2 if "16" in (kind[2] or "f32") else 4
        operation = _OPERATIONS[kind[1] or kind[3]](wafer, bytes_)
        rate = rate_in_same_banks(operation, wafer, silicon=on_silicon(m))
        profile = COMPILED if operation.sources == 2 else ""
        if metric == "elements/cycle":
            return Prediction(value=rate, method=METHOD, software=profile)
        if metric == "cycles per element":
            return Prediction(value=1 / rate, method=METHOD, software=profile)
        if metric == "setup cycles":
            raise Declined(OWN_CONSTANT)
        if metric == "overhead cycles per call":
            return Prediction(value=SETUP_CYCLES, method=METHOD)
    if (vector_add := _N_ELEMENTS.fullmatch(metric)) is not None:
        operation = add(wafer, 4 if vector_add[2] == "f32" else 2)
        rate = rate_in_same_banks(operation, wafer, silicon=False)
        return Prediction(value=SETUP_CYCLES + int(vector_add[1]) / rate, method=METHOD, software=COMPILED)
    if metric == "cycles loop back edge":
        raise Declined(OWN_CONSTANT)
    raise Declined("the scalar core's pipeline and the memory map of a program are not modelled")


def local_product(m: Measurement) -> Prediction | None:
    """Predict how long each PE takes to multiply two matrix tiles.

    The product consists of vector multiply-adds over the rows of the tile. There is one for each
    pair of a contraction index and an output column.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    if m.text("kernel").lower() != "gemm local multiply":
        return None
    wafer, size = wafer_of(m), m.sizes
    if wafer is None or not {"M", "N", "K"} <= size.keys() or m.rows is None or m.cols is None:
        raise Declined("the row does not state generation, grid, M, N and K")
    element_bytes = require(m.element_bytes, "the row does not state a known element type")
    rows, depth = ceil_div(size["M"], m.rows), ceil_div(size["K"], m.cols)
    rate = rate_in_same_banks(multiply_add(wafer, element_bytes), wafer, silicon=False)
    cycles = depth * size["N"] * (SETUP_CYCLES + rows / rate)
    value = convert_cycles(m.text("metric"), cycles, wafer.clock_hz)
    value = require(value, "not the cycles or the time of the product")
    return Prediction(value=value, method=METHOD, software=COMPILED)


ELEMENT_BYTES: Final = 4  # the programs are in float32
MULTIPLY_PER_CYCLE: Final = 1
"""Elements per cycle when multiplying a float32 vector by a scalar. The instructions fmuls and
fmacs have the same width (Cerebras SDK, appendix on SIMD)."""

DEPENDENT_CYCLES: Final = 2
"""Cycles from an operation on one element to the next operation that needs its result.

Source: WSE-3 simulator, notes in
github.com/luozoupi/FABRICA-CUDA2CSL-Optmization-Benchmark-and-Agentic-Framework."""

_TILE: Final = re.compile(r"\btile ([0-9]{1,4})x([0-9]{1,4}), radius ([0-9]{1,3})\b")


def predict_stencil(m: Measurement) -> Prediction | None:
    """Predict how many cycles one iteration of a running stencil program takes.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    if not re.search(r"\bstencil\b", m.text("kernel"), re.IGNORECASE):
        return None
    wafer = require(wafer_of(m), NO_GENERATION)
    if m.text("metric").strip().lower() != "cycles per iteration":
        raise Declined("the time of a whole program; only an iteration of a running program is modelled")
    if (tile := _TILE.search(m.text("algorithm"))) is not None:
        cols, rows, radius = (int(part) for part in tile.groups())
        if min(cols, rows, radius) < 1:
            raise Declined("an empty tile, or a stencil of radius 0")
        return Prediction(value=tile_cycles(wafer, rows, cols, radius), method=METHOD, software=COMPILED)
    if "1 cell per pe" in m.text("algorithm").lower() and m.rows is not None and m.cols is not None:
        cycles = single_cell_cycles(wafer, waits_for_neighbours=max(m.rows, m.cols) > 3)
        return Prediction(value=cycles, method=METHOD)
    raise Declined("the row does not state the cells of a PE")


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

"""Vector operations on one PE: elements a cycle and the set-up before them; products of local tiles made of them.

An operation runs at its SIMD width or at what the read ports of the memory give it, whichever is less. Two operands
in the same banks make it slower still. Silicon has besides a limit on reads and writes together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from wse.hardware.generations import RECORDS
from wse.hardware.spec import WaferSpec
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.platforms import on_silicon, wafer_of
from wse.studies.validate.measured.units import convert_cycles
from wse.studies.validate.measured.versions import software
from wse.studies.validate.predictors.prediction import NO_GENERATION, OWN_CONSTANT, Prediction, decline

SETUP_CYCLES: Final = 16
"""One vector operation before its first element: 15 to 17 by operation, WSE-3 simulator,
github.com/luozoupi/FABRICA-CUDA2CSL-Optmization-Benchmark-and-Agentic-Framework."""

SAME_BANKS_SHARE: Final = 0.25
"""Share of the alignments of two operands in which they meet in the memory banks: one in four. FABRICA, as above."""

COMPILED: Final = "academic"
"""The profile whose ratio of bank conflicts holds for operands that a compiler has placed in the same banks."""

METHOD: Final = "PE core model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A vector operation on memory: its width in elements a cycle, bytes of an element, operands that are vectors."""

    width: int
    element_bytes: int
    sources: int

    def elements_per_cycle(self, wafer: WaferSpec, *, silicon: bool) -> float:
        """Return the operation's rate with operands in different banks."""
        rates = [self.width, RECORDS[wafer.generation].read_bytes_per_cycle / (self.sources * self.element_bytes)]
        if silicon:
            rates.append(wafer.sram_bytes_per_cycle / ((self.sources + 1) * self.element_bytes))
        return min(rates)


def copy(wafer: WaferSpec, element_bytes: int) -> Operation:
    """Return a move; 16-bit moves have the width of 16-bit adds."""
    width = wafer.add_fp16_per_cycle if element_bytes == 2 else wafer.move_32bit_per_cycle
    return Operation(width=width, element_bytes=element_bytes, sources=1)


def multiply_add(wafer: WaferSpec, element_bytes: int) -> Operation:
    """Return a multiply by a scalar that is added to a vector."""
    width = wafer.mac_fp16_per_cycle if element_bytes == 2 else wafer.mac_fp32_per_cycle
    return Operation(width=width, element_bytes=element_bytes, sources=2)


def add(wafer: WaferSpec, element_bytes: int) -> Operation:
    """Return the sum of two vectors."""
    width = wafer.add_fp16_per_cycle if element_bytes == 2 else wafer.add_fp32_per_cycle
    return Operation(width=width, element_bytes=element_bytes, sources=2)


def conflicts(wafer: WaferSpec) -> float:
    """Return the factor by which an operation is slower when its two operands are in the same memory banks."""
    return software(COMPILED, wafer.generation).bank_conflict_ratio


def rate_in_same_banks(operation: Operation, wafer: WaferSpec, *, silicon: bool) -> float:
    """Elements a cycle where two operands are in the same banks, unless the ports are slower still."""
    free = operation.elements_per_cycle(wafer, silicon=silicon)
    meeting = operation.width / conflicts(wafer) if operation.sources == 2 else free
    return min(free, meeting)


_KIND: Final = re.compile(r"(copy|fma|fmacs?|add)\s+(fp16|f16|fp32|f32)|(fmacs)\b")
_OPERATIONS: Final = {"copy": copy, "fma": multiply_add, "fmac": multiply_add, "fmacs": multiply_add, "add": add}
_N_ELEMENTS: Final = re.compile(r"cycles dsd ([0-9]{1,7})-element (int16|f16|f32) add")


def predict(m: Measurement) -> Prediction | None:
    """Return a vector operation: its rate, its set-up, or its cycles; a turn of a loop."""
    kernel, metric = m.text("kernel").lower(), m.text("metric").strip().lower()
    kind = _KIND.match(kernel) or (_KIND.match(m.text("algorithm").lower()) if kernel == "pe core" else None)
    if kind is None and kernel != "pe core":
        return None
    wafer = wafer_of(m)
    if wafer is None:
        return NO_GENERATION
    if kind is not None:
        bytes_ = 2 if "16" in (kind[2] or "f32") else 4
        operation = _OPERATIONS[kind[1] or kind[3]](wafer, bytes_)
        rate = rate_in_same_banks(operation, wafer, silicon=on_silicon(m))
        placed = COMPILED if operation.sources == 2 else ""
        if metric == "elements/cycle":
            return Prediction(value=rate, method=METHOD, software=placed)
        if metric == "cycles per element":
            return Prediction(value=1 / rate, method=METHOD, software=placed)
        if metric == "setup cycles":
            return OWN_CONSTANT
        if metric == "overhead cycles per call":
            return Prediction(value=SETUP_CYCLES, method=METHOD)
    if (counted := _N_ELEMENTS.fullmatch(metric)) is not None:
        operation = add(wafer, 4 if counted[2] == "f32" else 2)
        rate = rate_in_same_banks(operation, wafer, silicon=False)
        return Prediction(value=SETUP_CYCLES + int(counted[1]) / rate, method=METHOD, software=COMPILED)
    if metric == "cycles loop back edge":
        return OWN_CONSTANT
    return decline("the scalar core's pipeline and the memory map of a program are not modelled")


def local_product(m: Measurement) -> Prediction | None:
    """A tile product in float32 on each PE: for each k and output column, one multiply-add down the tile's rows."""
    if m.text("kernel").lower() != "gemm local multiply":
        return None
    wafer, size = wafer_of(m), m.sizes
    if wafer is None or not {"M", "N", "K"} <= size.keys() or m.rows is None or m.cols is None:
        return decline("the row does not give generation, grid, M, N and K")
    if m.element_bytes is None:
        return decline("the row does not give an element type that is known")
    rows, depth = -(-size["M"] // m.rows), -(-size["K"] // m.cols)
    rate = rate_in_same_banks(multiply_add(wafer, m.element_bytes), wafer, silicon=False)
    cycles = depth * size["N"] * (SETUP_CYCLES + rows / rate)
    value = convert_cycles(m.text("metric"), cycles, wafer.clock_hz)
    if value is None:
        return decline("neither cycles nor a time of the product")
    return Prediction(value=value, method=METHOD, software=COMPILED)

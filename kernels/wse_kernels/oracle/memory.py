"""SRAM of PEs for oracles: conversion of bytes to element values and back, and calls of oracles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

FIRST_OPERAND = 3
"""Number of words before a kernel's first named operand: first row, rows, blocks per row."""

ELEMENT_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def widen(stored_bytes: Bytes, element: str) -> F32:
    """Return the float32 values of stored elements, which are given as bytes."""
    if element == "bfloat16":
        return (stored_bytes.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return stored_bytes.view(element).astype(np.float32)


def narrow(values: F32, element: str) -> Bytes:
    """Round float32 values to an element type, to nearest even, and return their bytes."""
    flat = np.ascontiguousarray(values, np.float32).reshape(-1)
    if element == "bfloat16":
        bits = flat.view(np.uint32)
        upper_half, lower_half = bits >> np.uint32(16), bits & np.uint32(0xFFFF)
        rounds_up = (lower_half > 0x8000) | ((lower_half == 0x8000) & (upper_half % 2 == 1))
        return (
            np.where(np.isnan(flat), upper_half | np.uint32(0x40), upper_half + rounds_up)
            .astype(np.uint16)
            .view(np.uint8)
        )
    with np.errstate(over="ignore"):
        return flat.astype(element).view(np.uint8)


def e4m3(codes: Bytes) -> F32:
    """Decode e4m3 codes: 1 sign bit, 4 exponent bits with bias 7, 3 mantissa bits.

    Codes with exponent 0 are subnormal: they have the exponent of 1, but no leading 1.
    """
    exponent, mantissa = (codes >> 3 & 0xF).astype(np.int32), (codes & 7).astype(np.float32)
    leading = np.where(exponent > 0, np.float32(8), np.float32(0))
    magnitude: F32 = np.ldexp(leading + mantissa, np.maximum(exponent, 1) - 10)
    return np.where(codes & 0x80, -magnitude, magnitude)


def e2m1(nibbles: Bytes) -> F32:
    """Decode e2m1 codes: 1 sign bit, 2 exponent bits with bias 1, 1 mantissa bit.

    Codes with exponent 0 are subnormal: they have the exponent of 1, but no leading 1.
    """
    exponent, mantissa = (nibbles >> 1 & 3).astype(np.int32), (nibbles & 1).astype(np.float32)
    leading = np.where(exponent > 0, np.float32(2), np.float32(0))
    magnitude: F32 = np.ldexp(leading + mantissa, np.maximum(exponent, 1) - 2)
    return np.where(nibbles & 8, -magnitude, magnitude)


def e8m0(exponents: Bytes) -> F32:
    """Decode e8m0 codes: powers of two with bias 127. The code 255 is NaN."""
    power = np.ldexp(np.float64(1), exponents.astype(np.int32) - 127)
    return np.where(exponents == 255, np.nan, power).astype(np.float32)


def take(memory: Bytes, element: str, address: int, count: int) -> Bytes:
    """Return a copy of the bytes of ``count`` elements of one PE, from element ``address`` on."""
    size = ELEMENT_BYTES[element]
    return memory[address * size : (address + count) * size].copy()


def put(memory: Bytes, element: str, address: int, stored_bytes: Bytes) -> None:
    """Store the bytes of elements in the SRAM of one PE, from element ``address`` on."""
    start = address * ELEMENT_BYTES[element]
    memory[start : start + len(stored_bytes)] = stored_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Pe:
    """PE on which an oracle runs: its bytes, row, column, and the element type of each view."""

    memory: Bytes
    row: int
    col: int
    types: dict[str, str]

    def read(self, view: str, address: int, *shape: int) -> F32:
        """Return the elements of a view from ``address`` on, as a float32 array of ``shape``."""
        size = ELEMENT_BYTES[self.types[view]]
        count = int(np.prod(shape))
        return widen(self.memory[address * size : (address + count) * size], self.types[view]).reshape(shape)

    def bytes(self, address: int, count: int) -> Bytes:
        """Return a copy of ``count`` bytes from ``address`` on."""
        return self.memory[address : address + count].copy()

    def write(self, view: str, address: int, values: F32) -> None:
        """Round values to the element type of a view, and store them from ``address`` on."""
        stored_bytes = narrow(values, self.types[view])
        start = address * ELEMENT_BYTES[self.types[view]]
        self.memory[start : start + len(stored_bytes)] = stored_bytes

    def round_to(self, view: str, values: F32) -> F32:
        """Return values as they would be read after being stored in a view."""
        return widen(narrow(values, self.types[view]), self.types[view]).reshape(values.shape)

    def move(self, view: str, source: int, target: int, count: int) -> None:
        """Copy ``count`` elements of a view to another address, without changing their bits."""
        put(self.memory, self.types[view], target, take(self.memory, self.types[view], source, count))


@dataclass(frozen=True, slots=True, eq=False)
class Sram:
    """SRAM of a region, ``uint8[rows, cols, bytes]``, and the element types of its views."""

    memory: Bytes
    activation: str
    weight: str
    accumulator: str

    def run(self, oracle: Callable[..., None], ctl: npt.NDArray[np.int32], a: I64) -> None:
        """Call the oracle of a compute kernel for all PEs of some rows.

        Args:
            oracle: Function of one PE.
            ctl: Counters of each row, int32 ``[row, word]``.
            a: Operands of the kernel, beginning with first row, rows and blocks per row.
        """
        types = {"act": self.activation, "wgt": self.weight, "acc": self.accumulator, "f32": "float32"}
        names = [name for name in signature(oracle).parameters if name not in ("pe", "ctl")]
        operands: dict[str, object] = dict(zip(names, a[FIRST_OPERAND:].tolist(), strict=False))
        if "ctl" in signature(oracle).parameters:
            operands["ctl"] = ctl
        for row in range(a[0], a[0] + a[1]):
            for col in range(self.memory.shape[1]):
                oracle(Pe(self.memory[row, col], row, col, types), **operands)

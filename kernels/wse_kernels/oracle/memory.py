"""SRAM of PEs: bytes as element values and back, and oracles that run on it."""

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
"""Words of a kernel's operands before the first with a name: first row, rows, blocks a row."""

ELEMENT_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def widen(stored: Bytes, element: str) -> F32:
    """Return the float32 values of stored elements ``[n * element bytes]``."""
    if element == "bfloat16":
        return (stored.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return stored.view(element).astype(np.float32)


def narrow(values: F32, element: str) -> Bytes:
    """``values`` rounded to nearest even elements, as bytes."""
    flat = np.ascontiguousarray(values, np.float32).reshape(-1)
    if element == "bfloat16":
        bits = flat.view(np.uint32)
        upper, lower = bits >> np.uint32(16), bits & np.uint32(0xFFFF)
        rounds_up = (lower > 0x8000) | ((lower == 0x8000) & (upper % 2 == 1))
        return np.where(np.isnan(flat), upper | np.uint32(0x40), upper + rounds_up).astype(np.uint16).view(np.uint8)
    with np.errstate(over="ignore"):
        return flat.astype(element).view(np.uint8)


def e4m3(codes: Bytes) -> F32:
    """e4m3: 1 sign, 4 exponent bits of bias 7, 3 mantissa bits; exponent 0 is that of 1, without the leading 1."""
    exponent, mantissa = (codes >> 3 & 0xF).astype(np.int32), (codes & 7).astype(np.float32)
    leading = np.where(exponent > 0, np.float32(8), np.float32(0))
    size: F32 = np.ldexp(leading + mantissa, np.maximum(exponent, 1) - 10)
    return np.where(codes & 0x80, -size, size)


def e2m1(nibbles: Bytes) -> F32:
    """e2m1: 1 sign, 2 exponent bits of bias 1, 1 mantissa bit; exponent 0 is that of 1, without the leading 1."""
    exponent, mantissa = (nibbles >> 1 & 3).astype(np.int32), (nibbles & 1).astype(np.float32)
    leading = np.where(exponent > 0, np.float32(2), np.float32(0))
    size: F32 = np.ldexp(leading + mantissa, np.maximum(exponent, 1) - 2)
    return np.where(nibbles & 8, -size, size)


def e8m0(exponents: Bytes) -> F32:
    """e8m0: a power of two with a bias of 127; 255 is no number."""
    size = np.ldexp(np.float64(1), exponents.astype(np.int32) - 127)
    return np.where(exponents == 255, np.nan, size).astype(np.float32)


def take(memory: Bytes, element: str, address: int, count: int) -> Bytes:
    """Return a copy of ``count`` raw elements of one PE."""
    size = ELEMENT_BYTES[element]
    return memory[address * size : (address + count) * size].copy()


def put(memory: Bytes, element: str, address: int, stored: Bytes) -> None:
    """Store raw elements from ``address`` on."""
    start = address * ELEMENT_BYTES[element]
    memory[start : start + len(stored)] = stored


@dataclass(frozen=True, slots=True, eq=False)
class Pe:
    """A PE: its bytes, its row and column, and the element type of each view."""

    memory: Bytes
    row: int
    col: int
    types: dict[str, str]

    def read(self, view: str, address: int, *shape: int) -> F32:
        """Return the elements from ``address`` on, in an array of ``shape``."""
        size = ELEMENT_BYTES[self.types[view]]
        count = int(np.prod(shape))
        return widen(self.memory[address * size : (address + count) * size], self.types[view]).reshape(shape)

    def bytes(self, address: int, count: int) -> Bytes:
        """Return a copy of ``count`` bytes."""
        return self.memory[address : address + count].copy()

    def write(self, view: str, address: int, values: F32) -> None:
        """Store ``values``, rounded, from ``address`` on."""
        stored = narrow(values, self.types[view])
        start = address * ELEMENT_BYTES[self.types[view]]
        self.memory[start : start + len(stored)] = stored

    def round_to(self, view: str, values: F32) -> F32:
        """``values`` as they read back after being stored."""
        return widen(narrow(values, self.types[view]), self.types[view]).reshape(values.shape)

    def move(self, view: str, source: int, target: int, count: int) -> None:
        """Copy elements, bits unchanged."""
        put(self.memory, self.types[view], target, take(self.memory, self.types[view], source, count))


@dataclass(frozen=True, slots=True, eq=False)
class Sram:
    """Memory ``uint8[rows, cols, bytes]`` of a region and the element types of the views of it."""

    memory: Bytes
    activation: str
    weight: str
    accumulator: str

    def run(self, oracle: Callable[..., None], ctl: npt.NDArray[np.int32], a: I64) -> None:
        """Call ``oracle`` for the PEs of the rows that the operands ``a`` of its kernel name."""
        types = {"act": self.activation, "wgt": self.weight, "acc": self.accumulator, "f32": "float32"}
        names = [name for name in signature(oracle).parameters if name not in ("pe", "ctl")]
        operands: dict[str, object] = dict(zip(names, a[FIRST_OPERAND:].tolist(), strict=False))
        if "ctl" in signature(oracle).parameters:
            operands["ctl"] = ctl
        for row in range(a[0], a[0] + a[1]):
            for col in range(self.memory.shape[1]):
                oracle(Pe(self.memory[row, col], row, col, types), **operands)

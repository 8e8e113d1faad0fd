"""SRAM of PEs for oracles: element values from bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

PICO, ATTO = 1e-12, 1e-18
"""Units of fixed-point operands."""

LOWEST = np.float32(-3.0e38)
"""Start of a search for a maximum."""

ELEMENT_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def widen(stored_bytes: Bytes, element: str) -> F32:
    """Convert stored elements to float32.

    Args:
        stored_bytes: Bytes of the elements.
        element: Element type: "float32", "float16" or "bfloat16".
    """
    if element == "bfloat16":
        return (stored_bytes.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return stored_bytes.view(element).astype(np.float32)


def narrow(values: F32, element: str) -> Bytes:
    """Round float32 values to an element type, to nearest even, and return their bytes.

    Args:
        values: float32 values.
        element: Element type: "float32", "float16" or "bfloat16".
    """
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


def take(memory: Bytes, element: str, address: int, count: int) -> Bytes:
    """Copy the bytes of ``count`` elements from the SRAM of one PE.

    Args:
        memory: Bytes of the PE's SRAM.
        element: Element type, such as "float16".
        address: Index of the first element, counted in elements.
        count: Number of elements.
    """
    size = ELEMENT_BYTES[element]
    return memory[address * size : (address + count) * size].copy()


def put(memory: Bytes, element: str, address: int, stored_bytes: Bytes) -> None:
    """Store the bytes of some elements in the SRAM of one PE.

    Args:
        memory: Bytes of the PE's SRAM.
        element: Element type, such as "float16".
        address: Index of the first element, counted in elements.
        stored_bytes: Bytes of the elements.
    """
    start = address * ELEMENT_BYTES[element]
    memory[start : start + len(stored_bytes)] = stored_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Pe:
    """Access to the SRAM of one PE for a reference function, with element conversion.

    Attributes:
        memory: Bytes of the PE's SRAM.
        row, col: Position of the PE on the mesh.
        types: Element type of each view ("act", "wgt", "acc", "f32"), such as "bfloat16".
    """

    memory: Bytes
    row: int
    col: int
    types: dict[str, str]

    def read(self, view: str, address: int, *shape: int) -> F32:
        """Return consecutive elements of a view as a float32 array.

        Args:
            view: Name of the view: "act", "wgt", "acc" or "f32". It determines the element type.
            address: Index of the first element, counted in elements.
            shape: Shape of the array.
        """
        size = ELEMENT_BYTES[self.types[view]]
        count = int(np.prod(shape))
        return widen(self.memory[address * size : (address + count) * size], self.types[view]).reshape(shape)

    def bytes(self, address: int, count: int) -> Bytes:
        """Return a copy of the ``count`` bytes that start at ``address``."""
        return self.memory[address : address + count].copy()

    def write(self, view: str, address: int, values: F32) -> None:
        """Round values to the element type of a view, and store them.

        Args:
            view: Name of the view: "act", "wgt", "acc" or "f32".
            address: Index of the first element, counted in elements.
            values: float32 values of any shape.
        """
        put(self.memory, self.types[view], address, narrow(values, self.types[view]))

    def round_to(self, view: str, values: F32) -> F32:
        """Round float32 values to the element type of a view, and return them as float32."""
        if self.types[view] == "float32":
            return values
        return widen(narrow(values, self.types[view]), self.types[view]).reshape(values.shape)

    def move(self, view: str, source: int, target: int, count: int) -> None:
        """Copy ``count`` elements to another address without changing their bits.

        Args:
            view: Name of the view, which determines the element type.
            source: Index of the first element to read.
            target: Index of the first element to write.
            count: Number of elements.
        """
        put(self.memory, self.types[view], target, take(self.memory, self.types[view], source, count))


def owners(row: int, n: int, length: int, groups: int) -> I64:
    """Return, for each of ``n`` features, the row of the PE that computes it.

    The PEs of a column form groups of neighbours. Every group computes all ``n`` features and
    divides them among its PEs.

    Args:
        row: Row of a PE, which selects the group.
        n: Number of features.
        length: Number of PEs in the column.
        groups: Number of groups.
    """
    starts = np.arange(groups + 1) * length // groups
    group = int(np.searchsorted(starts, row, side="right")) - 1
    start, end = starts[group], starts[group + 1]
    return np.repeat(np.arange(start, end), np.diff(np.arange(end - start + 1) * n // (end - start)))


def sums_of_products(pe: Pe, x: int, weights: F32, total: F32) -> F32:
    """Return total[N] + x[K] @ weights[K, N], summed in ascending order of K with rounding.

    Sums are rounded to the accumulator type after each term.

    Args:
        pe: PE whose SRAM is read.
        x: Address of the activations [K].
        weights: Weights [K, N].
        total: Initial sums [N].
    """
    for value, row in zip(pe.read("act", x, len(weights)), weights, strict=True):
        total = pe.round_to("acc", total + value * row)
    return total

"""SRAM of one region's PEs, in a layout that lets kernels stream through memory.

Memory is ``[block, address, lane]``. A block contains up to 128 neighbouring PEs of one mesh row,
the lanes. Elements at the same address are side by side for all lanes of a block. An element of
``s`` bytes at byte address ``b`` of a PE has index ``b / s`` in the view with that element size.
Buffers of different types therefore never overlap.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from wse.backends.execute.calls.line_loads import LineLoads
from wse.backends.execute.weight_storage.tiles import PatchShard
from wse_kernels.codegen.lanes import MAX_LANES
from wse_kernels.library import compiled_kernel
from wse_mappings.rounding import ceil_div, round_up

VECTOR_LANES = 16  # float32 values of a 512-bit register
CACHE_LINE_BYTES = 64
LANES_PER_BLOCK = 6
"""Cost of starting a block, in lanes.

Measured values are between 0 for PEs with full SRAM and 20 for PEs with few words.
"""
STORE_NUMBERS, STORE_CODES = (compiled_kernel(name).serial for name in ("store_numbers", "store_codes"))
"""Kernels that several threads may call at a time, for memory ranges without common bytes."""
STORAGE: dict[str, type[np.generic]] = {
    "float32": np.float32,
    "float16": np.uint16,
    "bfloat16": np.int16,
    "uint8": np.uint8,
}
"""Storage type in the kernels' views, for each element type."""


class Arena:
    """Emulated SRAM of a region of ``rows`` x ``cols`` PEs, initialised to zero.

    Only the addresses from ``base_byte`` to ``top_byte`` of each PE are stored. The arena also
    counts the words that leave each PE on its four links.

    Attributes:
        memory: All bytes of the arena, uint8, ordered by block (neighbouring PEs), address and lane
            (PE).
        pending_loads: Transfers whose words are not counted in `links` yet, and how often each was
            executed.
    """

    def __init__(self, rows: int, cols: int, base_byte: int, top_byte: int) -> None:
        self.rows, self.cols = rows, cols
        self.base_byte = base_byte
        self.blocks_per_row, self.lanes = _block_shape(cols)
        self.bytes_per_pe = _whole_words(top_byte - base_byte)
        self.blocks = rows * self.blocks_per_row
        self.memory = _aligned_zeros(self.blocks * self.bytes_per_pe * self.lanes)
        self.pending_loads: Counter[LineLoads] = Counter()
        self._links: npt.NDArray[np.int64] = np.zeros((4, rows, cols), np.int64)

    @property
    def links(self) -> npt.NDArray[np.int64]:
        """Words that have left each PE so far, int64 ``[4, rows, cols]``.

        The first axis is the link: north, east, south, west.
        """
        for loads, times in self.pending_loads.items():
            loads.add(self._links, times)
        self.pending_loads.clear()
        return self._links

    @staticmethod
    def host_bytes(rows: int, cols: int, base_byte: int, top_byte: int) -> int:
        """Return how many bytes of this computer's memory an arena needs, excluding its counters.

        Args:
            rows, cols: Shape of the region in PEs.
            base_byte, top_byte: First stored SRAM address of a PE, and one past the last.
        """
        blocks_per_row, lanes = _block_shape(cols)
        return rows * blocks_per_row * lanes * _whole_words(top_byte - base_byte)

    def view(self, element_type: str) -> npt.NDArray[Any]:
        """Return the whole arena as an array of elements of one type, without copying.

        Args:
            element_type: Element type, such as ``float16``.

        Returns:
            Array ``[block, element, lane]``. A block is a group of neighbouring PEs of a row, and a
            lane is one PE of the block. bfloat16 and float16 are stored as 16-bit integers.
        """
        typed = self.memory.view(STORAGE[element_type])
        return typed.reshape(self.blocks, -1, self.lanes)

    def read(self, element_type: str, address: int, count: int) -> npt.NDArray[np.generic]:
        """Return ``count`` consecutive elements of every PE as ``[rows, cols, count]``.

        Args:
            element_type: Type of the elements.
            address: Index of the first element.
            count: Number of elements per PE.
        """
        return np.stack([self.read_row(element_type, row, address, count) for row in range(self.rows)])

    def read_row(self, element_type: str, row: int, address: int, count: int) -> npt.NDArray[np.generic]:
        """Return ``count`` consecutive elements of each PE in one row, as ``[cols, count]``.

        Args:
            element_type: Type of the elements.
            row: Row of PEs.
            address: Index of the first element.
            count: Number of elements per PE.
        """
        first = row * self.blocks_per_row
        view = self.view(element_type)[first : first + self.blocks_per_row, address : address + count, :]
        flat = np.ascontiguousarray(view.transpose(0, 2, 1)).reshape(-1, count)[: self.cols]
        return flat.view(number_type(element_type))

    def read_col(self, element_type: str, col: int, address: int, count: int) -> npt.NDArray[np.generic]:
        """Return ``count`` consecutive elements of each PE in one column, as ``[rows, count]``.

        Args:
            element_type: Type of the elements.
            col: Column of PEs.
            address: Index of the first element.
            count: Number of elements per PE.
        """
        first, lane = divmod(col, self.lanes)
        view = self.view(element_type)[first :: self.blocks_per_row, address : address + count, lane]
        return np.ascontiguousarray(view).view(number_type(element_type))

    def read_pe(self, element_type: str, row: int, col: int, address: int, count: int) -> npt.NDArray[np.uint8]:
        """Return the SRAM bytes of ``count`` consecutive elements of one PE.

        Args:
            element_type: Type of the elements.
            row, col: Row and column of the PE in its region.
            address: Index of the first element.
            count: Number of elements.
        """
        block, lane = divmod(col, self.lanes)
        column = self.view(element_type)[row * self.blocks_per_row + block, address : address + count, lane]
        return np.ascontiguousarray(column).view(np.uint8)

    def store(self, element_type: str, address: int, values: npt.NDArray[np.generic], shard: PatchShard) -> None:
        """Store the part of a tensor that each PE of a rectangle needs.

        Numbers are rounded to ``element_type``. For ``uint8``, the values are codes of quantised
        weights, which are not converted; several of them may share a byte. Padding becomes 0.

        Args:
            element_type: Element type of the tile, which is the block of weights that one PE
                stores.
            address: Index of the tile's first element.
            values: Values of the tensor, ``[rows, columns]``; a vector ``[rows]`` has one column.
            shard: Indices of the values that each PE stores, and their positions in the tile.
        """
        matrix = np.ascontiguousarray(values.reshape(len(values), -1))
        matrix = matrix.view(STORAGE[values.dtype.name])
        patch = shard.patch
        rows, cols = patch.last_row - patch.first_row, patch.last_col - patch.first_col
        operands = np.array([address, patch.first_row, rows, patch.first_col, cols, self.blocks_per_row], np.int64)
        indices = shard.rows, shard.columns, shard.row_places, shard.column_places
        if element_type == "uint8":
            STORE_CODES(self.view(element_type), matrix, *indices, shard.row_shifts, shard.column_shifts, operands)
        else:
            STORE_NUMBERS(self.view(element_type), matrix, *indices, operands)


def _block_shape(cols: int) -> tuple[int, int]:
    """Choose the division of a row of PEs into blocks that makes kernels run fastest.

    A kernel works on one block at a time. A block is a group of neighbouring PEs of a row, and each
    PE is one lane of the block.

    Returns:
        Number of blocks per row, and number of lanes per block.
    """
    min_blocks = ceil_div(cols, MAX_LANES)
    shapes = [(blocks, _lanes(ceil_div(cols, blocks))) for blocks in range(min_blocks, 2 * min_blocks)]
    full_registers = [(blocks, lanes) for blocks, lanes in shapes[1:] if lanes % VECTOR_LANES == 0]
    return min(shapes[:1] + full_registers, key=lambda shape: shape[0] * (shape[1] + LANES_PER_BLOCK))


def _whole_words(byte_count: int) -> int:
    """Return a byte count rounded up to whole 32-bit words."""
    return round_up(byte_count, 4)


def _lanes(cols: int) -> int:
    """Return how many array columns (lanes) are used to store a block of ``cols`` PEs.

    There is at least one lane per PE. The number is rounded up to whole vector registers if that
    wastes at most one lane in eight.
    """
    rounded_up = round_up(cols, VECTOR_LANES)
    return rounded_up if rounded_up * 7 <= cols * 8 else cols


def _aligned_zeros(size: int) -> npt.NDArray[np.uint8]:
    """Return a zeroed array aligned to a cache line, so that no aligned vector spans two lines."""
    memory = np.zeros(size + CACHE_LINE_BYTES, np.uint8)
    first = -memory.ctypes.data % CACHE_LINE_BYTES
    return memory[first : first + size]


def number_type(element_type: str) -> np.dtype[Any]:
    """Return the numpy dtype of an element type such as ``float32`` or ``bfloat16``."""
    return np.dtype(ml_dtypes.bfloat16 if element_type == "bfloat16" else element_type)

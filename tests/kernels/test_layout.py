"""The emulator's arena lays out PEs as kernels expect. The check is independent of its code."""

from __future__ import annotations

import numpy as np
from dequantised import byte_offset
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_values import store_values

from tests.kernels.helpers import NUMPY_TYPE, ByteRange, lanes_of, lay_out, numbers, to_lanes
from wse.backends.execute.host_memory.arena import Arena

COLS = st.sampled_from([1, 2, 7, 127, 128, 129, 250, 257])
SIZES = st.lists(st.tuples(st.integers(1, 5), st.sampled_from(sorted(NUMPY_TYPE))), min_size=1, max_size=4)


def random_memory(rows: int, cols: int, stretches: list[ByteRange], size: int, seed: int) -> np.ndarray:
    memory = np.zeros((rows, cols, size), np.uint8)
    for s in stretches:
        number = NUMPY_TYPE[s.element]
        values = numbers(np.random.default_rng(seed), (rows, cols, (s.end - s.start) // number.itemsize))
        memory[..., s.start : s.end] = values.astype(number).view(np.uint8)
    return memory


def spare_lanes(arena: Arena) -> int:
    """Return the number of lanes of a block beyond those that the columns need."""
    return arena.lanes - lanes_of(arena.cols)[1]


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 3), cols=COLS, sizes=SIZES, seed=st.integers(0, 2**32 - 1))
def test_arena_writes_and_reads_what_stands_in_the_pes(
    rows: int, cols: int, sizes: list[tuple[int, str]], seed: int
) -> None:
    stretches, size = lay_out(sizes)
    memory = random_memory(rows, cols, stretches, size, seed)
    arena = Arena(rows, cols, 4096, 4096 + size)
    for s in stretches:
        values = memory[:, :, s.start : s.end].copy().view(NUMPY_TYPE[s.element])
        patches = [(0, 0), (rows // 2, cols // 2), (0, cols // 3)]  # each overwrites what it has in common with others
        for row, col in patches:
            store_values(arena, s.element, s.address, values[row:, col:], row, col)
    in_lanes = to_lanes(memory, stretches, spare_lanes(arena), dead=0)
    np.testing.assert_array_equal(arena.memory, in_lanes.reshape(-1))
    for s in stretches:
        count = (s.end - s.start) // NUMPY_TYPE[s.element].itemsize
        read = arena.read(s.element, s.address, count)
        np.testing.assert_array_equal(read.astype(np.float64), s.values(memory))


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 3), cols=COLS, sizes=SIZES, seed=st.integers(0, 2**32 - 1))
def test_byte_offset_finds_every_byte_of_a_pe(rows: int, cols: int, sizes: list[tuple[int, str]], seed: int) -> None:
    stretches, size = lay_out(sizes)
    memory = np.random.default_rng(seed).integers(0, 256, (rows, cols, size), np.uint8)
    arena = Arena(rows, cols, 1024, 1024 + size)
    arena.memory[:] = to_lanes(memory, stretches, spare_lanes(arena), dead=0).reshape(-1)
    row, col = seed % rows, seed % cols
    for s in stretches:
        width = NUMPY_TYPE[s.element].itemsize
        offsets = [byte_offset(arena, row, col, 1024 + byte, width) for byte in range(s.start, s.end)]
        np.testing.assert_array_equal(arena.memory[offsets], memory[row, col, s.start : s.end])

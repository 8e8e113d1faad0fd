"""The emulator's arena lays PEs out as the kernels expect: checked against conversions written apart from it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.helpers import MOST_LANES, NUMPY_TYPE, Stretch, from_lanes, lanes_of, lay_out, numbers, to_lanes
from wse.execute.arena import Arena

COLS = st.sampled_from([1, 2, 7, 127, 128, 129, 257])
SIZES = st.lists(st.tuples(st.integers(1, 5), st.sampled_from(sorted(NUMPY_TYPE))), min_size=1, max_size=4)


def random_memory(rows: int, cols: int, stretches: list[Stretch], size: int, seed: int) -> np.ndarray:
    memory = np.zeros((rows, cols, size), np.uint8)
    for s in stretches:
        number = NUMPY_TYPE[s.element]
        values = numbers(np.random.default_rng(seed), (rows, cols, (s.end - s.start) // number.itemsize))
        memory[..., s.start : s.end] = values.astype(number).view(np.uint8)
    return memory


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 3), cols=COLS, sizes=SIZES, seed=st.integers(0, 2**32 - 1))
def test_lanes_and_back_is_the_identity(rows: int, cols: int, sizes: list[tuple[int, str]], seed: int) -> None:
    stretches, size = lay_out(sizes)
    memory = random_memory(rows, cols, stretches, size, seed)
    np.testing.assert_array_equal(from_lanes(to_lanes(memory, stretches), stretches, cols), memory)


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 3), cols=COLS, sizes=SIZES, seed=st.integers(0, 2**32 - 1))
def test_arena_writes_and_reads_what_stands_in_the_pes(
    rows: int, cols: int, sizes: list[tuple[int, str]], seed: int
) -> None:
    stretches, size = lay_out(sizes)
    memory = random_memory(rows, cols, stretches, size, seed)
    arena = Arena(rows, cols, 4096, 4096 + size)
    for s in stretches:
        for row in range(rows):
            arena.write_row(
                s.element, row, s.address, memory[row, :, s.start : s.end].copy().view(NUMPY_TYPE[s.element])
            )
    np.testing.assert_array_equal(arena.memory, to_lanes(memory, stretches, dead=0).reshape(-1))
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
    arena.memory[:] = to_lanes(memory, stretches, dead=0).reshape(-1)
    row, col = seed % rows, seed % cols
    for s in stretches:
        width = NUMPY_TYPE[s.element].itemsize
        offsets = [arena.byte_offset(row, col, 1024 + byte, width) for byte in range(s.start, s.end)]
        np.testing.assert_array_equal(arena.memory[offsets], memory[row, col, s.start : s.end])


BLOCKS = [(1, 1, 1), (128, 1, 128), (129, 2, 65), (257, 3, 86), (994, 8, 125)]


@pytest.mark.parametrize(("cols", "blocks", "lanes"), BLOCKS)
def test_blocks_are_as_few_and_as_equal_as_can_be(cols: int, blocks: int, lanes: int) -> None:
    arena = Arena(2, cols, 0, 8)
    assert (arena.blocks_per_row, arena.lanes) == (blocks, lanes) == lanes_of(cols)
    assert arena.lanes <= MOST_LANES
    assert arena.blocks_per_row * arena.lanes - cols < arena.blocks_per_row
    assert arena.view("float32").shape == (2 * blocks, 2, lanes)

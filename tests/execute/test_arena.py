"""Blocks of PEs that stand side by side: as few lanes that stand for no PE as whole vector registers allow."""

from __future__ import annotations

import pytest

from wse.backends.execute.host_memory.arena import MAX_LANES, Arena

BYTES = 1024


def lanes(cols: int) -> int:
    """Lanes of a mesh row."""
    return Arena.host_bytes(1, cols, 0, BYTES) // BYTES


@pytest.mark.parametrize(("cols", "wanted"), [(8, 8), (103, 112), (256, 256), (660, 672), (683, 704), (750, 768)])
def test_lanes_of_a_row(cols: int, wanted: int) -> None:
    assert lanes(cols) == wanted


def test_every_pe_has_a_lane_and_one_in_eight_stands_for_none_at_the_most() -> None:
    for cols in range(1, 10 * MAX_LANES):
        arena = Arena(1, cols, 0, 4)
        assert arena.lanes <= MAX_LANES
        assert cols <= arena.blocks_per_row * arena.lanes == lanes(cols) <= 8 / 7 * (cols + arena.blocks_per_row)

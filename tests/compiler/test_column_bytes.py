"""Bytes of a column by the columns of a region: those of the tiles that the compiler makes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from compiler_states import begin
from tiny_model import tiny_spec

from wse.compiler.column_bytes import column_bytes
from wse.compiler.passes.partition import partition
from wse.compiler.passes.shard import shard
from wse.number_formats import ELEMENT_BYTES


@pytest.mark.parametrize("cols", [1, 5, 7, 12, 40])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_a_column_holds_what_its_tiles_do(cols: int, tied: bool) -> None:  # noqa: FBT001
    spec = tiny_spec(tied=tied)
    state = begin((spec.hidden_size, cols), spec)
    tiles = [tile.buffer for tile in shard(partition(state)).tiles if tile.tile.parts[0].outer is not None]
    element = ELEMENT_BYTES[state.options.activation_type]
    matrices = sum(tile.elements for tile in tiles) * spec.hidden_size * element
    size = column_bytes(spec, replace(state.options, context=0))(0, spec.layer_count, 1 if tied else 2)
    vectors = 2 * spec.layer_count * spec.hidden_size * element / cols
    assert size(cols) == pytest.approx(matrices + vectors)

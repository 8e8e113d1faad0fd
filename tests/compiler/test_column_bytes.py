"""Test that the bytes of a column, computed from the region's columns, are those of its tiles."""

from __future__ import annotations

from dataclasses import replace

import pytest
from compiler_states import begin
from tiny_model import tiny_spec

from wse.compiler.column_bytes import column_bytes
from wse.compiler.passes.partition import partition
from wse.compiler.passes.shard import shard
from wse.number_formats import ELEMENT_BYTES
from wse_mappings.cuts.layer_parts import LAYER_PARTS, LayerRange
from wse_mappings.cuts.split import ceil_div

OPTIONS = replace(begin((1, 1)).options, context=0)


@pytest.mark.parametrize("cols", [1, 5, 7, 12, 40])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_a_column_holds_what_its_tiles_do(cols: int, tied: bool) -> None:  # noqa: FBT001
    spec = tiny_spec(tied=tied)
    state = begin((spec.hidden_size, cols), spec)
    tiles = [tile.buffer for tile in shard(partition(state)).tiles if tile.tile.parts[0].outer is not None]
    element = ELEMENT_BYTES[state.options.activation_type]
    matrices = sum(tile.elements for tile in tiles) * spec.hidden_size * element
    size = column_bytes(spec, replace(state.options, context=0))(LayerRange(0, spec.layer_count), 1 if tied else 2)
    vectors = 2 * spec.layer_count * spec.hidden_size * element / cols
    assert size(cols) == pytest.approx(matrices + vectors)


@pytest.mark.parametrize("cols", [1, 5, 12, 40])
@pytest.mark.parametrize("part", range(1, LAYER_PARTS))
def test_parts_of_layers_are_cut_into_whole_features_by_themselves(cols: int, part: int) -> None:
    """Of two layers, the first starts with a part and the second ends before the same part."""
    spec = replace(tiny_spec(layers=3, heads=40, kv_heads=40, ffn=64), tied_embedding=False)
    size = column_bytes(spec, OPTIONS)
    last, first = size(LayerRange(0, 1, part), 0)(cols), size(LayerRange(0, 1, 0, part), 0)(cols)
    both, whole = size(LayerRange(0, 2, part, part), 0)(cols), size(LayerRange(0, 1), 0)(cols)
    assert both == pytest.approx(first + last)
    features = [ceil_div(64 - 8 * (part - 1), cols), ceil_div(8 * (part - 1), cols)]
    further = 3 * 40 * 4 * (sum(features) - ceil_div(64, cols))
    assert both - whole == pytest.approx(further)

"""Tests of linear attention on rectangles of PEs: every feature and state element is on the PEs that need it."""

from collections import Counter

import numpy as np
import pytest

from wse_mappings.cuts.linear_cut import linear_cut

KEY_HEADS, VALUES_PER_KEY, KEY_SIZE, VALUE_SIZE = 4, 2, 6, 5
SIZES = {"key_heads": KEY_HEADS, "values_per_key": VALUES_PER_KEY, "key_size": KEY_SIZE, "value_size": VALUE_SIZE}


@pytest.mark.parametrize(("rows", "cols", "segments"), [(4, 3, 1), (13, 50, 1), (5, 16, 8)])
def test_every_element_of_the_state_is_on_one_pe(rows: int, cols: int, segments: int) -> None:
    cut = linear_cut(rows, cols, **SIZES, taps=3, segment_count=segments)
    width, counts = cut.heads.features_per_head, Counter[tuple[int, int, int]]()
    for row in range(rows):
        first = row // cut.key_rows * cut.value_features_per_row
        places = range(first, min(first + cut.value_features_per_row, width))
        for col in range(cols):
            for i, head in enumerate(cut.value_heads[col].tolist()):
                values = [int(cut.values[col, i * width + place]) for place in places]
                keys = cut.key_features[row][cut.key_features[row] >= 0].tolist()
                counts.update((head, key, value) for key in keys for value in values if value >= 0)
    heads = KEY_HEADS * VALUES_PER_KEY
    assert counts == Counter(
        (value // VALUE_SIZE, key, value) for value in range(heads * VALUE_SIZE) for key in range(KEY_SIZE)
    )


@pytest.mark.parametrize(("cols", "segments"), [(3, 1), (50, 1), (16, 8)])
def test_columns_of_a_group_have_all_keys_of_its_heads(cols: int, segments: int) -> None:
    cut = linear_cut(4, cols, **SIZES, taps=3, segment_count=segments)
    for first, count in cut.heads.segments:
        keys = cut.keys[first : first + count].reshape(count, -1, cut.keys_per_head)
        for i, offset in enumerate(cut.key_offsets[first].tolist()):
            if offset >= 0:
                found = keys[:, i][keys[:, i] >= 0]
                np.testing.assert_array_equal(np.sort(found), np.arange(offset, offset + KEY_SIZE))


def test_outer_columns_of_a_wider_rectangle_are_empty() -> None:
    wide = linear_cut(4, 5, **SIZES, taps=3).on_the_middle(9)
    for index in (wide.keys, wide.first_key, wide.key_offsets, wide.values, wide.value_heads, wide.taps):
        assert (index[[0, 1, 7, 8]] == -1).all()
    assert wide.heads.segments[0][0] == 2

"""Tests of the head features of each column: none is lost or repeated, and rotary pairs stay together."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wse_mappings.cuts.head_groups import head_groups, head_places
from wse_mappings.rounding import ceil_div

Sizes = tuple[int, int, int, int]


@st.composite
def sizes(draw: st.DrawFn) -> Sizes:
    """Return the numbers of columns and kv heads, the head size, and the number of rotated features (even)."""
    head_size = draw(st.integers(1, 128))
    rotary_size = 2 * draw(st.integers(0, head_size // 2))
    return draw(st.integers(1, 80)), draw(st.integers(1, 20)), head_size, rotary_size


def stored_indices(rows: np.ndarray) -> list[int]:
    """Return all indices except padding in ascending order, with duplicates."""
    return sorted(rows[rows >= 0].tolist())


@given(size=sizes(), queries_per_kv=st.integers(1, 6))
def test_every_feature_is_stored_on_exactly_one_column(size: Sizes, queries_per_kv: int) -> None:
    cols, kv_heads, head_size, _ = size
    groups = head_groups(*size)
    assert stored_indices(groups.rows(head_size, 1)) == list(range(kv_heads * head_size))
    assert stored_indices(groups.rows(head_size, queries_per_kv)) == list(range(kv_heads * queries_per_kv * head_size))
    assert groups.rows(head_size, queries_per_kv).shape == (
        cols,
        groups.kv_heads_per_col * queries_per_kv * groups.features_per_head,
    )


@given(size=sizes())
def test_head_places_are_those_of_the_assignment(size: Sizes) -> None:
    groups = head_groups(*size)
    assert head_places(*size) == (groups.kv_heads_per_col, groups.features_per_head)


@given(size=sizes(), mixed=st.booleans())
def test_rotary_partners_are_on_one_column(
    size: Sizes,
    mixed: bool,  # noqa: FBT001
) -> None:
    """Partners are half of the rotated places apart. Pairs of other features use these places only if allowed."""
    rotary_size = size[3]
    groups = head_groups(*size, mixed_pairs=mixed)
    half = groups.rotated // 2
    first, second, rest = np.split(groups.features, [half, groups.rotated], axis=1)
    np.testing.assert_array_equal(first >= 0, second >= 0)
    rotates = (first >= 0) & (first < rotary_size // 2)
    np.testing.assert_array_equal(second[rotates], first[rotates] + rotary_size // 2)
    others = (first >= 0) & ~rotates
    assert (first[others] >= rotary_size).all()
    np.testing.assert_array_equal(second[others], first[others] + 1)
    assert mixed or not others.any()
    assert (rest[rest >= 0] >= rotary_size).all()


@given(size=sizes())
def test_pairs_and_unrotated_features_are_each_divided_evenly_over_a_group(size: Sizes) -> None:
    groups = head_groups(*size)
    for kind in np.split(groups.features >= 0, [groups.rotated // 2, groups.rotated], axis=1):
        counts = kind.sum(axis=1)
        for start, count in groups.segments:
            assert np.ptp(counts[start : start + count]) <= 1


@given(size=sizes(), queries_per_kv=st.integers(1, 6))
def test_column_stores_the_same_features_of_a_key_and_its_queries(size: Sizes, queries_per_kv: int) -> None:
    """Query head q belongs to kv head q // queries_per_kv."""
    cols, _, head_size, _ = size
    groups = head_groups(*size)
    shape = (cols, groups.kv_heads_per_col, -1, groups.features_per_head)
    keys = groups.rows(head_size, 1).reshape(shape)
    queries = groups.rows(head_size, queries_per_kv).reshape(shape)
    padding = np.broadcast_to(keys < 0, queries.shape)
    np.testing.assert_array_equal(queries < 0, padding)
    same = np.broadcast_to(keys, queries.shape)
    np.testing.assert_array_equal((queries % head_size)[~padding], (same % head_size)[~padding])
    np.testing.assert_array_equal((queries // head_size // queries_per_kv)[~padding], (same // head_size)[~padding])


@given(size=sizes())
def test_columns_of_a_segment_store_the_same_heads_and_segments_cover_the_line(size: Sizes) -> None:
    cols, kv_heads, _, _ = size
    groups = head_groups(*size)
    covered = [col for first, count in groups.segments for col in range(first, first + count)]
    assert covered == list(range(cols))
    counts = [count for _, count in groups.segments]
    assert max(counts) - min(counts) <= 1
    if cols >= kv_heads:
        sharing = groups.kv_heads_per_col
        assert len(groups.segments) * sharing == kv_heads
        for group, (first, count) in enumerate(groups.segments):
            heads = set(range(group * sharing, (group + 1) * sharing))
            rows = groups.kv_heads[first : first + count]
            assert [set(row[row >= 0].tolist()) for row in rows] == [heads] * count
    else:
        assert all(count == 1 for _, count in groups.segments)


@given(size=sizes())
def test_columns_store_the_smallest_number_of_features(size: Sizes) -> None:
    """With few columns, a column stores whole heads. With many columns, it stores whole pairs and single features.

    The number of heads that share a group of columns is the one with which a column has the fewest places.
    """
    cols, kv_heads, head_size, rotary_size = size
    groups = head_groups(*size)
    if cols < kv_heads:
        assert (groups.kv_heads_per_col, groups.features_per_head) == (ceil_div(kv_heads, cols), head_size)
    else:
        candidates = []
        for sharing in (n for n in range(1, kv_heads + 1) if kv_heads % n == 0):
            group_cols = cols // (kv_heads // sharing)
            rotated = 2 * ceil_div(rotary_size // 2, group_cols)
            separate, pairs = (
                rotated + ceil_div(head_size - rotary_size, group_cols),
                2 * ceil_div(head_size // 2, group_cols),
            )
            mixed = rotary_size > 0 and head_size % 2 == 0 and pairs < separate
            candidates.append((sharing, pairs if mixed else rotated, pairs if mixed else separate))
        best = min(candidates, key=lambda candidate: candidate[0] * candidate[2])
        assert (groups.kv_heads_per_col, groups.rotated, groups.features_per_head) == best


@given(size=sizes())
def test_even_cut_stores_at_most_the_features_of_the_smallest_group(size: Sizes) -> None:
    cols, kv_heads, head_size, _ = size
    even, pairs = head_groups(*size, whole_pairs=False), head_groups(*size)
    assert stored_indices(even.rows(head_size, 1)) == list(range(kv_heads * head_size))
    assert len(even.segments) == min(cols, kv_heads)
    assert even.features_per_head == max(ceil_div(head_size, count) for _, count in even.segments)
    assert pairs.kv_heads_per_col * pairs.features_per_head <= even.kv_heads_per_col * (even.features_per_head + 2)


@given(size=sizes(), queries_per_kv=st.integers(1, 6))
def test_query_heads_of_a_column_are_those_of_its_rows(size: Sizes, queries_per_kv: int) -> None:
    cols, _, head_size, _ = size
    groups = head_groups(*size)
    heads = groups.query_heads(queries_per_kv)
    rows = groups.rows(head_size, queries_per_kv).reshape(cols, heads.shape[1], -1)
    for features, head in zip(rows.reshape(-1, rows.shape[2]), heads.reshape(-1), strict=True):
        assert set((features[features >= 0] // head_size).tolist()) <= {int(head)}

"""Dividing an extent over a line loses nothing, repeats nothing, and is as even as possible."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wse_mappings.cuts.split import balanced_counts, balanced_segments, ceil_div, grouped_blocks, padded_blocks

TOTALS, PARTS = st.integers(0, 500), st.integers(1, 40)


@given(total=st.integers(1, 500), parts=PARTS)
def test_padded_blocks_hold_every_index_once_in_order_with_padding_at_the_end(total: int, parts: int) -> None:
    blocks = padded_blocks(total, parts)
    assert blocks.shape == (parts, ceil_div(total, parts))
    flat = blocks.reshape(-1).tolist()
    assert flat == [*range(total), *[-1] * (len(flat) - total)]


@given(total=st.integers(1, 500), parts=PARTS, group=st.integers(1, 40))
def test_grouped_blocks_hold_every_index_once_and_part_groups(total: int, parts: int, group: int) -> None:
    blocks = grouped_blocks(total, parts, group)
    assert len(blocks) == parts
    assert blocks[blocks >= 0].tolist() == [*range(total)]
    groups = ceil_div(total, group)
    touched = max(len({index // group for index in block if index >= 0}) for block in blocks.tolist())
    assert touched == ceil_div(groups, parts)
    width = blocks.shape[1]
    if parts >= groups:  # a narrower block would take more parts than there are
        assert width == group or width == 1 or sum(ceil_div(group, width - 1) for _ in range(groups)) > parts
    else:
        assert width == touched * group


@given(total=TOTALS, parts=PARTS)
def test_balanced_counts_differ_by_at_most_one_the_larger_first(total: int, parts: int) -> None:
    counts = balanced_counts(total, parts).tolist()
    assert sum(counts) == total
    assert counts == sorted(counts, reverse=True)
    assert counts[0] - counts[-1] <= 1


@given(total=TOTALS, parts=PARTS)
def test_balanced_segments_follow_each_other_without_gaps(total: int, parts: int) -> None:
    covered = [index for start, count in balanced_segments(total, parts) for index in range(start, start + count)]
    assert covered == list(range(total))

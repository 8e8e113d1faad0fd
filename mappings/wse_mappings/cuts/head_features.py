"""Features of an attention head on each column of a group: evenly divided, or as rotary pairs.

Both features of a rotary pair are on the same column, so that rotary embeddings are local to it.
Features that do not rotate can be stored as pairs as well, which then rotate by an angle of zero.
"""

from __future__ import annotations

import numpy as np

from wse_mappings.cuts.split import I32
from wse_mappings.rounding import ceil_div


def features_per_column(head_size: int, rotary_size: int, cols: int, *, allows_mixed_pairs: bool) -> int:
    """Return the maximum number of features of an attention head that a PE column stores.

    The columns of a group divide the features of a head. Rotary embeddings rotate features in
    pairs, so both features of a pair are stored on the same column. The other features need no
    partner.

    Args:
        head_size: Number of features of a head.
        rotary_size: Number of these features that rotate.
        cols: Number of columns of the group.
        allows_mixed_pairs: Whether features that do not rotate may be stored as rotary pairs, which
            rotate by an angle of zero.
    """
    mixed_width = 2 * ceil_div(head_size // 2, cols)
    return (
        mixed_width
        if _mixes_pairs(head_size, rotary_size, cols, allows_mixed_pairs=allows_mixed_pairs)
        else _unmixed_width(head_size, rotary_size, cols)
    )


def _unmixed_width(head_size: int, rotary_size: int, cols: int) -> int:
    """Return how many features of a head a column stores if only rotated features form pairs.

    The features that rotate are divided over the columns in pairs, and all other features one by
    one. The number includes padding.

    Args:
        head_size: Number of features of a head.
        rotary_size: Number of these features that rotate.
        cols: Number of columns over which the head is divided.
    """
    return 2 * ceil_div(rotary_size // 2, cols) + ceil_div(head_size - rotary_size, cols)


def _mixes_pairs(head_size: int, rotary_size: int, cols: int, *, allows_mixed_pairs: bool) -> bool:
    """Return whether to divide all features of a head in pairs, even those that do not rotate.

    This is done if it is allowed and reduces the number of features per column, padding included.
    Features that do not rotate then form rotary pairs that rotate by an angle of zero.

    Args:
        head_size: Number of features of a head.
        rotary_size: Number of these features that rotate.
        cols: Number of columns over which the head is divided.
        allows_mixed_pairs: Whether features that do not rotate may be stored as rotary pairs.
    """
    saves_features = 2 * ceil_div(head_size // 2, cols) < _unmixed_width(head_size, rotary_size, cols)
    return allows_mixed_pairs and rotary_size > 0 and head_size % 2 == 0 and saves_features


def even_features(head_size: int, rotary_size: int, segments: list[tuple[int, int]]) -> tuple[I32, int]:
    """Divide the features of an attention head into equal, consecutive blocks, one per column.

    A head is partitioned across the columns of a group. All groups divide their heads in the same
    way.

    Args:
        head_size: Number of features of a head.
        rotary_size: Number of these features that rotate.
        segments: (first column, number of columns) of each group.

    Returns:
        int32 ``[cols, F]`` with -1 for padding, and the number of a column's features that rotate.
    """
    width = max(ceil_div(head_size, count) for _, count in segments)
    place = np.concatenate([np.arange(count, dtype=np.int32) for _, count in segments])
    index = place[:, None] * width + np.arange(width, dtype=np.int32)
    return np.where(index < head_size, index, np.int32(-1)), 2 * (width * rotary_size // head_size // 2)


def paired_features(
    head_size: int, rotary_size: int, segments: list[tuple[int, int]], *, allows_mixed_pairs: bool
) -> tuple[I32, int]:
    """Partition the features of an attention head across columns, keeping rotary pairs together.

    A rotary pair consists of features p and p + rotary_size / 2, which rotate together. If features
    that do not rotate are stored as pairs too, such a pair consists of p and p + 1.

    Args:
        head_size: Number of features of a head.
        rotary_size: Number of these features that rotate.
        segments: (first column, number of columns) of each group.
        allows_mixed_pairs: Whether features that do not rotate may be stored as rotary pairs.

    Returns:
        int32 ``[cols, F]`` with -1 for padding, and the number of a column's features that rotate.
    """
    half = rotary_size // 2
    if _mixes_pairs(head_size, rotary_size, min(count for _, count in segments), allows_mixed_pairs=allows_mixed_pairs):
        indices = _balanced_indices(head_size // 2, segments)
        first = np.where(indices < half, indices, 2 * indices)
        second = np.where(indices < half, first + half, first + 1)
        all_features = np.concatenate([first, np.where(indices < 0, indices, second)], axis=1, dtype=np.int32)
        return all_features, all_features.shape[1]
    pairs, plain_features = _balanced_indices(half, segments), _balanced_indices(head_size - rotary_size, segments)
    partners, plain_places = (
        np.where(index < 0, index, index + first) for index, first in ((pairs, half), (plain_features, 2 * half))
    )
    return np.concatenate([pairs, partners, plain_places], axis=1, dtype=np.int32), 2 * pairs.shape[1]


def _balanced_indices(extent: int, segments: list[tuple[int, int]]) -> I32:
    """Divide the indices 0 to ``extent`` - 1 into nearly equal blocks, one per column of a group.

    All groups divide the same indices; a group with more columns has smaller blocks.

    Args:
        extent: Number of indices, which every group distributes over its columns.
        segments: (first column, number of columns) of each group.

    Returns:
        int32 ``[cols, width]``, with -1 for padding.
    """
    widths = np.array([count for _, count in segments])
    count = np.repeat(widths, widths)
    place = np.concatenate([np.arange(columns) for columns in widths])
    min_counts, remainders = np.divmod(extent, count)
    first, counts = place * min_counts + np.minimum(place, remainders), min_counts + (place < remainders)
    nth = np.arange(ceil_div(extent, int(widths.min())))
    return np.where(nth < counts[:, None], first[:, None] + nth, -1).astype(np.int32)

"""Which features of which heads a mesh column holds, so that rotation is local and scores reduce inside a group.

With at least as many columns as kv heads, each kv head, or several together where that leaves fewer places empty, owns
a contiguous group of columns (sizes differ by at most one), and a column of the group holds the same features, whole
rotary pairs and a share of those that do not rotate, of each head's keys, values and all its queries. With fewer
columns, each holds whole kv heads. Cut evenly
instead, as the kernels of WaferLLM (OSDI 2025) that were measured do, features may part from their rotary partners:
right for times, wrong for values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wse_mappings.split import I32, balanced_segments, ceil_div, padded_blocks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadGroups:
    """The assignment of features to columns.

    Attributes:
        kv_heads: int32 ``[cols, heads per column]``: kv heads of each column, -1 for padding.
        features: int32 ``[cols, F]``: local features within a head, ``rotated / 2`` first members of rotary pairs,
            their partners, and those that do not rotate; in order where they are cut evenly. -1 for padding.
        rotated: local features that rotate, padding included.
        segments: (first column, columns) of each group; the columns of a group sum their scores.
    """

    kv_heads: I32
    features: I32
    rotated: int
    segments: tuple[tuple[int, int], ...]

    @property
    def kv_heads_per_col(self) -> int:
        """Kv heads that a column holds, padding included."""
        return int(self.kv_heads.shape[1])

    @property
    def features_per_head(self) -> int:
        """Features of a head that a column holds, padding included."""
        return int(self.features.shape[1])

    def query_heads(self, queries_per_kv: int) -> I32:
        """Heads of the queries that a column holds, int32 ``[cols, heads]``, -1 for padding."""
        heads = self.kv_heads[:, :, None] * queries_per_kv + np.arange(queries_per_kv, dtype=np.int32)
        return np.where(self.kv_heads[:, :, None] < 0, np.int32(-1), heads).reshape(len(heads), -1)

    def rows(self, head_size: int, queries_per_kv: int) -> I32:
        """Rows of the projection matrix that give the column's features, int32 ``[cols, heads * F]``.

        ``queries_per_kv`` 1 gives keys and values; more gives the queries, head after head.
        """
        heads, features = self.query_heads(queries_per_kv)[:, :, None], self.features[:, None, :]
        index = heads * head_size + features
        return np.where((heads < 0) | (features < 0), np.int32(-1), index).reshape(len(index), -1)


def head_groups(
    cols: int,
    kv_head_count: int,
    head_size: int,
    rotary_size: int,
    *,
    whole_pairs: bool = True,
    together: bool = True,
) -> HeadGroups:
    """Assign ``kv_head_count`` heads of ``head_size`` features to ``cols`` columns.

    The first ``rotary_size`` features (even, 0 to head_size) rotate: feature p with feature p + rotary_size / 2. Of the
    ways to let heads share a group, where they may be ``together``, that with the fewest places for features on a
    column is taken.
    """
    if cols < kv_head_count:
        held = padded_blocks(kv_head_count, cols)
        features = np.tile(np.arange(head_size, dtype=np.int32), (cols, 1))
        alone = tuple((c, 1) for c in range(cols))
        return HeadGroups(kv_heads=held, features=features, rotated=rotary_size, segments=alone)
    if not whole_pairs:
        return _grouped(cols, kv_head_count, 1, *_even(head_size, rotary_size, balanced_segments(cols, kv_head_count)))
    ways = []
    for sharing in (n for n in range(1, (kv_head_count if together else 1) + 1) if kv_head_count % n == 0):
        segments = balanced_segments(cols, kv_head_count // sharing)
        ways.append((sharing, *_pairs(head_size, rotary_size, segments)))
    return _grouped(cols, kv_head_count, *min(ways, key=lambda way: way[0] * way[1].shape[1]))


def _grouped(cols: int, kv_head_count: int, sharing: int, features: I32, rotated: int) -> HeadGroups:
    """So many heads in each group of columns."""
    segments = balanced_segments(cols, kv_head_count // sharing)
    heads = np.arange(kv_head_count, dtype=np.int32).reshape(-1, sharing)
    kv_heads = np.repeat(heads, [count for _, count in segments], axis=0)
    return HeadGroups(kv_heads=kv_heads, features=features, rotated=rotated, segments=tuple(segments))


def _even(head_size: int, rotary_size: int, segments: list[tuple[int, int]]) -> tuple[I32, int]:
    """The features of every column in blocks of one size; how many rotate."""
    width = max(ceil_div(head_size, count) for _, count in segments)
    place = np.concatenate([np.arange(count, dtype=np.int32) for _, count in segments])
    index = place[:, None] * width + np.arange(width, dtype=np.int32)
    return np.where(index < head_size, index, np.int32(-1)), 2 * (width * rotary_size // head_size // 2)


def _pairs(head_size: int, rotary_size: int, segments: list[tuple[int, int]]) -> tuple[I32, int]:
    """The features of every column in whole rotary pairs and those without a partner; how many are pairs' places."""
    half = rotary_size // 2
    pairs, rest = _balanced(half, segments), _balanced(head_size - rotary_size, segments)
    partners, others = (np.where(index < 0, index, index + first) for index, first in ((pairs, half), (rest, 2 * half)))
    return np.concatenate([pairs, partners, others], axis=1, dtype=np.int32), 2 * pairs.shape[1]


def _balanced(extent: int, segments: list[tuple[int, int]]) -> I32:
    """``[cols, width]``: each segment's share of ``extent`` indices, as even as can be; -1 for padding."""
    widths = np.array([count for _, count in segments])
    count = np.repeat(widths, widths)
    place = np.concatenate([np.arange(columns) for columns in widths])
    each, over = np.divmod(extent, count)
    first, taken = place * each + np.minimum(place, over), each + (place < over)
    nth = np.arange(ceil_div(extent, int(widths.min())))
    return np.where(nth < taken[:, None], first[:, None] + nth, -1).astype(np.int32)

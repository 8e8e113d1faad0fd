"""Groups of columns that share attention heads, and the features of each column.

Rotary embeddings are local to a column: both features of a rotary pair are on it. Scores are summed
within a group.

- If there are at least as many columns as KV heads, each KV head has a contiguous group of columns.
  Several heads share a group if the columns then have less padding. Sizes of groups differ by at
  most one. A column has the same features of the keys, values and queries of all heads of its
  group: whole rotary pairs, and a part of the features that do not rotate.
- If there are fewer columns, each column has whole KV heads.
- Features can also be divided evenly, as in the measured kernels of WaferLLM (OSDI 2025). Features
  may then be separated from their rotary partners, which gives correct times but wrong values.

Columns may form segments with expensive links in between, such as those of several wafers. Each
segment then has whole KV heads, or, if there are fewer heads than segments, a head has whole
segments. In the second case a head may have more columns than rotary pairs, so that columns would
be idle. A KV head may therefore have several copies, each with a part of its queries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wse_mappings.cuts.head_features import even_features, features_per_column, paired_features
from wse_mappings.cuts.split import I32, balanced_segments, middle_segment, on_the_middle, padded_blocks
from wse_mappings.rounding import ceil_div


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadGroups:
    """Assignment of the features of attention heads to columns of PEs.

    Columns are divided into groups of neighbours. The columns of a group divide the features of the
    same heads, and add up their partial scores.

    Attributes:
        kv_heads: int32 ``[cols, heads per column]``: KV heads of each column, -1 for padding.
            The copies of a head are adjacent, and each is counted as a head with its own index.
        features: int32 ``[cols, F]``: features within a head that the column stores, -1 for
            padding. The first ``rotated / 2`` are first members of rotary pairs; then follow their
            partners, then features that do not rotate. Evenly divided features are in order.
            Features that do not rotate may be among the pairs; they rotate by an angle of zero.
        rotated: Number of a column's features that rotate, including padding.
        segments: (first column, number of columns) of each group.
        copies: Number of groups that store the keys and values of the same KV head, each for a part
            of its queries.
    """

    kv_heads: I32
    features: I32
    rotated: int
    segments: tuple[tuple[int, int], ...]
    copies: int = 1

    @property
    def kv_heads_per_col(self) -> int:
        """Number of KV heads that a column stores entirely or in part.

        Columns with fewer heads are padded to this number.
        """
        return int(self.kv_heads.shape[1])

    @property
    def features_per_head(self) -> int:
        """Number of features that a column stores of each of its heads.

        Columns with fewer features are padded to this number.
        """
        return int(self.features.shape[1])

    def query_heads(self, queries_per_kv: int) -> I32:
        """Return the query heads whose features each column stores.

        Args:
            queries_per_kv: Query heads per KV head.

        Returns:
            int32 ``[cols, heads]``, with -1 for padding.
        """
        queries_per_copy = queries_per_kv // self.copies
        heads = self.kv_heads[:, :, None] * queries_per_copy + np.arange(queries_per_copy, dtype=np.int32)
        return np.where(self.kv_heads[:, :, None] < 0, np.int32(-1), heads).reshape(len(heads), -1)

    def rows(self, head_size: int, queries_per_kv: int) -> I32:
        """Return the rows of a projection matrix that compute the features of each column.

        Args:
            head_size: Features of a head.
            queries_per_kv: 1 for the matrices of keys and values, or the number of query heads per
                KV head for the matrix of queries.

        Returns:
            int32 ``[cols, heads * F]``, head after head, with -1 for padding.
        """
        matrix_heads = self.kv_heads // self.copies if queries_per_kv == 1 else self.query_heads(queries_per_kv)
        heads, features = matrix_heads[:, :, None], self.features[:, None, :]
        index = heads * head_size + features
        return np.where((heads < 0) | (features < 0), np.int32(-1), index).reshape(len(index), -1)

    def on_the_middle(self, cols: int) -> HeadGroups:
        """Return this assignment for the middle columns of a wider rectangle of PEs.

        The outer columns store nothing.

        Args:
            cols: Number of columns of the wider rectangle.
        """
        first, _ = middle_segment(len(self.features), cols)
        return replace(
            self,
            kv_heads=on_the_middle(self.kv_heads, cols),
            features=on_the_middle(self.features, cols),
            segments=tuple((first + start, count) for start, count in self.segments),
        )


def head_groups(
    cols: int,
    kv_head_count: int,
    head_size: int,
    rotary_size: int,
    *,
    whole_pairs: bool = True,
    may_share: bool = True,
    mixed_pairs: bool = True,
    segment_count: int = 1,
) -> HeadGroups:
    """Assign the features of KV heads to columns.

    The first ``rotary_size`` features of a head rotate: feature p together with feature p +
    rotary_size / 2.

    1. If a segment has fewer columns than heads, each column stores whole heads and is a group by
       itself.
    2. Otherwise, if ``whole_pairs`` is False, each group of columns stores one head, whose features
       are divided evenly.
    3. Otherwise, every divisor of the number of heads is a candidate for the number of heads that
       share a group of columns. If ``may_share`` is False, 1 is the only candidate. The columns of
       a group divide the features of its heads into whole rotary pairs and single features.
    4. The candidate with the fewest features on a column, including padding, is chosen. Of equally
       good candidates, the one with the fewest heads per group is chosen.

    Args:
        cols: Number of columns.
        segment_count: Number of equal segments of columns.
        kv_head_count: Number of KV heads.
        head_size: Number of features of a head.
        rotary_size: Number of features that rotate, an even number from 0 to ``head_size``.
        whole_pairs: Whether both features of a rotary pair must be on the same column.
        may_share: Whether several heads may share a group.
        mixed_pairs: Whether features that do not rotate may be stored as rotary pairs, which rotate
            by an angle of zero.
    """
    # 1. Fewer columns than heads.
    if cols // segment_count < ceil_div(kv_head_count, segment_count):
        kv_heads = _assign_whole_heads(kv_head_count, cols // segment_count, segment_count)
        features = np.tile(np.arange(head_size, dtype=np.int32), (cols, 1))
        single_columns = tuple((c, 1) for c in range(cols))
        return HeadGroups(kv_heads=kv_heads, features=features, rotated=rotary_size, segments=single_columns)
    # 2. Evenly divided features.
    if not whole_pairs:
        segments = _groups(cols, kv_head_count, segment_count)
        return _assign_groups(kv_head_count, 1, segments, *even_features(head_size, rotary_size, segments))
    # 3. Candidates: (heads of a group, its columns).
    candidates = [
        (sharing, _groups(cols, kv_head_count // sharing, segment_count))
        for sharing in (_sharing_counts(kv_head_count) if may_share else (1,))
        if sharing == 1 or kv_head_count // sharing >= segment_count
    ]
    # 4. Fewest places on a column.
    sharing, segments = min(
        candidates,
        key=lambda candidate: (
            candidate[0]
            * features_per_column(
                head_size, rotary_size, min(count for _, count in candidate[1]), allows_mixed_pairs=mixed_pairs
            )
        ),
    )
    features, rotated = paired_features(head_size, rotary_size, segments, allows_mixed_pairs=mixed_pairs)
    return _assign_groups(kv_head_count, sharing, segments, features, rotated)


def head_places(
    cols: int, kv_head_count: int, head_size: int, rotary_size: int, *, mixed_pairs: bool = True
) -> tuple[int, int]:
    """Return how many KV heads a column stores, and how many features of each head.

    The numbers are the same as with `head_groups`, but the assignment itself is not created.

    Args:
        cols: Number of columns.
        kv_head_count: Number of KV heads.
        head_size: Number of features of a head.
        rotary_size: Number of these features that rotate.
        mixed_pairs: Whether features that do not rotate may be stored as rotary pairs.

    >>> head_places(12, 2, 8, 8), head_places(2, 8, 64, 64)
    ((1, 2), (4, 64))
    """
    if cols < kv_head_count:
        return ceil_div(kv_head_count, cols), head_size

    def places(sharing: int) -> int:
        """Return how many features of a head a column stores if ``sharing`` heads share a group."""
        return features_per_column(
            head_size, rotary_size, cols // (kv_head_count // sharing), allows_mixed_pairs=mixed_pairs
        )

    sharing = min(_sharing_counts(kv_head_count), key=lambda n: n * places(n))
    return sharing, places(sharing)


def head_groups_of_wafers(
    cols: int,
    kv_head_count: int,
    queries_per_kv: int,
    head_size: int,
    rotary_size: int,
    *,
    segment_count: int,
    whole_pairs: bool = True,
    mixed_pairs: bool = True,
) -> HeadGroups:
    """Assign attention heads to the columns of several wafers, with copies of KV heads if needed.

    The copied heads are assigned to columns as by `head_groups`. The copies of a KV head divide its
    query heads among themselves, so there are at most as many copies as query heads. Of the numbers
    of copies for which every segment of columns can store a head of its own, the one with the
    fewest weights per column is chosen. Megatron-LM also copies KV heads if there are fewer heads
    than tensor-parallel ranks.

    Args:
        cols: Number of columns.
        segment_count: Number of equal segments of columns, one per wafer.
        kv_head_count: Number of KV heads.
        queries_per_kv: Number of query heads per KV head.
        head_size: Number of features of a head.
        rotary_size: Number of these features that rotate.
        whole_pairs: Whether both features of a rotary pair must be on the same column.
        mixed_pairs: Whether features that do not rotate may be stored as rotary pairs.
    """
    divisors = [n for n in range(1, queries_per_kv + 1) if queries_per_kv % n == 0]
    copy_counts = [n for n in divisors if kv_head_count * n >= segment_count] or divisors[-1:]
    pairs = {"whole_pairs": whole_pairs, "mixed_pairs": mixed_pairs}
    groups = [
        replace(
            head_groups(cols, kv_head_count * n, head_size, rotary_size, segment_count=segment_count, **pairs), copies=n
        )
        for n in copy_counts
    ]
    return min(groups, key=lambda g: g.kv_heads_per_col * g.features_per_head * (queries_per_kv // g.copies + 2))


def _sharing_counts(kv_head_count: int) -> list[int]:
    """Return the possible numbers of KV heads per group of columns: the divisors of their count."""
    return [n for n in range(1, kv_head_count + 1) if kv_head_count % n == 0]


def _assign_groups(
    kv_head_count: int, sharing: int, segments: list[tuple[int, int]], features: I32, rotated: int
) -> HeadGroups:
    """Return an assignment in which each group of columns stores ``sharing`` KV heads.

    Args:
        kv_head_count: Number of KV heads.
        sharing: Number of heads per group.
        segments: (first column, number of columns) of each group.
        features: int32 ``[cols, F]``: features of a head that each column stores.
        rotated: Number of rotary dimensions among the features of a column.
    """
    heads = np.arange(kv_head_count, dtype=np.int32).reshape(-1, sharing)
    kv_heads = np.repeat(heads, [count for _, count in segments], axis=0)
    return HeadGroups(kv_heads=kv_heads, features=features, rotated=rotated, segments=tuple(segments))


def _groups(cols: int, groups: int, segment_count: int) -> list[tuple[int, int]]:
    """Divide columns into groups of neighbours that do not cross the borders of equal segments.

    If there are fewer groups than segments, a group consists of whole segments.

    Args:
        cols: Number of columns.
        groups: Number of groups.
        segment_count: Number of equal segments of columns.

    Returns:
        (first column, number of columns) of each group.
    """
    segment_cols = cols // segment_count
    if groups < segment_count:
        return [
            (first * segment_cols, count * segment_cols) for first, count in balanced_segments(segment_count, groups)
        ]
    return [
        (segment * segment_cols + first, count)
        for segment, (_, segment_groups) in enumerate(balanced_segments(groups, segment_count))
        for first, count in balanced_segments(segment_cols, segment_groups)
    ]


def _assign_whole_heads(heads: int, segment_cols: int, segment_count: int) -> I32:
    """Assign whole heads to columns if there are more heads than columns.

    Args:
        heads: Number of heads.
        segment_cols: Columns of a segment.
        segment_count: Number of segments.

    Returns:
        int32 ``[cols, heads of a column]``, with -1 for padding.
    """
    result = np.full(
        (segment_count, segment_cols, ceil_div(ceil_div(heads, segment_count), segment_cols)), -1, np.int32
    )
    for segment, (first, segment_heads) in enumerate(balanced_segments(heads, segment_count)):
        blocks = padded_blocks(segment_heads, segment_cols)
        result[segment, :, : blocks.shape[1]] = np.where(blocks < 0, np.int32(-1), blocks + np.int32(first))
    return result.reshape(segment_count * segment_cols, -1)

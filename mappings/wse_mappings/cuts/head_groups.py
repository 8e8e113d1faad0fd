"""Groups of columns that share heads, with the features of each, so that rotation is local and scores reduce inside.

With at least as many columns as kv heads, each kv head, or several together where that leaves fewer places empty, owns
a contiguous group of columns (sizes differ by at most one), and a column of the group holds the same features, whole
rotary pairs and a share of those that do not rotate, of each head's keys, values and all its queries. With fewer
columns, each holds whole kv heads. Cut evenly instead, as the kernels of WaferLLM (OSDI 2025) that were measured do,
features may part from their rotary partners: right for times, wrong for values.

Columns that stand in stretches between which words are dear, such as those of several wafers, are shared out by whole
stretches: each has whole kv heads, or, where there are fewer heads than stretches, a head has whole stretches. They are
many, often more than pairs of features; then a kv head may be held in several copies, each with a part of its queries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wse_mappings.cuts.split import I32, balanced_segments, ceil_div, middle_stretch, on_the_middle, padded_blocks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadGroups:
    """The assignment of head features to columns.

    Attributes:
        kv_heads: int32 ``[cols, heads per column]``: kv heads of each column, -1 for padding; the copies of one head,
            where there are several, follow each other and are numbered through.
        features: int32 ``[cols, F]``: local features within a head, ``rotated / 2`` first members of rotary pairs,
            their partners, and those that do not rotate; in order where they are cut evenly. -1 for padding. Among the
            pairs may be some of features that do not rotate: they rotate by nothing.
        rotated: local features that rotate, padding included.
        segments: (first column, columns) of each group; the columns of a group sum their scores.
        copies: groups that hold the keys and values of one kv head, each for a part of its queries.
    """

    kv_heads: I32
    features: I32
    rotated: int
    segments: tuple[tuple[int, int], ...]
    copies: int = 1

    @property
    def kv_heads_per_col(self) -> int:
        """Key heads that a column stores, padding included."""
        return int(self.kv_heads.shape[1])

    @property
    def features_per_head(self) -> int:
        """Features of a head that a column stores, padding included."""
        return int(self.features.shape[1])

    def query_heads(self, queries_per_kv: int) -> I32:
        """Return the query heads that a column stores, int32 ``[cols, heads]``; -1 for padding."""
        queries_per_copy = queries_per_kv // self.copies
        heads = self.kv_heads[:, :, None] * queries_per_copy + np.arange(queries_per_copy, dtype=np.int32)
        return np.where(self.kv_heads[:, :, None] < 0, np.int32(-1), heads).reshape(len(heads), -1)

    def rows(self, head_size: int, queries_per_kv: int) -> I32:
        """Return the rows of the projection matrix for a column's features, int32 ``[cols, heads * F]``.

        ``queries_per_kv`` 1 gives keys and values; more gives the queries, head after head.
        """
        matrix_heads = self.kv_heads // self.copies if queries_per_kv == 1 else self.query_heads(queries_per_kv)
        heads, features = matrix_heads[:, :, None], self.features[:, None, :]
        index = heads * head_size + features
        return np.where((heads < 0) | (features < 0), np.int32(-1), index).reshape(len(index), -1)

    def on_the_middle(self, cols: int) -> HeadGroups:
        """Return the assignment placed on the middle columns of a wider region."""
        first, _ = middle_stretch(len(self.features), cols)
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
    stretches: int = 1,
) -> HeadGroups:
    """Assign ``kv_head_count`` heads of ``head_size`` features to ``cols`` columns in equal segments.

    The first ``rotary_size`` features (even, 0 to head_size) rotate: feature p with feature p + rotary_size / 2. The
    others may take places of pairs, which rotate by nothing there, unless not ``mixed_pairs``.

    1. Where a stretch has fewer columns than heads, each column stores whole heads and is a group alone.
    2. Without ``whole_pairs`` a group of columns holds one head, whose features are cut evenly.
    3. Else every number of heads that may share a group is a candidate (one alone without ``may_share``): columns are
       cut into as many groups as there are such sets of heads, and features into whole rotary pairs and the rest.
    4. The candidate with the fewest places for features on a column is taken; of equal ones the fewest heads a group.
    """
    # 1. Fewer columns than heads.
    if cols // stretches < ceil_div(kv_head_count, stretches):
        kv_heads = _whole_heads(kv_head_count, cols // stretches, stretches)
        features = np.tile(np.arange(head_size, dtype=np.int32), (cols, 1))
        alone = tuple((c, 1) for c in range(cols))
        return HeadGroups(kv_heads=kv_heads, features=features, rotated=rotary_size, segments=alone)
    # 2. Features cut evenly.
    if not whole_pairs:
        segments = _groups(cols, kv_head_count, stretches)
        return _assign_groups(kv_head_count, 1, segments, *_even_features(head_size, rotary_size, segments))
    # 3. Candidates: (heads of a group, its columns).
    candidates = [
        (sharing, _groups(cols, kv_head_count // sharing, stretches))
        for sharing in (_sharings(kv_head_count) if may_share else (1,))
        if sharing == 1 or kv_head_count // sharing >= stretches
    ]
    # 4. Fewest places on a column.
    sharing, segments = min(
        candidates,
        key=lambda one: one[0] * _places(head_size, rotary_size, min(count for _, count in one[1]), mixed=mixed_pairs),
    )
    features, rotated = _paired_features(head_size, rotary_size, segments, mixed=mixed_pairs)
    return _assign_groups(kv_head_count, sharing, segments, features, rotated)


def head_places(
    cols: int, kv_head_count: int, head_size: int, rotary_size: int, *, mixed_pairs: bool = True
) -> tuple[int, int]:
    """Return the key heads of a column and the features of each there, without creating the assignment.

    >>> head_places(12, 2, 8, 8), head_places(2, 8, 64, 64)
    ((1, 2), (4, 64))
    """
    if cols < kv_head_count:
        return ceil_div(kv_head_count, cols), head_size

    def places(sharing: int) -> int:
        return _places(head_size, rotary_size, cols // (kv_head_count // sharing), mixed=mixed_pairs)

    sharing = min(_sharings(kv_head_count), key=lambda n: n * places(n))
    return sharing, places(sharing)


def head_groups_of_wafers(
    cols: int,
    kv_head_count: int,
    queries_per_kv: int,
    head_size: int,
    rotary_size: int,
    *,
    stretches: int,
    whole_pairs: bool = True,
    mixed_pairs: bool = True,
) -> HeadGroups:
    """Return `head_groups` with the number of copies of key heads that leaves the fewest weights per column.

    There are no fewer copies than give every stretch a head of its own, where a head has as many queries. Megatron-LM
    repeats kv heads in the same way where there are fewer than tensor-parallel ranks.
    """
    divisors = [n for n in range(1, queries_per_kv + 1) if queries_per_kv % n == 0]
    enough = [n for n in divisors if kv_head_count * n >= stretches] or divisors[-1:]
    pairs = {"whole_pairs": whole_pairs, "mixed_pairs": mixed_pairs}
    groups = [
        replace(head_groups(cols, kv_head_count * n, head_size, rotary_size, stretches=stretches, **pairs), copies=n)
        for n in enough
    ]
    return min(groups, key=lambda g: g.kv_heads_per_col * g.features_per_head * (queries_per_kv // g.copies + 2))


def _sharings(kv_head_count: int) -> list[int]:
    """Return the numbers of key heads that may share a group of columns, in ascending order."""
    return [n for n in range(1, kv_head_count + 1) if kv_head_count % n == 0]


def _places(head_size: int, rotary_size: int, cols: int, *, mixed: bool) -> int:
    """Return the features of a head on the fullest column of a group: whole rotary pairs, and those without a pair."""
    pairs_of_all = 2 * ceil_div(head_size // 2, cols)
    return (
        pairs_of_all
        if _mixes(head_size, rotary_size, cols, mixed=mixed)
        else _places_apart(head_size, rotary_size, cols)
    )


def _places_apart(head_size: int, rotary_size: int, cols: int) -> int:
    """Return the places that a PE needs if places of pairs are for rotating features only."""
    return 2 * ceil_div(rotary_size // 2, cols) + ceil_div(head_size - rotary_size, cols)


def _mixes(head_size: int, rotary_size: int, cols: int, *, mixed: bool) -> bool:
    """Return whether features that do not rotate use places of pairs, where that is allowed and saves places."""
    fewer = 2 * ceil_div(head_size // 2, cols) < _places_apart(head_size, rotary_size, cols)
    return mixed and rotary_size > 0 and head_size % 2 == 0 and fewer


def _assign_groups(
    kv_head_count: int, sharing: int, segments: list[tuple[int, int]], features: I32, rotated: int
) -> HeadGroups:
    """Return the assignment with ``sharing`` heads in each group of columns."""
    heads = np.arange(kv_head_count, dtype=np.int32).reshape(-1, sharing)
    kv_heads = np.repeat(heads, [count for _, count in segments], axis=0)
    return HeadGroups(kv_heads=kv_heads, features=features, rotated=rotated, segments=tuple(segments))


def _groups(cols: int, groups: int, stretches: int) -> list[tuple[int, int]]:
    """(first column, columns) of each group."""
    cols_of_stretch = cols // stretches
    if groups < stretches:
        return [
            (first * cols_of_stretch, count * cols_of_stretch) for first, count in balanced_segments(stretches, groups)
        ]
    return [
        (stretch * cols_of_stretch + first, count)
        for stretch, (_, of_stretch) in enumerate(balanced_segments(groups, stretches))
        for first, count in balanced_segments(cols_of_stretch, of_stretch)
    ]


def _whole_heads(heads: int, cols_of_stretch: int, stretches: int) -> I32:
    """Return whole heads on fewer columns than heads, ``[cols, heads of a column]``; -1 for padding."""
    result = np.full((stretches, cols_of_stretch, ceil_div(ceil_div(heads, stretches), cols_of_stretch)), -1, np.int32)
    for stretch, (first, of_stretch) in enumerate(balanced_segments(heads, stretches)):
        blocks = padded_blocks(of_stretch, cols_of_stretch)
        result[stretch, :, : blocks.shape[1]] = np.where(blocks < 0, np.int32(-1), blocks + np.int32(first))
    return result.reshape(stretches * cols_of_stretch, -1)


def _even_features(head_size: int, rotary_size: int, segments: list[tuple[int, int]]) -> tuple[I32, int]:
    """Return the features of every column in blocks of one size, and how many of them rotate."""
    width = max(ceil_div(head_size, count) for _, count in segments)
    place = np.concatenate([np.arange(count, dtype=np.int32) for _, count in segments])
    index = place[:, None] * width + np.arange(width, dtype=np.int32)
    return np.where(index < head_size, index, np.int32(-1)), 2 * (width * rotary_size // head_size // 2)


def _paired_features(
    head_size: int, rotary_size: int, segments: list[tuple[int, int]], *, mixed: bool
) -> tuple[I32, int]:
    """Return the features of every column as whole rotary pairs and features without a pair.

    Where all are in pairs, feature p + rotary_size / 2 is the partner of p of those that rotate, and after these p + 1.
    """
    half = rotary_size // 2
    if _mixes(head_size, rotary_size, min(count for _, count in segments), mixed=mixed):
        shares = _balanced_shares(head_size // 2, segments)
        first = np.where(shares < half, shares, 2 * shares)
        second = np.where(shares < half, first + half, first + 1)
        both = np.concatenate([first, np.where(shares < 0, shares, second)], axis=1, dtype=np.int32)
        return both, both.shape[1]
    pairs, plain_features = _balanced_shares(half, segments), _balanced_shares(head_size - rotary_size, segments)
    partners, plain_places = (
        np.where(index < 0, index, index + first) for index, first in ((pairs, half), (plain_features, 2 * half))
    )
    return np.concatenate([pairs, partners, plain_places], axis=1, dtype=np.int32), 2 * pairs.shape[1]


def _balanced_shares(extent: int, segments: list[tuple[int, int]]) -> I32:
    """Return each segment's part of ``extent`` indices, ``[cols, width]``, nearly equal; -1 for padding."""
    widths = np.array([count for _, count in segments])
    count = np.repeat(widths, widths)
    place = np.concatenate([np.arange(columns) for columns in widths])
    least, over = np.divmod(extent, count)
    first, share_sizes = place * least + np.minimum(place, over), least + (place < over)
    nth = np.arange(ceil_div(extent, int(widths.min())))
    return np.where(nth < share_sizes[:, None], first[:, None] + nth, -1).astype(np.int32)

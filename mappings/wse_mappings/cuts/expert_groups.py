"""Groups of columns that share the experts of a mixture-of-experts layer.

Columns are divided into groups of neighbours, and experts are partitioned across the groups. Within
a group, the features of each expert are partitioned across the columns.

- A single group distributes every expert across all columns of the region.
- With as many groups as experts or columns, an expert is stored on the fewest PEs, and all other
  PEs are idle when it is selected.
- A small number of groups is a compromise: a column has more features of fewer experts, so there is
  less padding, and quantised codes need fewer scales.

If columns form segments (for example one per wafer), experts are first partitioned across the
segments, and a group never crosses a segment border.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wse_mappings.cuts.split import I32, balanced_segments, blocks
from wse_mappings.rounding import ceil_div

DISTRIBUTED, DEDICATED, GROUPED, AUTO = "distributed", "dedicated", "grouped", "auto"
EXPERT_PLACEMENTS = (DISTRIBUTED, DEDICATED)
"""Placements of experts that determine the number of groups: one group, or the maximum number.

A number of groups, in decimal digits, is also a placement. A request may also use GROUPED, which
lets the compiler choose a number of groups with little padding, and AUTO, which means DISTRIBUTED
unless a search finds that GROUPED is faster or that the model does not fit.
"""


def is_placement(text: str) -> bool:
    """Return whether a string specifies an expert placement: a known name or a positive integer.

    The integer is the number of column groups over which experts are divided.

    >>> is_placement("4"), is_placement("0"), is_placement("all")
    (True, False, False)
    """
    return text in (AUTO, GROUPED, *EXPERT_PLACEMENTS) or (text.isascii() and text.isdigit() and int(text) > 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpertGroups:
    """Assignment of experts and their features to columns of PEs.

    Columns are divided into groups of neighbours, and each expert is stored on one group. The
    columns of the group divide the features of the expert.

    Attributes:
        size: Number of features of an expert.
        experts: int32 ``[cols, n]``: experts on each column in order, -1 for padding.
        features: int32 ``[cols, F]``: the features of each of these experts on the column, -1 for
            padding.
        segments: (first column, number of columns) of each group of columns.
        segment_count: Number of equal segments into which the columns are divided first, for
            example one per wafer. Each segment contains the same number of groups.
    """

    size: int
    experts: I32
    features: I32
    segments: tuple[tuple[int, int], ...]
    segment_count: int = 1

    @property
    def experts_per_col(self) -> int:
        """Number of experts that a column stores entirely or in part.

        Columns with fewer experts are padded to this number.
        """
        return int(self.experts.shape[1])

    @property
    def features_per_expert(self) -> int:
        """Number of features that a column stores of each of its experts.

        Columns with fewer features are padded to this number.
        """
        return int(self.features.shape[1])

    @property
    def rows(self) -> I32:
        """Rows of the experts' weight matrices that each column stores, expert by expert.

        int32 ``[cols, n * F]``, with -1 for padding.
        """
        return _rows(self)

    def one_group(self) -> ExpertGroups:
        """Return the assignment for the narrowest group of columns only.

        The columns of this group store the most features of each expert, because fewer columns
        divide them. If several groups are equally narrow, the first is returned.
        """
        first, columns = min(self.segments, key=lambda segment: segment[1])
        group_columns = slice(first, first + columns)
        return ExpertGroups(
            size=self.size,
            experts=self.experts[group_columns],
            features=self.features[group_columns],
            segments=((0, columns),),
        )

    def shared_experts(self) -> I32:
        """Return the experts whose biases each column stores.

        The experts of a group of columns are divided into equal blocks, one for each column, so
        that every bias is stored only once in a group. The narrowest group determines the size of a
        block.

        Returns:
            int32 ``[cols, n]``: experts in each column's block, with -1 for padding.
        """
        block_size = ceil_div(self.experts_per_col, min(columns for _, columns in self.segments))
        place = np.concatenate([np.arange(columns) for _, columns in self.segments])
        index = place[:, None] * block_size + np.arange(block_size)
        is_padding = index >= self.experts_per_col
        column_experts = np.take_along_axis(self.experts, np.where(is_padding, 0, index), axis=1)
        return np.where(is_padding, np.int32(-1), column_experts)


def _rows(groups: ExpertGroups) -> I32:
    """Return the rows of the experts' weight matrices that each column stores; -1 stands for padding."""
    features = np.where(groups.features < 0, np.iinfo(np.int32).min // 2, groups.features).astype(np.int32)
    rows = groups.experts[:, :, None] * np.int32(groups.size) + features[:, None, :]
    if groups.experts.min(initial=0) < 0 or groups.features.min(initial=0) < 0:
        np.maximum(rows, np.int32(-1), out=rows)  # negative if the expert or the feature is padding
    rows.flags.writeable = False
    return rows.reshape(len(rows), -1)


def columns_of_expert(cols: int, count: int, placement: str, segment_count: int = 1) -> int:
    """Return the number of columns that divide the features of an expert.

    Groups of columns may have different sizes; the result is the size of the narrowest group.

    Args:
        cols: Number of columns.
        count: Number of experts.
        placement: Expert placement: a name in EXPERT_PLACEMENTS, or a number of groups of columns.
        segment_count: Number of equal segments of columns.
    """
    segment_cols = cols // segment_count
    return segment_cols // _groups_of_segment(segment_cols, count, placement, segment_count)


def experts_of_column(cols: int, count: int, placement: str) -> int:
    """Return the number of experts that a column stores entirely or in part.

    It is the same for all columns; columns with fewer experts are padded to this number.

    Args:
        cols: Number of columns.
        count: Number of experts.
        placement: Expert placement: a name in EXPERT_PLACEMENTS, or a number of groups of columns.
    """
    return ceil_div(count, _groups_of_segment(cols, count, placement, 1))


def _groups_of_segment(segment_cols: int, count: int, placement: str, segment_count: int) -> int:
    """Return the number of column groups in one segment for a given expert placement.

    Each group stores some of the experts, whose features are partitioned across its columns.

    Args:
        segment_cols: Number of columns in a segment.
        count: Number of experts.
        placement: Expert placement: a name in EXPERT_PLACEMENTS, or a number of groups of columns.
        segment_count: Number of segments.
    """
    if placement in (DISTRIBUTED, AUTO):
        return 1
    groups = count if placement == DEDICATED else min(int(placement), count)
    return min(ceil_div(groups, segment_count), segment_cols)


def expert_groups(
    cols: int, count: int, size: int, placement: str, segment_count: int = 1, feature_group: int = 0
) -> ExpertGroups:
    """Assign experts and their features to columns of PEs.

    Columns are divided into groups of neighbours, and each group stores some of the experts. The
    columns of a group divide the features of each of its experts. If the experts cannot be divided
    evenly, some segments have one expert fewer, and a group may be empty.

    Args:
        cols: Number of columns.
        segment_count: Number of equal segments of columns.
        count: Number of experts.
        size: Features of an expert.
        placement: Expert placement: a name in EXPERT_PLACEMENTS, or a number of groups of columns.
        feature_group: Number of features to keep together; 0 to divide features evenly.
    """
    segment_cols = cols // segment_count
    groups = _groups_of_segment(segment_cols, count, placement, segment_count)
    segment_experts, widths = [], [columns for _, columns in balanced_segments(segment_cols, groups)]
    for start, expert_count in balanced_segments(count, segment_count):
        group_experts = np.full((groups, ceil_div(ceil_div(count, segment_count), groups)), -1, np.int32)
        for group, (first, size_of_group) in enumerate(balanced_segments(expert_count, groups)):
            group_experts[group, :size_of_group] = np.arange(start + first, start + first + size_of_group)
        segment_experts.append(np.repeat(group_experts, widths, axis=0))
    place = np.concatenate([np.arange(columns, dtype=np.int32) for columns in widths])
    place_features = blocks(size, min(widths), feature_group)
    place_features = np.pad(place_features, ((0, max(widths) - min(widths)), (0, 0)), constant_values=-1)
    features = place_features[np.tile(place, segment_count)]
    experts = np.concatenate(segment_experts)
    return ExpertGroups(
        size=size,
        experts=experts,
        features=features,
        segments=tuple(
            (segment * segment_cols + first, columns)
            for segment in range(segment_count)
            for first, columns in balanced_segments(segment_cols, groups)
        ),
        segment_count=segment_count,
    )

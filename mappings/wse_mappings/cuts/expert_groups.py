"""Groups of columns that share experts: each expert spread over all columns, over some, or on columns of its own.

Columns are cut into groups of neighbours, and the experts over the groups; a group's columns share the features of each
of its experts. One group spreads every expert over the region; as many groups as there are experts, or columns, give
each expert the fewest PEs that hold it and leave the other PEs idle when it is chosen. A few groups are between the
two: a column stores more features of fewer experts, so that less is padding, and fewer scales are stored with the codes
of quantised ones. Where columns stand in stretches, as those of several wafers do, experts are cut over the stretches
first, and a group is in one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wse_mappings.cuts.split import I32, balanced_segments, blocks, ceil_div

SPREAD, OWN, FEW, AUTO = "spread", "own", "few", "auto"
EXPERT_PLACEMENTS = (SPREAD, OWN)
"""The placements that say how many groups there are, one or the most; a number of groups in decimal digits is one too.

A request may also ask for FEW, which is as many as leave little padding, for the compiler to count, and for AUTO, which
is SPREAD unless a search finds no room so.
"""


def is_placement(text: str) -> bool:
    """Return whether a text is a placement of experts: a name, or a number of groups from 1 on.

    >>> is_placement("4"), is_placement("0"), is_placement("all")
    (True, False, False)
    """
    return text in (AUTO, FEW, *EXPERT_PLACEMENTS) or (text.isascii() and text.isdigit() and int(text) > 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpertGroups:
    """The assignment of experts to columns.

    Attributes:
        size: Features of an expert.
        experts: int32 ``[cols, n]``: the experts of each column in order, -1 for padding.
        features: int32 ``[cols, F]``: features of each of them that it holds, -1 for padding.
        segments: (first column, columns) of each group, equally many in each stretch.
        stretches: of equally many columns; a group is in one of them.
    """

    size: int
    experts: I32
    features: I32
    segments: tuple[tuple[int, int], ...]
    stretches: int = 1

    @property
    def experts_per_col(self) -> int:
        """Experts of which a column stores a part, padding included."""
        return int(self.experts.shape[1])

    @property
    def features_per_expert(self) -> int:
        """Features of an expert that a column stores, padding included."""
        return int(self.features.shape[1])

    @property
    def rows(self) -> I32:
        """A column's features, expert after expert, int32 ``[cols, n * F]``; -1 for padding."""
        return _rows(self)

    def one_group(self) -> ExpertGroups:
        """Return only the first of the groups with the fewest columns, whose columns store the most."""
        first, columns = min(self.segments, key=lambda segment: segment[1])
        of_group = slice(first, first + columns)
        return ExpertGroups(
            size=self.size,
            experts=self.experts[of_group],
            features=self.features[of_group],
            segments=((0, columns),),
        )

    def shared_experts(self) -> I32:
        """The experts of each group, distributed over its columns in equal blocks, int32 ``[cols, n]``; -1 for padding.

        As many a block as the narrowest group needs.
        """
        share = ceil_div(self.experts_per_col, min(columns for _, columns in self.segments))
        place = np.concatenate([np.arange(columns) for _, columns in self.segments])
        index = place[:, None] * share + np.arange(share)
        beyond = index >= self.experts_per_col
        own = np.take_along_axis(self.experts, np.where(beyond, 0, index), axis=1)
        return np.where(beyond, np.int32(-1), own)


def _rows(groups: ExpertGroups) -> I32:
    features = np.where(groups.features < 0, np.iinfo(np.int32).min // 2, groups.features).astype(np.int32)
    rows = groups.experts[:, :, None] * np.int32(groups.size) + features[:, None, :]
    if groups.experts.min(initial=0) < 0 or groups.features.min(initial=0) < 0:
        np.maximum(rows, np.int32(-1), out=rows)  # below 0 where one of the two is padding
    rows.flags.writeable = False
    return rows.reshape(len(rows), -1)


def columns_of_expert(cols: int, count: int, placement: str, stretches: int = 1) -> int:
    """Return the columns over which an expert is divided in the group with the fewest columns."""
    cols_of_stretch = cols // stretches
    return cols_of_stretch // _groups_of_stretch(cols_of_stretch, count, placement, stretches)


def expert_places(cols: int, count: int, size: int, placement: str) -> int:
    """Return the features of all experts that a column stores, padding included.

    >>> expert_places(5, 4, 12, SPREAD), expert_places(5, 4, 12, "2"), expert_places(5, 4, 12, OWN)
    (12, 12, 12)
    """
    return experts_of_column(cols, count, placement) * ceil_div(size, columns_of_expert(cols, count, placement))


def experts_of_column(cols: int, count: int, placement: str) -> int:
    """Return the experts of which a column stores a part, padding included."""
    return ceil_div(count, _groups_of_stretch(cols, count, placement, 1))


def _groups_of_stretch(cols_of_stretch: int, count: int, placement: str, stretches: int) -> int:
    if placement in (SPREAD, AUTO):
        return 1
    groups = count if placement == OWN else min(int(placement), count)
    return min(ceil_div(groups, stretches), cols_of_stretch)


def expert_groups(
    cols: int, count: int, size: int, placement: str, stretches: int = 1, feature_group: int = 0
) -> ExpertGroups:
    """Assign ``count`` experts of ``size`` features to ``cols`` columns in equal ``stretches``.

    ``placement`` as in ``EXPERT_PLACEMENTS``. Where experts do not divide, some stretches have one less, and a group
    may be empty.
    Features are cut evenly, or in groups of ``feature_group``.
    """
    cols_of_stretch = cols // stretches
    groups = _groups_of_stretch(cols_of_stretch, count, placement, stretches)
    of_stretches, widths = [], [columns for _, columns in balanced_segments(cols_of_stretch, groups)]
    for start, experts_of_stretch in balanced_segments(count, stretches):
        of_group = np.full((groups, ceil_div(ceil_div(count, stretches), groups)), -1, np.int32)
        for group, (first, size_of_group) in enumerate(balanced_segments(experts_of_stretch, groups)):
            of_group[group, :size_of_group] = np.arange(start + first, start + first + size_of_group)
        of_stretches.append(np.repeat(of_group, widths, axis=0))
    place = np.concatenate([np.arange(columns, dtype=np.int32) for columns in widths])
    of_place = blocks(size, min(widths), feature_group)
    of_place = np.pad(of_place, ((0, max(widths) - min(widths)), (0, 0)), constant_values=-1)
    features = of_place[np.tile(place, stretches)]
    experts = np.concatenate(of_stretches)
    return ExpertGroups(
        size=size,
        experts=experts,
        features=features,
        segments=tuple(
            (stretch * cols_of_stretch + first, columns)
            for stretch in range(stretches)
            for first, columns in balanced_segments(cols_of_stretch, groups)
        ),
        stretches=stretches,
    )

"""Contraction: decide how the dimensions that products contract over are partitioned across PEs.

Quantised weights have one scale per group of neighbouring inputs. A PE stores the scales of every
group that its block of inputs touches, and the PE that touches the most groups determines the size
for all PEs. There are two ways to divide a dimension:

- Evenly: blocks begin and end inside groups, so a block touches more groups.
- By groups: each PE has whole groups, or each group has whole PEs. A block touches fewer groups but
  may be longer.

The division that needs fewer bytes is used. This module also chooses the number of column groups
over which experts are distributed (placement ``grouped``). With more groups, a column stores fewer
experts, but more features of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from wse.compiler.options import Options
from wse.compiler.passes.tiling.dimensions import EXPERTS, HIDDEN, Cut, Dimension, dimension_of
from wse.models.spec import ModelSpec
from wse.number_formats import CODINGS, ELEMENT_BYTES
from wse_mappings.cuts.expert_groups import GROUPED, columns_of_expert
from wse_mappings.result_cache import ResultCache
from wse_mappings.rounding import ceil_div

MAX_EXPERT_GROUPS, MAX_EXTRA_FRACTION = 32, 0.02
"""Maximum number of column groups to try, and the excess over the minimum bytes to accept.

Fewer groups are preferred. With many groups, it is more likely that one group has several of the
experts selected by a token while other groups wait.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightTypes:
    """Storage types of a model's weights, and the best divisions of its dimensions over PEs.

    The best division of a dimension over rows or columns of PEs needs the fewest bytes, which
    depend on the storage types.

    Attributes:
        dtype: Element type or quantisation format of the weights.
        float_bytes: Size of an unquantised element in bytes.
        cache: The request's cache.
    """

    dtype: str
    float_bytes: int
    cache: ResultCache = field(default_factory=ResultCache, compare=False, repr=False)

    @classmethod
    def from_options(cls, options: Options) -> WeightTypes:
        """Return the weight and activation types specified in a compile request."""
        return cls(dtype=options.dtype, float_bytes=ELEMENT_BYTES[options.activation_type], cache=options.cache)

    def dimension(self, spec: ModelSpec, kind: str) -> Dimension:
        """Return a dimension of a model, with the matrices and formats that determine its division.

        Args:
            spec: Model.
            kind: The dimension: ``HIDDEN``, ``FFN``, ``SHARED`` or ``EXPERTS``.
        """
        return dimension_of(spec, kind, self.dtype, self.float_bytes)

    def group_of_cut(self, spec: ModelSpec, kind: str, parts: int) -> int:
        """Return the quantisation group size to which a divided dimension is best aligned.

        A quantisation group is a set of inputs that share a scale. In an aligned division, each
        block consists of whole groups or is part of a single group, and therefore needs fewer
        scales.

        Args:
            spec: Model.
            kind: The dimension: ``HIDDEN``, ``FFN``, ``SHARED`` or ``EXPERTS``.
            parts: Number of rows or columns over which the dimension is divided.

        Returns:
            The group size; 0 if equal blocks, regardless of groups, need fewer bytes.
        """
        return self._best_cuts(spec, kind)(parts)[0] if self.dtype in CODINGS else 0

    def cut(self, spec: ModelSpec, kind: str, parts: int) -> Cut:
        """Return the best division of a dimension into blocks, one per row or column of PEs.

        The result contains the size of the largest block, and the maximum number of quantisation
        groups (sets of inputs that share a scale) that overlap a block.

        Args:
            spec: Model.
            kind: The dimension: ``HIDDEN``, ``FFN``, ``SHARED`` or ``EXPERTS``.
            parts: Number of rows or columns over which the dimension is divided.
        """
        return self._best_cuts(spec, kind)(parts)[1]

    def row_share(self, spec: ModelSpec, rows: int) -> float:
        """Return the fraction of a column's bytes that the fullest row of PEs stores.

        The fraction may exceed 1 / rows for two reasons:

        - It includes padding: all rows have as many elements as the fullest row.
        - It includes the scales of matrices whose inputs are the hidden features, although the
          bytes of the column do not include them. A row stores the scale of each quantisation group
          of which it stores any element.

        Args:
            spec: Model.
            rows: Number of rows of the region.
        """
        if self.dtype not in CODINGS:
            return ceil_div(spec.hidden_size, rows) / spec.hidden_size
        dimension = self.dimension(spec, HIDDEN)
        return dimension.line_bytes(self.cut(spec, HIDDEN, rows)) / dimension.place_bytes / spec.hidden_size

    def expert_bytes(self, spec: ModelSpec, cols: int) -> float:
        """Return how many bytes of one expert's weights the fullest column of PEs stores.

        Args:
            spec: Model with experts.
            cols: Number of columns over which the features of an expert are divided.
        """
        return self.dimension(spec, EXPERTS).line_bytes(self.cut(spec, EXPERTS, cols))

    def expert_placement(self, spec: ModelSpec, placement: str, cols: int, segment_count: int = 1) -> str:
        """Return the requested placement of experts; ``grouped`` becomes a number of groups.

        With placement ``grouped``, columns are divided into groups, each of which stores some of
        the experts.

        Args:
            spec: Model.
            placement: The requested placement, a name or a number of groups.
            cols: Number of columns of the region.
            segment_count: Number of equal segments of columns that store different experts.
        """
        if placement != GROUPED or spec.experts is None:
            return placement
        return str(self.cache.of(_few_groups, 4096)(spec, self, cols, segment_count))

    def _best_cuts(self, spec: ModelSpec, kind: str) -> Callable[[int], tuple[int, Cut]]:
        """Return the function that chooses the best division of a dimension over rows or columns.

        Its argument is the number of rows or columns. Its result is a pair: the number of weights
        per quantisation group if blocks are aligned to such groups, or 0 if all blocks are equal,
        and the resulting `Cut`. Results are cached.
        """
        return self.cache.of(_best_cuts, 64)(spec, self, kind)


def even_cut(extent: int, parts: int, group: int) -> Cut:
    """Divide a dimension into equal blocks, and count the quantisation groups per block.

    A quantisation group is a set of inputs that share a scale, so a block stores a scale for each
    group that it overlaps. The blocks are those of `padded_blocks`.

    Args:
        extent: Number of elements of the dimension.
        parts: Number of blocks.
        group: Size of the quantisation groups; 0 if there are none.

    Returns:
        Size of a block, and the maximum number of groups that any block overlaps.

    >>> even_cut(192, 18, 32)
    Cut(width=11, touched=2)
    """
    width = ceil_div(extent, parts)
    if not group or not width:
        return Cut(width, 1)
    first = np.arange(0, extent, width)
    last = np.minimum(first + width, extent) - 1
    return Cut(width, int((last // group - first // group).max()) + 1)


def grouped_cut(extent: int, parts: int, group: int) -> Cut:
    """Divide a dimension into blocks that are aligned to quantisation groups.

    A quantisation group is a set of inputs that share a scale. Each block consists of whole groups
    or is part of a single group. The blocks are those of `grouped_blocks`.

    Args:
        extent: Number of elements of the dimension.
        parts: Number of blocks.
        group: Size of the quantisation groups.

    Returns:
        Size of the largest block, and the maximum number of groups that any block overlaps.

    >>> grouped_cut(192, 18, 32), grouped_cut(192, 4, 32)
    (Cut(width=11, touched=1), Cut(width=64, touched=2))
    """
    groups = ceil_div(extent, group)
    if parts < groups:
        return Cut(ceil_div(groups, parts) * group, ceil_div(groups, parts))
    return Cut(ceil_div(group, parts // groups), 1)


def _best_cuts(spec: ModelSpec, weight_types: WeightTypes, kind: str) -> Callable[[int], tuple[int, Cut]]:
    """Return a function that chooses the division of a dimension that needs the fewest bytes.

    Args:
        spec: Model.
        weight_types: Storage types of the weights.
        kind: The dimension: ``HIDDEN``, ``FFN``, ``SHARED`` or ``EXPERTS``.

    Returns:
        A function of the number of rows or columns. It returns the quantisation group size to which
        blocks are aligned (0 for equal blocks), and the resulting `Cut`.
    """
    dimension = weight_types.dimension(spec, kind)

    @cache
    def best_cut(parts: int) -> tuple[int, Cut]:
        """Return the division into ``parts`` blocks that needs the fewest bytes.

        The result consists of the quantisation group size to which blocks are aligned (0 for equal
        blocks) and the resulting `Cut`.
        """
        even_division = even_cut(dimension.extent, parts, dimension.group)
        if not dimension.group or not dimension.extent:
            return 0, even_division
        grouped_division = grouped_cut(dimension.extent, parts, dimension.group)
        if dimension.line_bytes(grouped_division) < dimension.line_bytes(even_division):
            return dimension.group, grouped_division
        return 0, even_division

    return best_cut


def _few_groups(spec: ModelSpec, weight_types: WeightTypes, cols: int, segment_count: int) -> int:
    """Return the number of column groups among which placement ``grouped`` distributes experts.

    Few groups are preferred, but padding makes some numbers of groups need more memory than others.

    1. Compute the bytes of expert weights per column for every number of groups.
    2. Return the smallest number of groups that needs at most 1 + `MAX_EXTRA_FRACTION` times the
       minimum of these bytes.

    Args:
        spec: Model with experts.
        weight_types: Storage types of the weights.
        cols: Number of columns of the region.
        segment_count: Number of equal segments of columns that store different experts.
    """
    assert spec.experts is not None
    count, dimension = spec.experts.count, weight_types.dimension(spec, EXPERTS)  # 1
    sizes = {}
    for groups in range(2, max(2, min(MAX_EXPERT_GROUPS, count, cols)) + 1):
        cut = weight_types.cut(spec, EXPERTS, columns_of_expert(cols, count, str(groups), segment_count))
        sizes[groups] = ceil_div(count, groups) * dimension.line_bytes(cut)
    min_size = min(sizes.values())  # 2
    return next(groups for groups, size in sizes.items() if size <= (1 + MAX_EXTRA_FRACTION) * min_size)

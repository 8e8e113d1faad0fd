"""Numbers of columns for attention that are worth trying.

Heads and features are divided over columns in whole pieces, so several column counts lead to the
same division on the fullest column. Only the smallest of these is tried.
"""

from __future__ import annotations

from wse.models.spec import ModelSpec
from wse_mappings.cuts.head_groups import head_places
from wse_mappings.cuts.split import ceil_div

MAX_NARROWING = 4
"""Maximum ratio of a region's columns to its attention columns."""


def column_counts(spec: ModelSpec, region_cols: int, *, with_hidden: bool = True) -> tuple[int, ...]:
    """Return the numbers of attention columns that are worth trying, in descending order.

    Several column counts may divide heads or features into equally large blocks. In this case, only
    the smallest is returned.

    Args:
        spec: Model.
        region_cols: Columns of the region.
        with_hidden: Whether to consider the division of hidden features for latent attention, which
            also divides them over columns.
    """
    counts, latent = range(region_cols, region_cols // MAX_NARROWING, -1), spec.latent
    smallest_count_of: dict[tuple[int, ...], int]  # by the division on the fullest column; later counts are smaller
    if latent is None:
        sizes = spec.kv_head_count, spec.head_size, spec.rotary_size
        smallest_count_of = {head_places(cols, *sizes, mixed_pairs=spec.has_unit_rope): cols for cols in counts}
    else:
        extents = [latent.q_rank or spec.hidden_size, latent.kv_rank, latent.rope_size // 2]
        extents += [spec.hidden_size] if with_hidden else []
        smallest_count_of = {tuple(ceil_div(extent, cols) for extent in extents): cols for cols in counts}
    return tuple(sorted(smallest_count_of.values(), reverse=True))

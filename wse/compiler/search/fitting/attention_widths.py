"""Numbers of columns for attention that are worth trying.

Of all numbers with the same features on the fullest column, only the smallest is tried.
"""

from __future__ import annotations

from wse.models.spec import ModelSpec
from wse_mappings.cuts.head_groups import head_places
from wse_mappings.cuts.split import ceil_div

MAX_NARROWING = 4
"""Maximum ratio of the columns of a region to the columns for attention."""


def column_counts(spec: ModelSpec, region_cols: int, *, with_hidden: bool = True) -> tuple[int, ...]:
    """Return column counts in descending order, each the smallest with its features per column.

    Args:
        spec: Model.
        region_cols: Columns of the region.
        with_hidden: Whether hidden features count for latent attention, which divides them over
            columns as well.
    """
    latent = spec.latent
    if latent is None:
        sizes = spec.kv_head_count, spec.head_size, spec.rotary_size
        return _counts_for_heads(region_cols, *sizes, mixed_pairs=spec.has_unit_rope)
    extents = (latent.q_rank or spec.hidden_size, latent.kv_rank, latent.rope_size // 2)
    return _counts_for_extents(region_cols, (*extents, spec.hidden_size) if with_hidden else extents)


def _counts_for_heads(
    region_cols: int, kv_head_count: int, head_size: int, rotary_size: int, *, mixed_pairs: bool
) -> tuple[int, ...]:
    """Return the numbers of columns to try for attention with grouped heads.

    Args:
        region_cols: Columns of the region.
        kv_head_count: KV heads of the model.
        head_size: Features of a head.
        rotary_size: Features of a head that rotate.
        mixed_pairs: Whether features that do not rotate may be stored as rotary pairs.
    """
    sizes = kv_head_count, head_size, rotary_size
    return _smallest_counts(
        {head_places(cols, *sizes, mixed_pairs=mixed_pairs): cols for cols in _most_first(region_cols)}
    )


def _counts_for_extents(region_cols: int, extents: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of columns to try for attention that divides some dimensions evenly.

    Args:
        region_cols: Columns of the region.
        extents: Sizes of the dimensions.
    """
    return _smallest_counts(
        {tuple(ceil_div(extent, cols) for extent in extents): cols for cols in _most_first(region_cols)}
    )


def _most_first(region_cols: int) -> range:
    """Return all numbers of columns to consider, in descending order."""
    return range(region_cols, region_cols // MAX_NARROWING, -1)


def _smallest_counts(by_places: dict[tuple[int, ...], int]) -> tuple[int, ...]:
    """Return the smallest number of columns for each distinct division, in descending order.

    Args:
        by_places: For each division, the smallest number of columns that leads to it.
    """
    return tuple(sorted(by_places.values(), reverse=True))

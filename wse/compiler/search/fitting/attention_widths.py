"""Numbers of columns that hold attention: the fewest of those on which the fullest has as many features."""

from __future__ import annotations

from wse.models.spec import ModelSpec
from wse_mappings.cuts.head_groups import head_places
from wse_mappings.cuts.split import ceil_div

MOST_NARROWING = 4
"""The columns of a region over the fewest that attention is tried on."""


def column_counts(spec: ModelSpec, of_region: int, *, with_hidden: bool = True) -> tuple[int, ...]:
    """Return numbers of columns in descending order, each the smallest with the same features per column.

    Latent attention has hidden features on columns too, which count ``with_hidden``.
    """
    latent = spec.latent
    if latent is None:
        sizes = spec.kv_head_count, spec.head_size, spec.rotary_size
        return _of_heads(of_region, *sizes, mixed_pairs=spec.has_unit_rope)
    extents = (latent.q_rank or spec.hidden_size, latent.kv_rank, latent.rope_size // 2)
    return _of_extents(of_region, (*extents, spec.hidden_size) if with_hidden else extents)


def _of_heads(
    of_region: int, kv_head_count: int, head_size: int, rotary_size: int, *, mixed_pairs: bool
) -> tuple[int, ...]:
    sizes = kv_head_count, head_size, rotary_size
    return _fewest({head_places(cols, *sizes, mixed_pairs=mixed_pairs): cols for cols in _most_first(of_region)})


def _of_extents(of_region: int, extents: tuple[int, ...]) -> tuple[int, ...]:
    return _fewest({tuple(ceil_div(extent, cols) for extent in extents): cols for cols in _most_first(of_region)})


def _most_first(of_region: int) -> range:
    return range(of_region, of_region // MOST_NARROWING, -1)


def _fewest(by_places: dict[tuple[int, ...], int]) -> tuple[int, ...]:
    return tuple(sorted(by_places.values(), reverse=True))

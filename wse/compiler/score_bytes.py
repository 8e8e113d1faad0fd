"""Bytes of attention scores, as a function of the number of columns of a region."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from wse.compiler.options import Options
from wse.models.spec import ModelSpec
from wse_mappings.cuts.head_groups import head_places
from wse_mappings.cuts.widths import ColumnBytes


def score_bytes(spec: ModelSpec, options: Options) -> ColumnBytes:
    """Return a function that computes the memory per column of PEs for a token's attention scores.

    There is one score per query head and KV-cache entry. The cache entries are partitioned across
    the rows of a region (a rectangle of PEs), and the bytes of all rows are added up.

    Args:
        spec: Model.
        options: The request, with the context and the element type of sums.

    Returns:
        A function from the number of columns of a region to the bytes on its fullest column.
    """
    return options.cache.of(_score_bytes, 16)(replace(spec, layers=()), options.context * options.element_bytes("acc"))


def _score_bytes(spec: ModelSpec, entry_bytes: int) -> ColumnBytes:
    """Return the function that `score_bytes` returns, for one model and size of cache entries.

    Args:
        spec: Model without its layers, so that models that differ only in layers share a cached
            result.
        entry_bytes: Total size in bytes of one head's scores for all cache entries.
    """

    @cache
    def bytes_of_columns(cols: int) -> float:
        """Return the bytes of attention scores on the column of PEs that has the most scores.

        Args:
            cols: Number of columns of the region.
        """
        if spec.latent is not None:
            return float(entry_bytes * spec.head_count)  # all heads share all columns
        kinds = {spec, spec.with_window_heads}
        return float(entry_bytes * max(fullest_head_places(kind, cols)[0] * kind.queries_per_kv for kind in kinds))

    return bytes_of_columns


def fullest_head_places(spec: ModelSpec, cols: int) -> tuple[int, int]:
    """Return how many KV heads, and how many features per head, the fullest column of PEs stores.

    Args:
        spec: Model.
        cols: Number of columns.

    Returns:
        Number of KV heads of which the column stores features, and number of features per head.
    """
    sizes = spec.kv_head_count, spec.head_size, spec.rotary_size
    return head_places(cols, *sizes, mixed_pairs=spec.has_unit_rope)

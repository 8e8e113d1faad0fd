"""Partitioning of latent attention: per-head features across rows, shared features across columns.

In the absorbed form of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1.2),
queries are transformed into the space of the latent vectors, so that all heads read the cache
directly.

- The latent features and the rotated key, which all heads share, are partitioned across columns.
- The features of each head are partitioned across rows. These are the queries before the
  transformation, and the values of the result.

A product whose input is partitioned across rows adds up its results along columns, and its output
is then partitioned across columns. The opposite holds for an input that is partitioned across
columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wse_mappings.cuts.head_groups import head_groups
from wse_mappings.cuts.split import I32, on_the_middle, padded_blocks
from wse_mappings.result_cache import ResultCache


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LatentCut:
    """Features of latent attention stored by each row and each column of a rectangle of PEs.

    In latent attention, the cache stores a short vector of latent features per token for all heads.
    All arrays are int32 indices, with -1 for padding.

    Attributes:
        source: ``[cols, S]``: features of the vector that queries are computed from.
        latent: ``[cols, C]``: latent features.
        hidden: ``[cols, h]``: hidden features produced by the output projection.
        heads: ``[rows, n]``: heads of each row. A row may store only part of a head.
        first_rotated: ``[rows, 1]``: index, within a head, of the row's first rotated query
            feature. The row's rotated features are consecutive.
        nope, rope, value: ``[rows, n * features]``: rows of the projection matrices that compute
            the unrotated queries, rotated queries and values of each row of PEs, head by head.
    """

    source: I32
    latent: I32
    hidden: I32
    heads: I32
    first_rotated: I32
    nope: I32
    rope: I32
    value: I32

    def on_the_middle(self, cols: int) -> LatentCut:
        """Return this division for the middle columns of a wider rectangle of PEs.

        The outer columns store nothing.

        Args:
            cols: Number of columns of the wider rectangle.
        """
        column_indices = {name: on_the_middle(getattr(self, name), cols) for name in ("source", "latent", "hidden")}
        return replace(self, **column_indices)


def latent_cut(
    hidden: I32,
    cols: int,
    *,
    source: int,
    latent: int,
    heads: int,
    nope: int,
    rope: int,
    value: int,
    cache: ResultCache,
) -> LatentCut:
    """Partition latent attention across the rows and columns of a region.

    Heads are partitioned across rows in the same way as `head_groups` partitions them across
    columns. Hidden features are partitioned across columns in the order in which rows store them,
    row by row. As a result, the features that a row and a column have in common are consecutive.

    Args:
        hidden: int32 ``[rows, n]``: hidden features of each row.
        cols: Number of columns.
        source: Number of features of the vector that queries are computed from; 0 if that is the
            hidden vector.
        latent: Number of latent features.
        heads: Number of heads.
        nope, rope, value: Numbers of features per head: unrotated queries, rotated queries, values.
        cache: Cache of the results of `head_groups`.
    """
    rows, places = len(hidden), hidden.reshape(-1)
    by_place = padded_blocks(int(np.flatnonzero(places >= 0)[-1]) + 1, cols)
    on_columns = np.where(by_place < 0, np.int32(-1), places[by_place])
    groups = {size: cache.of(head_groups)(rows, heads, size, 0, may_share=False) for size in (nope, rope, value)}
    return LatentCut(
        source=padded_blocks(source, cols) if source else on_columns,
        latent=padded_blocks(latent, cols),
        hidden=on_columns,
        heads=groups[rope].kv_heads,
        first_rotated=groups[rope].features[:, :1],
        nope=groups[nope].rows(nope, 1),
        rope=groups[rope].rows(rope, 1),
        value=groups[value].rows(value, 1),
    )

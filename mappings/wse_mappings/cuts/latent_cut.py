"""The cut of attention over a latent cache: heads and their own features over rows, what they share over columns.

In the absorbed form of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1.2) queries are brought
into the space of the latent vectors, so that all heads read the cache as it is. Latent features and the rotated key
are shared by the heads: every column has its part of them for all heads. The features of a head that are not shared
(before queries are absorbed, after values are expanded) lie on the rows, so that each of the products in between
contracts over the axis that its vector is cut on, and leaves its result cut over the other one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wse_mappings.cuts.head_groups import head_groups
from wse_mappings.cuts.split import I32, on_the_middle, padded_blocks
from wse_mappings.result_cache import ResultCache


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LatentCut:
    """The division of latent attention over rows and columns. All are int32 indices, -1 for padding.

    Attributes:
        source: ``[cols, S]``: features of the vector that queries come out of.
        latent: ``[cols, C]``: latent features.
        hidden: ``[cols, h]``: hidden features, as the output projection leaves them.
        heads: ``[rows, n]``: heads of each row, of which a row may have a part only.
        first_rotated: ``[rows, 1]``: the first of the row's features, within a head, of queries that rotate; they are
            neighbours.
        nope, rope, value: ``[rows, n * features]``: rows of the matrices that make a head's queries without and with
            rotation, and its values, for the row's share of these, head after head.
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
        """Return the division with its columns placed on the middle of a wider region."""
        of_columns = {name: on_the_middle(getattr(self, name), cols) for name in ("source", "latent", "hidden")}
        return replace(self, **of_columns)


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
    """Divide the extents of latent attention; ``nope``, ``rope`` and ``value`` are features per head.

    Rows are cut as `HeadGroups` cuts columns, with every head a kv head of its own. ``hidden`` has the hidden features
    of each row, int32 ``[rows, n]``; queries come out of them where ``source`` is 0. Columns have them in blocks of
    their places on the rows, one row after another, so that a row and a column share neighbours.
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

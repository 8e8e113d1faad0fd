"""Division of linear attention: value features over columns, the state of a column over its rows.

Each key head has a group of neighbouring columns, which divide the features of its value heads. All
of these columns compute the queries and keys of the head completely, so that no features have to be
exchanged between them. If there are fewer columns than key heads, each column has whole heads.

The state of a column is divided over its rows by key features first. If there are more rows than
key features, several groups of rows divide the value features of the column.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wse_mappings.cuts.head_groups import HeadGroups, head_groups
from wse_mappings.cuts.split import I32, ceil_div, on_the_middle


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearCut:
    """Heads and features of linear attention stored by each column and each row of a rectangle.

    Attributes:
        heads: Key heads of each column, and the value features of their value heads.
        keys: int32 ``[cols, heads * D]``: rows of the projections to queries and to keys, with all
            D features of each head, -1 for padding.
        values: int32 ``[cols, value heads * V]``: rows of the projections to values and gates.
        value_heads: int32 ``[cols, value heads]``: value heads of each column.
        taps: int32 ``[cols, taps]``: inputs of the convolution, which are the same on all columns.
        key_features: int32 ``[rows, K]``: key features of which each row stores the state.
        key_rows: Number of neighbouring rows that together store the state of all key features.
        value_features_per_row: Maximum number of value features per head whose state a PE stores.
    """

    heads: HeadGroups
    keys: I32
    values: I32
    value_heads: I32
    taps: I32
    key_features: I32
    key_rows: int
    value_features_per_row: int

    @property
    def key_offsets(self) -> I32:
        """Index of the first feature of each key head of a column, int32 ``[cols, heads]``."""
        size = self.keys.shape[1] // self.heads.kv_heads_per_col
        return np.ascontiguousarray(self.keys[:, ::size])

    def on_the_middle(self, cols: int) -> LinearCut:
        """Return the same division for a wider rectangle of PEs, whose outer columns stay empty.

        Args:
            cols: Number of columns of the wider rectangle. Its middle columns store the features.
        """
        return replace(
            self,
            heads=self.heads.on_the_middle(cols),
            keys=on_the_middle(self.keys, cols),
            values=on_the_middle(self.values, cols),
            value_heads=on_the_middle(self.value_heads, cols),
            taps=on_the_middle(self.taps, cols),
        )


def linear_cut(
    rows: int,
    cols: int,
    *,
    key_heads: int,
    values_per_key: int,
    key_size: int,
    value_size: int,
    taps: int,
    segment_count: int = 1,
) -> LinearCut:
    """Divide linear attention over the rows and columns of a rectangle of PEs.

    If there are fewer key heads than segments of columns, a key head has several copies, each with
    a part of its value heads.

    Args:
        rows: Number of rows.
        cols: Number of columns.
        key_heads: Number of key heads.
        values_per_key: Number of value heads per key head.
        key_size, value_size: Features per key head and per value head.
        taps: Number of inputs per output of the convolution.
        segment_count: Number of equal segments of columns, one per wafer.
    """
    divisors = [n for n in range(1, values_per_key + 1) if values_per_key % n == 0]
    copies = next((n for n in divisors if key_heads * n >= segment_count), divisors[-1])
    heads = head_groups(cols, key_heads * copies, value_size, 0, may_share=False, segment_count=segment_count)
    heads = replace(heads, copies=copies)
    features = np.where(heads.kv_heads < 0, -1, heads.kv_heads // copies * key_size)[:, :, None]
    keys = np.where(features < 0, -1, features + np.arange(key_size)).reshape(cols, -1)
    per_row = ceil_div(key_size, rows)
    key_rows = ceil_div(key_size, per_row)
    key_features = np.arange(rows)[:, None] % key_rows * per_row + np.arange(per_row)
    return LinearCut(
        heads=heads,
        keys=keys.astype(np.int32),
        values=heads.rows(value_size, values_per_key),
        value_heads=heads.query_heads(values_per_key),
        taps=np.tile(np.arange(taps, dtype=np.int32), (cols, 1)),
        key_features=np.where(key_features < key_size, key_features, -1).astype(np.int32),
        key_rows=key_rows,
        value_features_per_row=ceil_div(heads.features_per_head, max(1, rows // key_rows)),
    )

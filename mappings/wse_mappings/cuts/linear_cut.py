"""Partitioning of linear attention across the columns and rows of a rectangle of PEs.

Linear attention stores a matrix per value head, the *state*, with one row per key feature and one
column per value feature.

- **Columns of PEs.** Each key head has a group of neighbouring columns. The columns of a group
  divide the head's key features, and the features of its value heads. If there are fewer columns
  than key heads, each column has whole heads.
- **Rows of PEs.** The PEs of a column divide the state of the column's values by key features. A
  row therefore needs only some key features, which it collects from all columns of the head. If
  there are more rows than key features, groups of rows also divide the value features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wse_mappings.cuts.head_features import even_features
from wse_mappings.cuts.head_groups import HeadGroups, head_groups
from wse_mappings.cuts.split import I32, on_the_middle
from wse_mappings.rounding import ceil_div


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearCut:
    """Heads and features of linear attention stored by each column and each row of a rectangle.

    Attributes:
        heads: Key heads of each column, and the value features of their value heads.
        keys: int32 ``[cols, heads * F]``: rows of the projections to queries and to keys, head
            after head, -1 for padding.
        first_key: int32 ``[cols, 1]``: first key feature of each column, -1 for none. The column
            has F consecutive features.
        key_offsets: int32 ``[cols, heads]``: index of the first feature of each key head.
        values: int32 ``[cols, value heads * V]``: rows of the projections to values and gates.
        value_heads: int32 ``[cols, value heads]``: value heads of each column.
        taps: int32 ``[cols, taps]``: inputs of the convolution, which are the same on all columns.
        key_features: int32 ``[rows, K]``: key features of which each row stores the state.
        key_rows: Number of neighbouring rows that together store the state of all key features.
        value_features_per_row: Maximum number of value features per head whose state a PE stores.
    """

    heads: HeadGroups
    keys: I32
    first_key: I32
    key_offsets: I32
    values: I32
    value_heads: I32
    taps: I32
    key_features: I32
    key_rows: int
    value_features_per_row: int

    @property
    def keys_per_head(self) -> int:
        """Number of key features that a column computes for each of its key heads.

        Columns with fewer features are padded to this number.
        """
        return int(self.keys.shape[1]) // self.heads.kv_heads_per_col

    def on_the_middle(self, cols: int) -> LinearCut:
        """Return this division for the middle columns of a wider rectangle of PEs.

        The outer columns store nothing.

        Args:
            cols: Number of columns of the wider rectangle.
        """
        return replace(
            self,
            heads=self.heads.on_the_middle(cols),
            keys=on_the_middle(self.keys, cols),
            first_key=on_the_middle(self.first_key, cols),
            key_offsets=on_the_middle(self.key_offsets, cols),
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
    """Partition linear attention across the rows and columns of a rectangle of PEs.

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
    keys, _ = even_features(key_size, 0, list(heads.segments))
    per_row = ceil_div(key_size, rows)
    key_rows = ceil_div(key_size, per_row)
    key_features = np.arange(rows)[:, None] % key_rows * per_row + np.arange(per_row)
    return LinearCut(
        heads=heads,
        keys=replace(heads, features=keys).rows(key_size, 1),
        first_key=np.ascontiguousarray(keys[:, :1]),
        key_offsets=np.where(heads.kv_heads < 0, -1, heads.kv_heads // copies * key_size).astype(np.int32),
        values=heads.rows(value_size, values_per_key),
        value_heads=heads.query_heads(values_per_key),
        taps=np.tile(np.arange(taps, dtype=np.int32), (cols, 1)),
        key_features=np.where(key_features < key_size, key_features, -1).astype(np.int32),
        key_rows=key_rows,
        value_features_per_row=ceil_div(heads.features_per_head, max(1, rows // key_rows)),
    )

"""Shard: how many values of each tensor of a layer a PE of a block stores."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from wse.studies.validate.predictors.wafer_inference.kernel_model.dimensions import Dimensions


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Sizes of the tensors on one PE of a block, a rectangle of PEs that decodes tokens.

    The hidden vector is distributed over rows and copied along columns. Heads are distributed over
    columns, and cached positions round-robin over rows.

    Attributes:
        model: Sizes of the model.
        rows: Number of PE rows of the block.
        cols: Number of PE columns of the block.
        context: Mean number of cached positions.
        batch: Number of sequences that are decoded together.
        one_block_per_layer: Whether attention and feed-forward part of a layer share one block.
    """

    model: Dimensions
    rows: int
    cols: int
    context: float = 0
    batch: int = 1
    one_block_per_layer: bool = False

    @property
    def hidden(self) -> int:
        """Number of values of the hidden vector on a PE."""
        return math.ceil(self.model.hidden / self.rows)

    @property
    def queries(self) -> int:
        """Number of query values on a PE, which is also the input size of the output projection."""
        return math.ceil(self.model.query_size / self.cols)

    @property
    def keys(self) -> int:
        """Number of key values on a PE, which is also the number of dimensions of each head."""
        return math.ceil(self.model.kv_size / self.cols)

    @property
    def ffn(self) -> int:
        """Number of values of the feed-forward vector on a PE."""
        return math.ceil(self.model.ffn / self.cols)

    @property
    def band_cols(self) -> int:
        """Number of columns of PEs that share one key-value head."""
        return max(1, self.cols // self.model.kv_heads)

    @property
    def heads(self) -> int:
        """Number of query heads on a PE: all heads that use its key-value head."""
        return self.model.heads // self.model.kv_heads

    @property
    def positions(self) -> int:
        """Number of cached positions on the row of PEs with the most."""
        return max(1, math.ceil(self.context / self.rows))

    @property
    def scores(self) -> int:
        """Number of attention scores of all heads of a PE."""
        return self.heads * self.positions

    def with_context(self, context: float) -> Shard:
        """Return this shard with another number of cached positions."""
        return replace(self, context=context)

"""Cycle count of prefill: prompt chunks pass through the blocks of PEs that store the layers.

Tokens are distributed across columns and the values of a vector over rows. A matrix product takes
one step for each row of the block. In a step, a PE multiplies one tile of weights with its tokens,
and then shifts weights and activations to its neighbours. A chunk attends to itself and to all
earlier chunks. For each of them, first keys and then values are shifted by one PE per step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from wse.studies.validate.kernel_model.described_run import DescribedRun
from wse.studies.validate.kernel_model.kernel_work import SILU_PARTS, product_work
from wse.studies.validate.kernel_model.reduce_time import all_reduce_cycles
from wse.studies.validate.kernel_model.step_time import StepTime

PRODUCTS: Final = 4
"""Matrix products of a layer: queries, keys and values; output; up and gate; down."""

SHIFT_OPERATIONS: Final = 4
"""Vector operations of a shift: a send and a receive of weights, and of activations."""

SHIFT_TASKS: Final = 2
"""Tasks that start in a shift, one for each direction."""

MIN_TOKENS: Final = 2
"""Minimum number of tokens of a chunk on a PE. Smaller chunks are padded, because a 32-bit word
contains two 16-bit values.

This is inferred: chunks with one and with two tokens on a PE took the same time."""

BLOCKS_PER_INTERVAL: Final = 2
"""Number of neighbouring blocks of PEs whose times add up to the interval between two chunks.

This is inferred: a block cannot accept a chunk before the next block has accepted the previous
chunk, so neighbours work alternately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillTime:
    """Timing model of a prefill of one prompt in chunks, which pass through blocks of PEs.

    Attributes:
        layer: Timing model of the steps of a layer.
        run: The model, and the blocks (rectangles of PEs) that store its layers.
        chunk: Number of tokens in a chunk.
        prompt: Number of tokens in the prompt.
        first_chunk: Index of the first chunk to compute. Earlier chunks are already cached.
    """

    layer: StepTime
    run: DescribedRun
    chunk: int
    prompt: int
    first_chunk: int = 0

    @property
    def tokens(self) -> int:
        """Number of tokens that one PE processes in each chunk of the prompt.

        The tokens of a chunk are distributed across the PE columns, and small chunks are padded.
        """
        return max(MIN_TOKENS, math.ceil(self.chunk / self.run.shard.cols))

    @property
    def chunks(self) -> int:
        """Number of chunks in the prompt."""
        return math.ceil(self.prompt / self.chunk)

    def cycles(self) -> float:
        """Return how many cycles the prefill of a prompt takes.

        The prompt is divided into chunks, which pass through the blocks (rectangles of PEs) like
        through a pipeline. The result is the time of the first chunk in all layers, plus one
        interval for each later chunk. The interval is the time that two neighbouring blocks need
        for the chunk.
        """
        shard = self.run.shard
        parts = 1 if shard.one_block_per_layer else 2
        interval_layers = BLOCKS_PER_INTERVAL * self.run.layers / parts
        first = shard.model.layer_count * self.layer_cycles(self.first_chunk)
        later_chunks = self.chunks - self.first_chunk - 1
        pairs = later_chunks * (self.first_chunk + 2 + self.chunks) / 2
        fixed_cycles = self.product_cycles() + self.local_cycles()
        return first + interval_layers * (later_chunks * fixed_cycles + pairs * self.pair_cycles())

    def layer_cycles(self, chunk: int) -> float:
        """Return the cycles that one layer takes for the chunk with index ``chunk``.

        A later chunk takes longer, because it attends to all earlier chunks.
        """
        return self.product_cycles() + self.local_cycles() + (chunk + 1) * self.pair_cycles()

    def product_cycles(self) -> float:
        """Return how many cycles the matrix products of a layer take for one chunk of the prompt.

        In each of ``rows`` + 1 steps, a PE multiplies its tiles and shifts data to other PEs.
        """
        costs, wafer, shard = self.layer.costs, self.layer.wafer, self.run.shard
        hidden, ffn = math.ceil(shard.model.hidden_size / shard.rows), math.ceil(shard.model.ffn_size / shard.rows)
        operations, macs = product_work(shard.model, hidden, ffn, shard.rows)
        body = self.tokens * (operations * costs.operation_cycles + macs / wafer.mac_fp16_fp32_per_cycle)
        shift = SHIFT_OPERATIONS * costs.operation_cycles + SHIFT_TASKS * costs.task_cycles
        weights = macs / 2 * costs.multicast_word_cycles
        return (shard.rows + 1) * (body + PRODUCTS * shift + weights)

    def local_cycles(self) -> float:
        """Return how many cycles a layer spends on norms, rotary embeddings and SiLU for one chunk.

        The reduces of the norms, which add up words of several PEs, are included.
        """
        layer, shard = self.layer, self.run.shard
        keys = max(1, shard.model.key_size // shard.rows)
        ffn = math.ceil(shard.model.ffn_size / shard.rows / SILU_PARTS)
        head = layer.work_cycles("head norm", keys) + layer.work_cycles("rotation", keys // 2)
        silu = SILU_PARTS * layer.work_cycles("sigmoid", self.tokens * ffn)
        norm = all_reduce_cycles(layer.wafer, layer.costs, shard.rows, self.tokens, shard.rows)
        return self.tokens * (shard.heads + 1) * head + silu + 2 * norm

    def pair_cycles(self) -> float:
        """Return how many cycles it takes for the tokens of a chunk to attend to one cached chunk.

        The cached chunk is an earlier chunk of the prompt, or the chunk itself. Computing the
        scores takes one step for each PE column, and so does the weighted sum of values. In each
        step, a PE executes one vector operation for each head and token, one send and one receive.
        """
        costs, wafer, shard = self.layer.costs, self.layer.wafer, self.run.shard
        dims = max(1, shard.model.key_size // shard.rows)
        operations = shard.heads * self.tokens
        macs = operations * self.tokens * dims
        step = (operations + 2) * costs.operation_cycles + macs / wafer.mac_fp16_fp32_per_cycle
        return 2 * shard.cols * step

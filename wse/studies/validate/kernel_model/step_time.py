"""Cycle count of a decode step: embedding, the steps of layers, transfers between rows, output."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from wse.hardware.compute_engine import ComputeEngineCosts
from wse.hardware.spec import WaferSpec
from wse.studies.validate.kernel_model.described_run import BLOCKS_PER_ROW, DescribedRun, Shard
from wse.studies.validate.kernel_model.layer_steps import (
    ATTENTION,
    BEFORE_CONTEXT,
    FEED_FORWARD,
    FROM_CONTEXT,
    Collective,
    Operations,
    Step,
    Work,
)
from wse.studies.validate.kernel_model.reduce_time import GROUP_PES, all_reduce_cycles, multicast_cycles, reduce_cycles

TAIL_ROWS: Final = 256
TAIL_COLS: Final = 128
"""Number of PE rows and columns of the output head. Source: floor plan of the decode artifact."""

VOCABULARY_MULTIPLE: Final = 256
"""The vocabulary is padded to a multiple of this number of tokens."""

STRIP_PIPES: Final = 8
"""Number of interleaved chains of PEs that carry the hidden vector to the next row of blocks."""

CANDIDATE_WORDS: Final = 2
"""32-bit words of a candidate of the sampler: value and token."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """Timing model of decode steps with measured kernels: layers, transfers between blocks, output head.

    Attributes:
        wafer: The wafer.
        costs: Costs of operations and messages in a software profile.
    """

    wafer: WaferSpec
    costs: ComputeEngineCosts

    def attention_cycles(self, shard: Shard) -> float:
        """Return how many cycles the attention part of a layer takes for one decode step."""
        return self.cycles(ATTENTION, shard)

    def ffn_cycles(self, shard: Shard) -> float:
        """Return how many cycles the feed-forward part of a layer takes for one decode step."""
        return self.cycles(FEED_FORWARD, shard)

    def cycles(self, steps: Iterable[Step], shard: Shard) -> float:
        """Return the total cycle count of steps that run sequentially.

        Args:
            steps: Steps of a layer.
            shard: Sizes of the tensors on a PE.
        """
        return sum(self.step_cycles(step, shard) for step in steps)

    def step_cycles(self, step: Step, shard: Shard) -> float:
        """Return how many cycles a step of a layer takes for all sequences of the batch.

        The cycles are spent on vector operations and all-reduces. If attention and feed-forward run
        on different blocks (rectangles of PEs), messages between them take additional cycles.
        """
        operations = sum(self.operations_cycles(operations, shard) for operations in step.operations)
        collectives = sum(self.collective_cycles(collective, shard) for collective in step.collectives)
        messages = 0 if shard.one_block_per_layer else step.messages
        return operations + collectives + messages * self.costs.task_cycles

    def operations_cycles(self, operations: Operations, shard: Shard) -> float:
        """Return how many cycles several identical vector operations take for the whole batch."""
        count, length = operations.count(shard), operations.length(shard)
        if operations.spans_batch:
            return count * self.work_cycles(operations.work, shard.batch * length)
        return shard.batch * count * self.work_cycles(operations.work, length)

    def collective_cycles(self, collective: Collective, shard: Shard) -> float:
        """Return how many cycles an all-reduce takes for all sequences of the batch.

        The result is 0 if the all-reduce is only needed when a block (a rectangle of PEs) stores
        whole layers, and the blocks of this model do not.
        """
        if collective.only_in_one_block and not shard.one_block_per_layer:
            return 0.0
        words = shard.batch * collective.words(shard)
        pes = {"column": shard.rows, "row": shard.cols, "band": shard.band_cols}[collective.line]
        group = pes if collective.line == "band" else GROUP_PES
        return all_reduce_cycles(self.wafer, self.costs, pes, words, group)

    def work_cycles(self, work: Work, length: float) -> float:
        """Return how many cycles a vector operation, or a function such as SiLU, takes.

        A function consists of several vector operations of the same length.

        Args:
            work: The operation or function, such as ``plain``, ``reduction`` or ``exponential``.
            length: Number of elements per vector operation.
        """
        costs = self.costs
        plain = costs.operation_cycles + costs.element_cycles * length
        return {
            "plain": plain,
            "multiply-accumulate": costs.operation_cycles + length / self.wafer.mac_fp16_fp32_per_cycle,
            "reduction": costs.operation_cycles + length / self.wafer.max_fp32_per_cycle,
            "conversion": costs.operation_cycles + length / self.wafer.convert_per_cycle,
            "exponential": costs.exponential_operations * plain,
            "sigmoid": (costs.exponential_operations + costs.sigmoid_operations) * plain,
            "head norm": costs.head_norm_operations * plain,
            "rotation": costs.rotation_operations * plain,
        }[work]

    def free_cycles(self, run: DescribedRun) -> float:
        """Return the cycles per token if each token is generated by the model.

        A token that the model generates is known only at the end of its pass, so the passes of
        consecutive tokens cannot overlap. `forced_cycles` is for tokens that are known in advance.
        """
        shard, parts = run.shard, 1 if run.shard.one_block_per_layer else 2
        layer = self.attention_cycles(shard) + self.ffn_cycles(shard)
        hops = (parts - 1) * self.hop_pair_cycles(shard)
        seams = run.rows_of_blocks - 1
        return (
            shard.model.layer_count * (layer + hops)
            + seams * self.strip_cycles(shard)
            + self.head_cycles(shard)
            + self.tail_cycles(shard, run.top_k)
        )

    def forced_cycles(self, run: DescribedRun) -> float:
        """Return the cycles per token if all tokens are known in advance.

        Known tokens are pipelined through the blocks (rectangles of PEs that store layers). The
        result is therefore the time of the slowest pipeline stage. The first rule that applies
        determines what a stage is:

        1. If blocks store whole layers, a stage is one or several blocks.
        2. If attention is divided into two stages, the three stages of a layer are: attention
           before the scores, attention from the scores on, and feed-forward.
        3. If there are at least as many stages as blocks, a stage is one block, with only attention
           or only feed-forward.
        4. Otherwise, a stage is one or several pairs of blocks, one with attention and one with
           feed-forward.

        If a stage has several rows of blocks, the transfers between these rows are included.
        """
        shard = run.shard
        attention, ffn = self.attention_cycles(shard), self.ffn_cycles(shard)
        stages = max(1, run.stages)
        if shard.one_block_per_layer:
            blocks = math.ceil(run.blocks / stages) if run.blocks else 1
            layers, rows = min(run.layers * blocks, shard.model.layer_count), math.ceil(blocks / BLOCKS_PER_ROW)
            return layers * (attention + ffn) + (rows - 1) * self.strip_cycles(shard)
        if run.divides_attention:
            first, second = self.cycles(BEFORE_CONTEXT, shard), self.cycles(FROM_CONTEXT, shard)
            return run.layers * max(first, second, ffn)
        if stages >= run.blocks:
            return run.layers * max(attention, ffn)
        rows = math.ceil(run.rows_of_blocks / stages)
        row = run.layers * (attention + ffn + self.hop_pair_cycles(shard))
        return rows * row + (rows - 1) * self.strip_cycles(shard)

    def hop_pair_cycles(self, shard: Shard) -> float:
        """Return the cycles to send a vector to the neighbouring block and the result back.

        A block is a rectangle of PEs with attention or feed-forward of some layers. The vector is
        the hidden vector between them.
        """
        words = shard.batch * math.ceil(shard.hidden / 2)
        return 2 * multicast_cycles(self.costs, 1, words)

    def strip_cycles(self, shard: Shard) -> float:
        """Return the cycles to carry the hidden vector to the next row of blocks.

        A chain of PEs collects the vector: each PE forwards the values from the PEs before it and
        then sends its own values. A second chain distributes the values, and a multicast copies
        them along the rows.
        """
        costs = self.costs
        cells = math.ceil(shard.rows / STRIP_PIPES)
        words = shard.batch * math.ceil(shard.hidden / 2) * cells
        chain = words * costs.forward_word_cycles + cells * costs.operation_cycles
        return 2 * chain + multicast_cycles(costs, shard.cols, shard.batch * math.ceil(shard.hidden / 2))

    def head_cycles(self, shard: Shard) -> float:
        """Return how many cycles the embedding look-up takes for all sequences of the batch.

        For each sequence, the token id is sent across the PEs of the embedding table, and then the
        token's vector is sent back out.
        """
        words = math.ceil(shard.model.hidden_size / TAIL_COLS / 2)
        crossing_cycles = multicast_cycles(self.costs, TAIL_ROWS + TAIL_COLS, 1)
        return shard.batch * (crossing_cycles + multicast_cycles(self.costs, TAIL_ROWS, words))

    def tail_cycles(self, shard: Shard, top_k: int) -> float:
        """Return the cycles to compute logits and select the next tokens of all sequences.

        1. Norm, product with a tile of the output head, and reduce of the logits along columns.
        2. Selection of the ``k`` largest of ``n`` logits on each PE with a heap. For logits in
           random order, about ``k + k ln(n / k)`` logits are inserted into the heap.
        3. Merge of the selected logits along a row of PEs. PEs on the way store and forward them.
        """
        costs, wafer = self.costs, self.wafer
        hidden = math.ceil(shard.model.hidden_size / TAIL_ROWS)
        logits = tail_logits(shard.model.vocab_size)
        top_k = max(1, min(top_k, logits))
        operation, element = costs.operation_cycles, costs.element_cycles
        norm = 4 * (operation + element * hidden) + reduce_cycles(wafer, costs, TAIL_ROWS, 1)  # 1
        product = hidden * (operation + logits / wafer.mac_fp16_fp32_per_cycle)
        product += reduce_cycles(wafer, costs, TAIL_ROWS, logits)
        insertions = top_k * (1 + math.log(logits / top_k))  # 2
        local = operation + logits * element + insertions * max(1.0, math.log2(top_k)) * operation
        relays = GROUP_PES // 2 + TAIL_COLS // GROUP_PES // 2  # 3
        merge = relays * top_k * CANDIDATE_WORDS * costs.stored_word_cycles
        return shard.batch * (norm + product + local + merge)


def tail_logits(vocabulary: int) -> int:
    """Return the number of logits that one PE column of the output head computes."""
    return math.ceil(vocabulary / VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE // TAIL_COLS

"""Cycles of the steps of a layer, from the description in `layer_steps` and a software profile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wse.hardware.compute_engine import ComputeEngineCosts
from wse.hardware.spec import WaferSpec
from wse.studies.validate.predictors.wafer_inference.kernel_model.layer_steps import (
    ATTENTION,
    FEED_FORWARD,
    Collective,
    Operations,
    Step,
    Work,
)
from wse.studies.validate.predictors.wafer_inference.kernel_model.reduce_time import GROUP_PES, all_reduce_cycles
from wse.studies.validate.predictors.wafer_inference.kernel_model.shard import Shard


@dataclass(frozen=True, slots=True)
class LayerTime:
    """Timing model of the steps of a layer on one wafer with one software profile."""

    wafer: WaferSpec
    costs: ComputeEngineCosts

    def attention_cycles(self, shard: Shard) -> float:
        """Return the cycles of the attention part of a layer."""
        return self.cycles(ATTENTION, shard)

    def ffn_cycles(self, shard: Shard) -> float:
        """Return the cycles of the feed-forward part of a layer."""
        return self.cycles(FEED_FORWARD, shard)

    def cycles(self, steps: Iterable[Step], shard: Shard) -> float:
        """Return the cycles of steps that run one after the other."""
        return sum(self.step_cycles(step, shard) for step in steps)

    def step_cycles(self, step: Step, shard: Shard) -> float:
        """Return the cycles of a step's operations, collectives and messages for all sequences."""
        operations = sum(self.operations_cycles(operations, shard) for operations in step.operations)
        collectives = sum(self.collective_cycles(collective, shard) for collective in step.collectives)
        messages = 0 if shard.one_block_per_layer else step.messages
        return operations + collectives + messages * self.costs.task_cycles

    def operations_cycles(self, operations: Operations, shard: Shard) -> float:
        """Return the cycles of equal vector operations for all sequences of the batch."""
        count, length = operations.count(shard), operations.length(shard)
        if operations.spans_batch:
            return count * self.work_cycles(operations.work, shard.batch * length)
        return shard.batch * count * self.work_cycles(operations.work, length)

    def collective_cycles(self, collective: Collective, shard: Shard) -> float:
        """Return the cycles of one all-reduce, with the words of all sequences in one message."""
        if collective.only_in_one_block and not shard.one_block_per_layer:
            return 0.0
        words = shard.batch * collective.words(shard)
        pes = {"column": shard.rows, "row": shard.cols, "band": shard.band_cols}[collective.line]
        group = pes if collective.line == "band" else GROUP_PES
        return all_reduce_cycles(self.wafer, self.costs, pes, words, group)

    def work_cycles(self, work: Work, length: float) -> float:
        """Return the cycles of a vector operation, or of all operations of a function such as SiLU.

        Args:
            work: The operation or function.
            length: Elements of each operation.
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

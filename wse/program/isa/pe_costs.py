"""Costs of operations on one PE, from the vendor's SIMD table and the software profile."""

from __future__ import annotations

import math
from dataclasses import dataclass

from wse.hardware.spec import SoftwareProfile, WaferSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PeCosts:
    """Rates and costs of operations on one PE.

    The fields from ``mac`` to ``scale_acc`` are rates in elements per cycle. The fields from
    ``issue`` to ``function`` are costs in cycles.
    """

    mac: float  # activations times weights into accumulators
    square: float  # activations squared into float32
    act: float  # add, multiply, move of activations
    acc: float  # add, move of accumulators
    f32: float  # add, multiply, move of float32
    max_f32: float  # maximum of two float32 values
    convert: float  # accumulators to activations
    shift: float  # 16-bit words
    logic: float  # 16-bit words
    half: float  # add a constant to float16 values
    widen: float  # float16 to activations; 0 if activations are not wider
    scale: float  # multiply activations
    scale_acc: float  # multiply float32 accumulators
    issue: int  # cycles to issue a vector operation
    mapped_issue: float  # cycles to issue each vector operation of a mapped operation
    loop: int  # cycles per iteration of a loop around vector operations
    function: int  # cycles of a scalar function, such as exp, on one element

    def vector(self, elements: int, width: float) -> float:
        """Return how many cycles a vector operation takes; 0 if it has no elements.

        Args:
            elements: Number of elements.
            width: Elements per cycle.
        """
        return self.issue + math.ceil(elements / width) if elements > 0 else 0.0

    def strided_vector(self, elements: int, width: float) -> float:
        """Return how many cycles a strided vector operation takes (at most one element per cycle).

        Args:
            elements: Number of elements.
            width: Elements per cycle without a stride.
        """
        return self.vector(elements, min(width, 1.0))

    def strided_rows(self, count: int, elements: int, width: float) -> float:
        """Return how many cycles a mapped operation of ``count`` strided vector operations takes.

        A mapped operation repeats a vector operation, at a lower issue cost for each repetition.

        Args:
            count: Number of vector operations.
            elements: Number of elements per vector operation.
            width: Elements per cycle without a stride.
        """
        return self.rows(count, elements, min(width, 1.0))

    def rows(self, count: int, elements: int, width: float) -> float:
        """Return how many cycles a mapped operation of ``count`` identical vector operations takes.

        A mapped operation repeats a vector operation, for example for each row of a matrix, at a
        lower issue cost for each repetition.

        Args:
            count: Number of vector operations.
            elements: Number of elements per vector operation.
            width: Elements per cycle.
        """
        return count * (self.mapped_issue + math.ceil(elements / width)) if elements > 0 else 0.0


def pe_costs(wafer: WaferSpec, software: SoftwareProfile, activation_type: str, accumulate_type: str) -> PeCosts:
    """Return the rates and costs of operations on a PE, given two element types.

    bfloat16 runs at the rates of float16.

    Args:
        wafer: Wafer type, which determines the SIMD rates.
        software: Software profile, which determines issue, loop and function costs and bank
            conflicts.
        activation_type: Element type of activations.
        accumulate_type: Element type of accumulators.
    """
    half_act, half_acc = activation_type != "float32", accumulate_type != "float32"
    conflicts = software.bank_conflict_ratio
    if not half_act:
        mac = wafer.mac_fp32_per_cycle
    else:
        mac = wafer.mac_fp16_per_cycle if half_acc else wafer.mac_fp16_fp32_per_cycle
    return PeCosts(
        mac=mac / conflicts,
        square=(wafer.mac_fp16_fp32_per_cycle if half_act else wafer.mac_fp32_per_cycle) / conflicts,
        act=(wafer.add_fp16_per_cycle if half_act else wafer.add_fp32_per_cycle) / conflicts,
        acc=(wafer.add_fp16_per_cycle if half_acc else wafer.add_fp32_per_cycle) / conflicts,
        f32=wafer.add_fp32_per_cycle / conflicts,
        max_f32=wafer.max_fp32_per_cycle,
        convert=wafer.convert_per_cycle if half_act and not half_acc else wafer.move_32bit_per_cycle,
        shift=wafer.shift_16bit_per_cycle,
        logic=wafer.logic_16bit_per_cycle,
        half=wafer.add_fp16_per_cycle,
        widen=0 if half_act else wafer.convert_per_cycle,
        scale=(wafer.add_fp16_per_cycle if half_act else wafer.mac_fp32_per_cycle) / conflicts,
        scale_acc=wafer.mac_fp32_per_cycle / conflicts,
        issue=software.vector_issue_cycles,
        mapped_issue=software.mapped_issue_cycles,
        loop=software.loop_cycles,
        function=software.function_cycles,
    )

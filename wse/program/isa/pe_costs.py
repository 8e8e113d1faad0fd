"""Costs of operations on one PE, by the vendor's SIMD table for the generation and the software profile."""

from __future__ import annotations

import math
from dataclasses import dataclass

from wse.hardware.spec import SoftwareProfile, WaferSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PeCosts:
    """Rates and costs of operations on one PE: elements a cycle by operation, cycles by scalar event."""

    mac: float  # activations times weights into accumulators
    square: float  # activations squared into float32
    act: float  # add, multiply, move of activations
    acc: float  # add, move of accumulators
    f32: float  # add, multiply, move of float32
    largest: float  # the larger of two float32
    convert: float  # accumulators to activations
    shift: float  # 16-bit words
    logic: float  # 16-bit words
    half: float  # add a constant to halves
    widen: float  # halves to activations; 0 where they are halves
    scale: float  # multiply activations
    scale_acc: float  # multiply accumulators of float32
    issue: int  # cycles to issue a vector operation
    mapped: float  # cycles to issue each vector operation of a mapped one
    loop: int  # cycles of a turn of a loop around vector operations
    function: int  # cycles of a scalar function, such as exp, on one element

    def vector(self, elements: int, width: float) -> float:
        """Return the cycles of one vector operation; none for an empty one."""
        return self.issue + math.ceil(elements / width) if elements > 0 else 0.0

    def strided_vector(self, elements: int, width: float) -> float:
        """Return the cycles of a vector operation on elements that are not neighbours: no more than one a cycle."""
        return self.vector(elements, min(width, 1.0))

    def strided_rows(self, count: int, elements: int, width: float) -> float:
        """Return the cycles of ``count`` operations as of `strided_vector` that one mapped operation makes."""
        return self.rows(count, elements, min(width, 1.0))

    def rows(self, count: int, elements: int, width: float) -> float:
        """Return the cycles of ``count`` equal vector operations that one mapped operation makes."""
        return count * (self.mapped + math.ceil(elements / width)) if elements > 0 else 0.0


def pe_costs(wafer: WaferSpec, software: SoftwareProfile, activation_type: str, accumulate_type: str) -> PeCosts:
    """Return the costs for these element types. bfloat16 runs at the rates of float16."""
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
        largest=wafer.max_fp32_per_cycle,
        convert=wafer.convert_per_cycle if half_act and not half_acc else wafer.move_32bit_per_cycle,
        shift=wafer.shift_16bit_per_cycle,
        logic=wafer.logic_16bit_per_cycle,
        half=wafer.add_fp16_per_cycle,
        widen=0 if half_act else wafer.convert_per_cycle,
        scale=(wafer.add_fp16_per_cycle if half_act else wafer.mac_fp32_per_cycle) / conflicts,
        scale_acc=wafer.mac_fp32_per_cycle / conflicts,
        issue=software.vector_issue_cycles,
        mapped=software.mapped_issue_cycles,
        loop=software.loop_cycles,
        function=software.function_cycles,
    )

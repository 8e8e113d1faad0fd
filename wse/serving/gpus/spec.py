"""GpuSpec and StackSpec: the rates of a GPU, and the costs of the software that serves on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GENERATIONS: Final = ("ampere", "hopper", "blackwell")
"""GPU generations. The kernels for experts differ between generations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpec:
    """Capacities and rates of a GPU, from which times are computed.

    The unit of each number is in its name, and its source is in the preset file. Rates of products
    are for dense matrices. A rate of 0 means that tensor cores do not support the element type.
    """

    name: str
    generation: str
    hbm_bytes: int
    hbm_bytes_per_s: float
    bf16_flops_per_s: float
    fp8_flops_per_s: float
    fp4_flops_per_s: float
    link_bytes_per_s: float  # rate to all other GPUs together, in one direction
    linked_gpus: int  # maximum number of GPUs that such links connect
    board_power_w: float  # maximum power of the board

    def flops_per_s(self, bits: float) -> float:
        """Return the rate of matrix products in flop/s for elements of the given number of bits.

        If tensor cores do not support such elements, they are widened to 16 bits.
        """
        narrow_rate = self.fp4_flops_per_s if bits < 8 else self.fp8_flops_per_s if bits < 16 else 0.0
        return narrow_rate or self.bf16_flops_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSpec:
    """Costs of a serving stack, which is the software that serves models on GPUs.

    The costs are ratios of achieved to stated rates, and fixed times.

    Attributes:
        title: Name and versions of the software.
        fitted_on: Measurements to which the constants were fitted.
    """

    name: str
    title: str
    fitted_on: str
    bandwidth_ratio: float  # achieved / stated bandwidth when reading weights of 8 bits and more
    four_bit_ratio: float  # achieved / stated bandwidth for 4-bit weights that are multiplied in 4 bits
    expert_ratio: float  # achieved / stated bandwidth for weights of routed experts
    cache_ratio: float  # achieved / stated bandwidth for the KV cache
    compute_ratio: float  # achieved / stated rate of products
    attention_ratio: float  # achieved / stated rate for scores and values of generated tokens
    link_ratio: float  # achieved / stated rate of links in an all-reduce
    cache_token_s: float  # time per token of a user's cache in each layer, regardless of its bytes
    layer_s: float  # time to launch and synchronise the kernels of a layer
    expert_layer_s: float  # additional time of a layer with experts
    all_reduce_s: float  # time of an all-reduce per doubling of the number of GPUs
    step_s: float  # time of the host between two passes
    user_s: float  # additional time of the host for each user of a pass
    one_shot_bytes: int  # longest vector of a one-step all-reduce, in which each GPU reads all others
    memory_ratio: float  # fraction of HBM that the stack uses
    workspace_bytes: int  # part of this memory per GPU for activations, captured graphs and communication
    max_sequences: int  # maximum number of sequences that a scheduler has in flight

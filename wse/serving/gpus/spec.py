"""GpuSpec and StackSpec: what a GPU does, and what the software that serves models on it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GENERATIONS: Final = ("ampere", "hopper", "blackwell")
"""Generations of GPUs: which kernels software has for experts differs between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpec:
    """A GPU as software sees it. Every number's unit is in its name; its source is in the preset file.

    Rates of products are those of dense matrices, 0 for an element type that its tensor cores do not have.
    """

    name: str
    generation: str
    hbm_bytes: int
    hbm_bytes_per_s: float
    bf16_flops_per_s: float
    fp8_flops_per_s: float
    fp4_flops_per_s: float
    link_bytes_per_s: float  # to the other GPUs together, one way
    linked_gpus: int  # that such links join
    board_power_w: float  # the most that the board may draw

    def flops_per_s(self, bits: float) -> float:
        """Return the rate of products of elements of so many bits, or of the next wider ones that tensor cores have."""
        narrow = (self.fp4_flops_per_s if bits < 8 else 0.0) or (self.fp8_flops_per_s if bits < 16 else 0.0)
        return narrow or self.bf16_flops_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSpec:
    """The costs of a serving stack: shares of what the GPU could do at most, and times that pass whatever it does.

    ``title`` says which versions, ``fitted_on`` which measurements the constants were fitted on.
    """

    name: str
    title: str
    fitted_on: str
    bandwidth_ratio: float  # achieved over stated, reading weights of 8 bits and more
    four_bit_ratio: float  # the same, weights of 4 bits in products of 4 bits
    expert_ratio: float  # the same, weights of routed experts
    cache_ratio: float  # the same, the KV cache
    compute_ratio: float  # achieved over stated rate of products
    attention_ratio: float  # the same, scores and values of generated tokens
    link_ratio: float  # achieved over stated rate of links in an all-reduce
    cache_token_s: float  # stepping through one token of a user's cache in a layer, whatever its bytes
    layer_s: float  # launching and synchronising the kernels of a layer
    expert_layer_s: float  # what routing to experts adds to that
    all_reduce_s: float  # of an all-reduce, for each doubling of the GPUs
    step_s: float  # the host, between two passes
    user_s: float  # the host, for each user of a pass
    one_shot_bytes: int  # longest vector that an all-reduce adds up in one step, where each GPU reads all others
    memory_ratio: float  # share of HBM that the stack takes
    workspace_bytes: int  # of that, on each GPU, for activations, captured graphs and communication
    max_sequences: int  # that a scheduler has in flight at a time

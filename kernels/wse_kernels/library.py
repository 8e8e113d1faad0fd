"""The kernels by name, each compiled for one core and for all of them.

``compiled(name)`` gives both; a caller picks the parallel one when a step is worth waking the other cores.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from wse_kernels import (
    attention,
    elementwise,
    experts,
    latent,
    linear,
    norm,
    quantised,
    quantised_experts,
    rotary,
    router,
    transfers,
    vocabulary,
    wavelet,
)
from wse_kernels._jit import kernel, make_ready, parallel_kernel

__all__ = ["COMPUTE", "TIMING", "TRANSFER", "Compiled", "compiled", "make_ready"]

COMPUTE: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (
        linear.matmul,
        linear.matmul_act,
        linear.gemv,
        quantised.matmul_int8,
        quantised.matmul_fp8,
        quantised.matmul_int4,
        norm.sum_squares,
        norm.rms_scale,
        norm.l2_scale,
        norm.moments,
        norm.layer_scale,
        rotary.rope,
        rotary.rotate,
        rotary.split_heads,
        rotary.scale_queries,
        attention.kv_append,
        attention.attention_scores,
        attention.attention_max,
        attention.attention_exp,
        attention.attention_max_by_column,
        attention.attention_exp_by_column,
        attention.attention_values,
        attention.attention_online,
        attention.sink_sums,
        attention.attention_finish,
        elementwise.residual_add,
        elementwise.add,
        elementwise.add_bias,
        elementwise.scale,
        elementwise.store,
        elementwise.store_part,
        elementwise.copy,
        elementwise.copy_weights,
        elementwise.soft_cap,
        latent.place_heads,
        latent.place_rotated,
        latent.pick_heads,
        latent.turn_block,
        elementwise.activate,
        vocabulary.embedding_lookup,
        vocabulary.add_positions,
        vocabulary.argmax_fold,
        vocabulary.pair_indices,
        router.router_place,
        router.router_scores,
        router.router_correct,
        router.router_limit,
        router.router_choose,
        experts.expert_pairs,
        experts.expert_in,
        experts.expert_out,
        experts.expert_bias,
        quantised_experts.expert_in_quantised,
        quantised_experts.expert_out_quantised,
    )
}
"""Kernels of the calling convention that the package docstring describes."""

TRANSFER: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (
        transfers.along_rows,
        transfers.along_columns,
        transfers.along_columns_counted,
        transfers.cache_shift,
        transfers.hand_over,
    )
}
"""Kernels that move words between PEs; each has its own operands."""

TIMING: dict[str, Callable[..., None]] = {wavelet.run_wavelets.__name__: wavelet.run_wavelets}
"""Kernels that count cycles."""


class Compiled(NamedTuple):
    """One kernel, compiled lazily by numba at its first call for each combination of element types."""

    serial: Callable[..., None]
    parallel: Callable[..., None]


@cache
def compiled(name: str) -> Compiled:
    """The kernel ``name`` of COMPUTE, TRANSFER or TIMING. Raises KeyError for an unknown name."""
    function = (COMPUTE | TRANSFER | TIMING)[name]
    return Compiled(serial=kernel(function), parallel=parallel_kernel(function))

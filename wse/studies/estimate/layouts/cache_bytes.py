"""SRAM that weights leave for KV caches on all PEs together, and the bytes that one user needs."""

from __future__ import annotations

from wse.compiler.passes.allocate import free_bytes_per_pe
from wse.models.tensors.model_tensors import kv_bytes_per_token
from wse.number_formats import ELEMENT_BYTES
from wse.studies.estimate.prepare import PreparedEstimate


def free_cache_bytes(prepared_estimate: PreparedEstimate) -> int:
    """Return how many bytes of SRAM remain for KV caches on all wafers of one replica.

    Code, stack, vendor runtime and weights are subtracted. Buffers are not, so part of these bytes
    is not available. The result is negative if the weights do not fit.
    """
    p = prepared_estimate
    pes = p.options.wafers * p.wafer.mesh_rows * p.wafer.mesh_cols
    return pes * free_bytes_per_pe(p.wafer, p.software) - p.weight_bytes


def user_cache_bytes(prepared_estimate: PreparedEstimate) -> int:
    """Return the size of the KV caches of one user's prompt and answer, in bytes."""
    p = prepared_estimate
    tokens = p.prompt_len + p.new_tokens
    return tokens * kv_bytes_per_token(p.spec, ELEMENT_BYTES[p.options.activation_type])


def users_by_bytes(prepared_estimate: PreparedEstimate) -> int:
    """Return how many users' KV caches would fit if no SRAM were needed for buffers or padding."""
    return max(0, free_cache_bytes(prepared_estimate) // user_cache_bytes(prepared_estimate))

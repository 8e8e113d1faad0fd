"""Limits on users and wafers that follow from the bytes of weights and KV caches alone."""

from __future__ import annotations

import math
from typing import Final

from wse.compiler.passes.allocate import free_bytes_per_pe
from wse.models.tensors.model_tensors import kv_bytes_per_token
from wse.number_formats import ELEMENT_BYTES
from wse.studies.options.basis import PreparedPlacement

MIN_PLANNED: Final = 0.25
"""Smallest fraction of `users_by_bytes` for whose KV caches a search or a version divides wafers."""


def users_by_bytes(prepared_placement: PreparedPlacement) -> int:
    """Return an upper limit on the number of users of one replica whose KV caches fit.

    The limit assumes that the SRAM contains only weights and KV caches, without buffers or padding.
    """
    p = prepared_placement
    free_bytes = p.options.wafers * _free_bytes_per_wafer(p) - p.weight_bytes - _cache_bytes(p, 0)
    return max(0, free_bytes // (_cache_bytes(p, 1) - _cache_bytes(p, 0)))


def min_planned_users(prepared_placement: PreparedPlacement) -> int:
    """Return `MIN_PLANNED` of `users_by_bytes`, rounded up."""
    return math.ceil(MIN_PLANNED * users_by_bytes(prepared_placement))


def wafers_by_bytes(prepared_placement: PreparedPlacement, users: int) -> int:
    """Return the minimum number of wafers whose SRAM can hold a model and its users' KV caches.

    More wafers may be needed, because buffers and padding are not counted.
    """
    p = prepared_placement
    return math.ceil((p.weight_bytes + _cache_bytes(p, users)) / _free_bytes_per_wafer(p))


def _free_bytes_per_wafer(prepared_placement: PreparedPlacement) -> int:
    """Return the bytes of a wafer's SRAM that are free for weights and KV caches."""
    wafer = prepared_placement.wafer
    return wafer.mesh_rows * wafer.mesh_cols * free_bytes_per_pe(wafer, prepared_placement.software)


def _cache_bytes(prepared_placement: PreparedPlacement, users: int) -> int:
    """Return the size of the KV caches of users' prompts and answers, in bytes; a shared prefix counts once."""
    p = prepared_placement
    tokens = p.options.cache_tokens_of(users, p.tokens_per_user)
    return tokens * kv_bytes_per_token(p.spec, ELEMENT_BYTES[p.options.activation_type])

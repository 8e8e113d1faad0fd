"""SRAM of the PEs that a layout does not use, as room for parked KV caches."""

from __future__ import annotations

import math

import numpy as np

from wse.program.program import Program
from wse.studies.estimate.drafts.result import DraftRegionResult
from wse_mappings.mesh.placement import Rect


def spare_kv_tokens(program: Program, draft: DraftRegionResult | None, kv_bytes_per_token: float) -> int:
    """Return how many tokens of KV caches fit on PEs that store no part of a model.

    The KV cache of a layer can be stored only on a wafer that computes this layer, so the wafer
    with the smallest room limits the number of tokens. The result is 0 if no wafer has KV caches.

    Args:
        program: The compiled model.
        draft: PEs that store a draft model on the same wafers, or None.
        kv_bytes_per_token: Bytes that a token adds to the KV caches of all layers.
    """
    is_used = np.zeros((program.wafers, program.wafer_rows, program.wafer_cols), bool)
    kv_bytes = np.zeros(program.wafers)
    for stage, user_bytes in zip(program.stages, program.user_bytes(), strict=True):
        for wafer in stage.wafers:
            is_used[wafer][_slices(stage.rect)] = True
            kv_bytes[wafer] += user_bytes.kv * stage.rect.rows * stage.rect.cols
    if draft is not None:
        pes = is_used[draft.wafer].T if program.is_transposed else is_used[draft.wafer]
        pes[_slices(draft)] = True
    spare_bytes = (~is_used).sum(axis=(1, 2)) * storage_bytes_per_pe(program)
    has_kv = kv_bytes > 0
    tokens = spare_bytes[has_kv] * kv_bytes.sum() / (kv_bytes_per_token * kv_bytes[has_kv])
    return math.floor(tokens.min(initial=math.inf)) if has_kv.any() else 0


def storage_bytes_per_pe(program: Program) -> int:
    """Return the SRAM of a PE that only stores KV caches, in bytes.

    Its code, stack and runtime are assumed to need as much SRAM as those of a PE with layers.
    """
    return program.sram_bytes_per_pe - min(stage.sram_base_byte for stage in program.stages)


def _slices(rect: Rect | DraftRegionResult) -> tuple[slice, slice]:
    """Return the rows and columns of a rectangle of PEs."""
    return slice(rect.row, rect.row + rect.rows), slice(rect.col, rect.col + rect.cols)

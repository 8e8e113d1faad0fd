"""The options of a race as those of an estimate on wafers, and on GPUs."""

from __future__ import annotations

from dataclasses import replace

from wse.request.estimate_request import EstimateRequest
from wse.request.race_request import RaceRequest


def on_wafers(base: EstimateRequest) -> EstimateRequest:
    """The options without those of GPUs."""
    return replace(base, stack=None, parallelism=None)


def on_gpus(request: RaceRequest, base: EstimateRequest) -> EstimateRequest:
    """The options that GPUs know: model, element type, lengths, drafts, stack."""
    return EstimateRequest(
        model=base.model,
        dtype=base.dtype,
        prompt_len=base.prompt_len,
        new_tokens=base.new_tokens,
        draft=base.draft,
        draft_model=base.draft_model,
        gpu=request.gpu,
        gpus=request.gpus,
        stack=base.stack,
        parallelism=base.parallelism,
        economics=base.economics,
    )

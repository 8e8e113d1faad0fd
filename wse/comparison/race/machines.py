"""The options of a race as those of an estimate on wafers, and on GPUs."""

from __future__ import annotations

from dataclasses import replace

from wse.request.estimate_request import EstimateRequest
from wse.request.race_request import RaceRequest
from wse.serving.prices import prices_of_gpu, prices_without_gpus


def on_wafers(request: RaceRequest, base: EstimateRequest) -> EstimateRequest:
    """Return the options without those of GPUs."""
    return replace(base, stack=None, parallelism=None, price=prices_without_gpus(base.price, [request.gpu]))


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
        price=prices_of_gpu(base.price, request.gpu),
    )

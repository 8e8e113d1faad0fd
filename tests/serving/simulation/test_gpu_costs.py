"""Passes on GPUs as a simulation asks for them, against those of the GPU model."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from wse.models.load import load_model
from wse.serving.gpus.load import load_gpu, load_stack
from wse.serving.gpus.server import GpuServer
from wse.serving.gpus.weights import FORMATS
from wse.serving.simulation.gpu_costs import GpuCosts
from wse.serving.simulation.pass_costs import PromptPart


@cache
def costs() -> GpuCosts:
    spec, gpu = load_model("llama-3-8b").spec, load_gpu("h100")
    stack = load_stack("vllm", gpu.generation)
    return GpuCosts(server=GpuServer(spec=spec, weights=FORMATS["bfloat16"], gpu=gpu, stack=stack), context=2048)


def test_round_with_drafts_verifies_them_and_makes_them() -> None:
    """For all users together: a pass over one token more than are drafted, and as many of the head."""
    server = costs().server
    drafted = replace(costs(), server=replace(server, draft=server.draft_head), draft_tokens=3)
    head_s = server.draft_head.draft_s(7, 1, 500)
    assert drafted.round_s(7, 500, ()) == pytest.approx(server.verify_s(7, 4, 500) + 3 * head_s)
    assert drafted.round_s(0, 0, [PromptPart(300, 64)]) == costs().round_s(0, 0, [PromptPart(300, 64)])
    assert 1 / 32 < head_s / server.decode_s(7, 500) < 1 / 4  # one of 32 layers, and the table

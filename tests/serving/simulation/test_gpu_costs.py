"""Passes on GPUs as a simulation asks for them, against those of the GPU model."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.support.plain_workload import plain_workload
from wse.models.load import load_model
from wse.serving.gpus.load import load_gpu, load_stack
from wse.serving.gpus.server import GpuServer
from wse.serving.gpus.weights import FORMATS
from wse.serving.simulation.continuous.machine import simulate_continuous
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.gpu_costs import GpuCosts
from wse.serving.simulation.pass_costs import PromptPart
from wse.serving.simulation.statistics import per_token_s


@cache
def costs() -> GpuCosts:
    spec, gpu = load_model("llama-3-8b").spec, load_gpu("h100")
    stack = load_stack("vllm", gpu.generation)
    return GpuCosts(server=GpuServer(spec=spec, weights=FORMATS["bfloat16"], gpu=gpu, stack=stack), context=2048)


def test_user_alone_has_tokens_at_the_pace_of_decoding() -> None:
    """Passes are linear in the context, as the grid takes them to be."""
    work = plain_workload(np.zeros(1), np.array([1000]), np.array([201]))
    outcome = simulate_continuous(work, costs(), ContinuousPolicy(max_users=8, prompt_tokens=2048))
    passes = [costs().server.decode_s(1, 1000 + number) for number in range(200)]
    assert per_token_s(outcome)[0] == pytest.approx(np.mean(passes), rel=1e-6)
    assert outcome.first_s[0] == pytest.approx(costs().server.prefill_s(1000))


def test_round_with_drafts_verifies_them_and_makes_them() -> None:
    """For all users together: a pass over one token more than are drafted, and as many of the head."""
    server = costs().server
    drafted = replace(costs(), server=replace(server, draft=server.draft_head), draft_tokens=3)
    head_s = server.draft_head.draft_s(7, 1, 500)
    assert drafted.round_s(7, 500, ()) == pytest.approx(server.verify_s(7, 4, 500) + 3 * head_s)
    assert drafted.round_s(0, 0, [PromptPart(300, 64)]) == costs().round_s(0, 0, [PromptPart(300, 64)])
    assert 1 / 32 < head_s / server.decode_s(7, 500) < 1 / 4  # one of 32 layers, and the table

"""The users that fit on GPUs: one number in estimates, in comparisons and as the batch slots of a simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import wse
from wse.errors import BadInput
from wse.studies.compare.machine import GPU
from wse.studies.compare.plan.result import PlanResult

MACHINES: tuple[dict[str, Any], ...] = (
    {"model": "llama-3-8b", "gpu": "h100"},
    {"model": "gpt-oss-20b", "gpu": "h100"},
    {"model": "gemma-2-9b", "gpu": "h100"},
    {"model": "gemma-2-9b", "gpu": "h100", "draft": "0.9,0.8"},
    {"model": "deepseek-r1", "gpu": "h200", "gpus": 8},
    {"model": "deepseek-r1", "gpu": "h200", "gpus": 8, "parallelism": "data"},
)
WINDOWED: dict[str, Any] = {"model": "gpt-oss-20b", "gpu": "h100", "prompt_len": 4096, "new_tokens": 200}


@pytest.mark.parametrize("lengths", [(100, 30), (1024, 1024), (6000, 1001)])
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: "-".join(map(str, machine.values())))
def test_batch_slots_are_the_users_that_fit(machine: dict[str, Any], lengths: tuple[int, int]) -> None:
    options = machine | dict(zip(("prompt_len", "new_tokens"), lengths, strict=True))
    users = wse.estimate(**options).serving.max_users
    served = wse.serve_sim(**options, requests=9)
    assert served.inputs["max_users"] == served.machine.kv_capacity_users == users
    with pytest.raises(BadInput, match=f"--max-users {users + 1}: .* give at most {users}, or more"):
        wse.serve_sim(**options, requests=9, max_users=users + 1)


def test_a_comparison_has_the_users_of_an_estimate() -> None:
    """A small model's caches leave room for more than the stack takes."""
    options: dict[str, Any] = {"prompt_len": 8, "new_tokens": 8, "users": 3000}
    compared = wse.compare(
        "story", **options, gpu=["h100"], gpus=1, mesh="16x16", mapping="region", schedule="baseline", jobs=1
    )
    assert isinstance(compared, PlanResult)
    row = next(row for row in compared.rows if row.kind == GPU)
    estimated = wse.estimate("story", gpu="h100", **options, replicas=3).serving
    assert row.max_users / row.replicas == estimated.max_users / estimated.replicas == 1024


def test_requests_in_flight_take_no_more_of_caches_than_windows_keep() -> None:
    """Half of the layers have windows of 128 tokens; without them room would be for about half as many users."""
    served = wse.serve_sim(**WINDOWED, requests=500, load=0.3)
    room = served.machine.kv_capacity_tokens
    assert served.machine.kv_capacity_users == 1024 > 1.7 * room / 4304
    in_flight = served.served.little.in_system  # nobody waits at such a load
    assert served.served.use.kv == pytest.approx(in_flight * (4304 + 128) / 2 / room, rel=0.05)


def test_users_may_be_as_many_as_replicas_take() -> None:
    assert wse.estimate(**WINDOWED, users=2500, replicas="auto").serving.replicas == 3


def test_the_limit_of_a_stack_can_be_set(tmp_path: Path) -> None:
    stack = tmp_path / "own.toml"
    stack.write_text('base = "vllm"\nmax_sequences = 100\n')
    assert wse.estimate(**WINDOWED, stack=stack).serving.max_users == 100
    assert wse.serve_sim(**WINDOWED, stack=stack, requests=9).inputs["max_users"] == 100

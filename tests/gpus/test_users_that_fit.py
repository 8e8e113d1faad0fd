"""Users that fit on GPUs: caches by arithmetic, and the limit of the stack."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.gpus.test_roofline import server
from wse.serving.gpus.server import GpuServer

SERVERS = (
    server("llama-3-8b", "bfloat16"),
    server("gpt-oss-20b", "mxfp4"),
    server("gemma-2-27b", "bfloat16", 2),
    server("llama-4-scout", "bfloat16", 4, "h200"),
    server("deepseek-r1", "fp8", 8, "h200"),
)


@given(st.sampled_from(SERVERS), st.integers(1, 200_000), st.integers(0, 5_000))
def test_users_that_fit_do_not_rise_with_context(one: GpuServer, tokens: int, more: int) -> None:
    few, many = (one.users_that_fit(context) for context in (tokens + more, tokens))
    assert few <= many <= one.max_sequences


def test_windows_and_whole_blocks_by_hand() -> None:
    """12 of 24 layers keep 128 tokens; 1,000 tokens are 63 blocks of 16."""
    one = server("gpt-oss-20b", "mxfp4")
    assert one.kv_room_tokens(1000) == (63 * 16 + 128) / 2
    assert one.kv_room_tokens(128) == 128
    assert one.kv_room_tokens(1) == 16
    assert one.users_that_fit(100_000) == one.kv_capacity_tokens // ((100_000 + 128) // 2)


def test_stacks_have_their_own_limits_and_a_scheduler_for_each_gpu_with_attention_by_data() -> None:
    limits = {stack: server("gpt-oss-20b", "mxfp4", stack=stack).users_that_fit(64) for stack in ("vllm", "vllm-2024")}
    assert limits == {"vllm": 1024, "vllm-2024": 256}
    by_data = server("deepseek-r1", "fp8", 8, "h200", attention_by_data=True, whole_experts=True)
    assert by_data.users_that_fit(64) == 8 * 1024


def test_caches_of_a_draft_take_room() -> None:
    plain = server("gemma-2-9b", "bfloat16")
    drafted = replace(plain, draft=plain.draft_head)
    assert drafted.kv_room_tokens(4096) == plain.kv_room_tokens(4096) == 4096, "its window is as long"
    assert drafted.users_that_fit(4096) < plain.users_that_fit(4096)

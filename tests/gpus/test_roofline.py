"""Tests of rooflines of passes against arithmetic by hand, and of the times that serving stacks add to them."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wse.models.catalogue import CONFIGURATIONS
from wse.models.configs.config import read_config
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import parameter_count, parameters_per_token
from wse.program.routing import EVEN, RoutingDistribution, expected_experts, zipf_routing
from wse.serving.gpus.load import load_gpu, load_stack
from wse.serving.gpus.roofline import Parallelism, Roofline, RooflineModel, Tokens
from wse.serving.gpus.server import GpuServer
from wse.serving.gpus.weights import FORMATS, model_bytes, weight_format


def spec_of(name: str) -> ModelSpec:
    return read_config(CONFIGURATIONS[name])


def roofline(
    name: str, weights: str, *groups: Tokens, parallelism: Parallelism | None = None, gpu: str = "h100"
) -> Roofline:
    """Return the roofline of a pass over groups of tokens."""
    return RooflineModel(spec_of(name), FORMATS[weights], load_gpu(gpu), parallelism or Parallelism()).of(groups)


def server(
    name: str, weights: str, gpus: int = 1, gpu: str = "h100", stack: str = "vllm", **parallelism: bool
) -> GpuServer:
    """Return a server of `gpus` GPUs with a model, a weight format and a serving stack."""
    spec = load_gpu(gpu)
    return GpuServer(
        spec=spec_of(name),
        weights=FORMATS[weights],
        gpu=spec,
        stack=load_stack(stack, spec.generation),
        parallelism=Parallelism(gpus=gpus, **parallelism),
    )


def test_8b_in_16_bits_follows_arithmetic_by_hand() -> None:
    """A pass reads all weights except the embedding table, and 131,072 bytes of cache per token of context.

    It computes two operations per weight.
    """
    pass_ = roofline("llama-3-8b", "bfloat16", Tokens(users=4, new=1, context=1000))
    spec = spec_of("llama-3-8b")
    weights = parameters_per_token(spec)
    assert pass_.weights_s * 3.35e12 == pytest.approx(2 * weights)
    assert pass_.cache_s * 3.35e12 == pytest.approx(4 * 1000 * 131_072)
    assert pass_.products_s * 989e12 == pytest.approx(2 * 4 * (weights), rel=1e-4)
    assert pass_.row_s * 989e12 == pytest.approx(4 * 1000 * 32 * 4 * 4096)
    assert pass_.rows_s == pass_.experts_s == pass_.four_bit_s == 0
    assert pass_.vector_bytes == 4 * 4096 * 2
    assert model_bytes(spec, FORMATS["bfloat16"]) == 2 * parameter_count(spec)


def test_linear_attention_follows_arithmetic_by_hand() -> None:
    """12 layers have caches with 2 heads of 256 features; 36 layers have a float32 state of 32 x 128 x 128.

    These 36 layers also store the last three inputs of a convolution with 8,192 channels.
    """
    state = 36 * (4 * 32 * 128 * 128 + 2 * 3 * 8192)
    pass_ = roofline("qwen3-next-80b-a3b", "bfloat16", Tokens(users=4, new=1, context=1000))
    assert pass_.cache_s * 3.35e12 == pytest.approx(4 * (1000 * 12 * 2 * 2 * 256 * 2 + 2 * state))
    assert pass_.row_s * 989e12 == pytest.approx(4 * (12 * 1000 * 4 * 16 * 256 + 36 * 6 * 32 * 128 * 128))
    assert pass_.cache_steps == 12 * 1000
    on_eight = server("qwen3-next-80b-a3b", "bfloat16", 8)
    assert on_eight.user_cache_bytes(1600) == pytest.approx(1600 * 12 * 2 * 2 * 256 * 2 * 4 + state)


def test_other_heads_in_windows_follow_arithmetic_by_hand() -> None:
    """Gemma 4: 10 layers have 4 KV heads of 512 features; 50 layers have 16 of 256 features and windows of 1,024."""
    full, windows = 10 * 2 * 4 * 512 * 2, 50 * 2 * 16 * 256 * 2  # bytes per token
    pass_ = roofline("gemma-4-31b", "bfloat16", Tokens(users=4, new=1, context=2000))
    assert pass_.cache_s * 3.35e12 == pytest.approx(4 * (2000 * full + 1024 * windows))
    assert pass_.row_s * 989e12 == pytest.approx(4 * 4 * 32 * (10 * 2000 * 512 + 50 * 1024 * 256))
    on_eight = server("gemma-4-31b", "bfloat16", 8)
    assert on_eight.kv_bytes_per_token == 2 * full + windows  # two GPUs store the same KV head of full attention
    assert on_eight.user_cache_bytes(1600) == 1600 * 2 * full + 1024 * windows


def test_verified_tokens_all_have_logits() -> None:
    prompt, verified = (Tokens(users=2, new=5, context=100, outputs=outputs) for outputs in (1, 5))
    more = (
        roofline("llama-3-8b", "bfloat16", verified).products_s - roofline("llama-3-8b", "bfloat16", prompt).products_s
    )
    assert more * 989e12 == pytest.approx(2 * 2 * 4 * 128_256 * 4096)


@pytest.mark.parametrize("users", [1, 3, 64])
def test_experts_are_read_for_the_expected_number_of_tokens(users: int) -> None:
    """T tokens use n (1 - (1 - k/n)^T) of n = 128 experts, with k = 4 per token; 36 layers in 4.25 bits."""
    pass_ = roofline("gpt-oss-120b", "mxfp4", Tokens(users=users, new=1, context=1))
    touched = 128 * (1 - (1 - 4 / 128) ** users)
    assert pass_.experts_s * 3.35e12 == pytest.approx(36 * touched * 3 * 2880 * 2880 * 4.25 / 8, rel=1e-9)


def test_whole_experts_are_read_unevenly() -> None:
    tokens = Tokens(users=16, new=1, context=1)
    cut, whole = (
        roofline("gpt-oss-120b", "mxfp4", tokens, parallelism=Parallelism(gpus=8, whole_experts=choice)).experts_s
        for choice in (False, True)
    )
    assert cut < whole <= roofline("gpt-oss-120b", "mxfp4", tokens).experts_s / 8 * 128 / 50
    many = Tokens(users=10_000, new=1, context=1)
    assert roofline(
        "gpt-oss-120b", "mxfp4", many, parallelism=Parallelism(gpus=8, whole_experts=True)
    ).experts_s == pytest.approx(roofline("gpt-oss-120b", "mxfp4", many).experts_s / 8)


def test_latent_cache_is_one_vector_and_replicated_on_every_gpu() -> None:
    one, eight = (
        roofline(
            "deepseek-r1", "fp8", Tokens(users=2, new=1, context=500), parallelism=Parallelism(gpus=gpus), gpu="b200"
        )
        for gpus in (1, 8)
    )
    assert one.cache_s * 7.7e12 == pytest.approx(2 * 500 * 61 * 576)
    assert eight.cache_s == one.cache_s
    by_data = roofline(
        "deepseek-r1",
        "fp8",
        Tokens(users=8, new=1, context=500),
        parallelism=Parallelism(gpus=8, attention_by_data=True),
        gpu="b200",
    )
    assert by_data.cache_s == pytest.approx(one.cache_s / 2), "each GPU has one of eight users"
    assert by_data.weights_s > eight.weights_s


def test_window_limits_the_cache_that_is_read_and_multiplied() -> None:
    """Every second layer of gpt-oss has a window of 128 tokens; it has 64 query heads and 8 KV heads of 64 features."""
    for context, tokens in ((100, 36 * 100), (10_000, 18 * (128 + 10_000))):
        pass_ = roofline("gpt-oss-120b", "bfloat16", Tokens(users=1, new=1, context=context))
        assert pass_.cache_s * 3.35e12 == pytest.approx(tokens * 2 * 8 * 64 * 2)
        assert pass_.row_s * 989e12 == pytest.approx(tokens * 4 * 64 * 64)


def test_kv_heads_are_divided_over_at_most_as_many_gpus() -> None:
    caches = [
        roofline(
            "llama-3.1-70b", "fp8", Tokens(users=1, new=1, context=100), parallelism=Parallelism(gpus=gpus)
        ).cache_s
        for gpus in (1, 4, 8, 16)
    ]
    assert [round(caches[0] / cache) for cache in caches] == [1, 4, 8, 8]


def test_pass_over_a_prompt_is_causal() -> None:
    """Token i attends to the i tokens before it, (n - 1) / 2 on average; no cache is read for an empty context."""
    pass_ = roofline("llama-3-8b", "bfloat16", Tokens(users=1, new=101, context=0))
    assert pass_.cache_s == 0
    assert (pass_.row_s + pass_.rows_s) * 989e12 == pytest.approx(101 * 50 * 32 * 4 * 4096)


def test_four_bit_formats_of_mixtures_store_only_the_experts() -> None:
    spec = spec_of("gpt-oss-120b")
    assert weight_format(spec).name == "mxfp4"
    experts = 36 * 128 * 3 * 2880 * 2880
    others = parameter_count(spec) - experts
    assert model_bytes(spec, FORMATS["mxfp4"]) == experts * 4.25 / 8 + others * 2
    dense = roofline("llama-3.1-70b", "nvfp4", Tokens(users=1, new=1, context=1), gpu="b200")
    assert 0.8 < dense.four_bit_s / dense.weights_s < 1, "all weights except the output head"


def test_terms_add_up_and_follow_their_constants() -> None:
    gpu_server = server("llama-3.1-70b", "fp8", 8)
    groups = [Tokens(users=16, new=1, context=1536)]
    time = gpu_server.pass_time(groups)
    assert time.total_s == pytest.approx(gpu_server.decode_s(16, 1536))
    assert time.launch_s == pytest.approx(80 * gpu_server.stack.layer_s)
    assert time.all_reduce_s == pytest.approx(160 * 3 * gpu_server.stack.all_reduce_s)
    slower = replace(gpu_server, stack=replace(gpu_server.stack, layer_s=2 * gpu_server.stack.layer_s))
    assert slower.decode_s(16, 1536) - gpu_server.decode_s(16, 1536) == pytest.approx(80 * gpu_server.stack.layer_s)
    assert gpu_server.roofline(groups).bound_s < time.total_s


def test_fraction_of_a_user_reads_a_fraction_of_a_cache() -> None:
    """A group with a fraction of a user takes that fraction of the time, so times are continuous at 0 users."""
    prompt, few = Tokens(users=1, new=8, context=0), Tokens(users=0.25, new=1, context=1000)
    assert roofline("llama-3-8b", "bfloat16", prompt, few).cache_steps == pytest.approx(32 * 250)
    assert roofline("llama-3-8b", "bfloat16", replace(few, users=3.0)).cache_steps == 32 * 1000


def test_all_reduce_time_is_monotonic_in_the_vector_length() -> None:
    """Over g = 8 GPUs, an all-reduce of up to 16 users moves g - 1 vectors per user.

    From 16 g / 2 users on, it moves 2 (g - 1) / g vectors per user. In between, it takes the time of 16 users.
    """
    stack = replace(server("llama-3.1-70b", "fp8", 8).stack, one_shot_bytes=16 * 8192 * 2)
    eight = replace(server("llama-3.1-70b", "fp8", 8), stack=stack)
    second = 160 / eight.gpu.link_bytes_per_s / stack.link_ratio
    for users, vectors in ((1, 7), (16, 16 * 7), (17, 16 * 7), (64, 16 * 7), (65, 65 * 7 / 4), (1000, 1000 * 7 / 4)):
        time = eight.pass_time([Tokens(users=users, new=1, context=1)])
        assert time.crossing_s == pytest.approx(vectors * 8192 * 2 * second), users
    assert server("llama-3-8b", "fp8").pass_time([Tokens(users=1, new=1, context=1)]).all_reduce_s == 0


def test_capacity_is_the_memory_that_weights_leave() -> None:
    gpu_server = server("llama-3-8b", "bfloat16")
    room = 80 * 2**30 * 0.9 - 2.5e9 - 2 * parameter_count(gpu_server.spec)
    assert gpu_server.kv_capacity_tokens == math.floor(room / 131_072)
    assert gpu_server.users_that_fit(2048) == math.floor(room / 131_072 / 2048)
    windowed = server("gpt-oss-120b", "mxfp4", 2)
    assert windowed.users_that_fit(100_000) > 1.9 * windowed.kv_capacity_tokens // 100_000


SERVERS = (
    server("llama-3-8b", "bfloat16"),
    server("gpt-oss-20b", "mxfp4"),
    server("gemma-2-27b", "bfloat16", 2),
    server("llama-4-scout", "bfloat16", 4, "h200"),
    server("deepseek-r1", "fp8", 8, "h200"),
)


@given(st.sampled_from(SERVERS), st.integers(1, 200_000), st.integers(0, 5_000))
def test_users_that_fit_do_not_rise_with_context(gpu_server: GpuServer, tokens: int, more: int) -> None:
    few, many = (gpu_server.users_that_fit(context) for context in (tokens + more, tokens))
    assert few <= many <= gpu_server.max_sequences


def test_cache_room_counts_windows_and_whole_blocks() -> None:
    """12 of 24 layers keep 128 tokens, and 1,000 tokens occupy 63 blocks of 16."""
    gpu_server = server("gpt-oss-20b", "mxfp4")
    assert gpu_server.kv_room_tokens(1000) == (63 * 16 + 128) / 2
    assert gpu_server.kv_room_tokens(128) == 128
    assert gpu_server.kv_room_tokens(1) == 16
    assert gpu_server.users_that_fit(100_000) == gpu_server.kv_capacity_tokens // ((100_000 + 128) // 2)


def test_stacks_limit_users_per_scheduler() -> None:
    limits = {stack: server("gpt-oss-20b", "mxfp4", stack=stack).users_that_fit(64) for stack in ("vllm", "vllm-2024")}
    assert limits == {"vllm": 1024, "vllm-2024": 256}
    by_data = server("deepseek-r1", "fp8", 8, "h200", attention_by_data=True, whole_experts=True)
    assert by_data.users_that_fit(64) == 8 * 1024


def test_draft_caches_need_memory() -> None:
    plain = server("gemma-2-9b", "bfloat16")
    drafted = replace(plain, draft=plain.draft_head)
    assert drafted.kv_room_tokens(4096) == plain.kv_room_tokens(4096) == 4096, "the window is as long as the context"
    assert drafted.users_that_fit(4096) < plain.users_that_fit(4096)


@pytest.mark.parametrize("whole_experts", [False, True])
def test_popular_experts_shorten_the_reading_of_experts(whole_experts: bool) -> None:  # noqa: FBT001
    """If matrices are split, compare with the experts that 16 tokens use, divided by those with even routing."""
    spec, gpu, layout = spec_of("gpt-oss-120b"), load_gpu("h100"), Parallelism(gpus=4, whole_experts=whole_experts)
    layers, tokens = tuple(range(spec.layer_count)), Tokens(users=16, new=1, context=1000)

    def experts_s(routing: RoutingDistribution) -> float:
        return RooflineModel(spec, FORMATS["mxfp4"], gpu, layout, routing).of([tokens]).experts_s

    routings = [zipf_routing(layers, 128, 4, exponent) for exponent in (0.0, 1e-6, 0.5, 1.0, 2.0)]
    times = [experts_s(routing) for routing in routings]
    assert times[0] == experts_s(EVEN) == pytest.approx(times[1])
    assert times[1:] == sorted(times[1:], reverse=True)
    if not whole_experts:
        used = [expected_experts(128, 4, 16, routing) for routing in routings]
        assert [time / times[0] for time in times] == pytest.approx([count / used[0] for count in used])


@pytest.mark.parametrize("gpus", [2, 8, 64])
def test_no_gpu_reads_more_experts_than_it_stores(gpus: int) -> None:
    spec, layout = spec_of("gpt-oss-120b"), Parallelism(gpus=gpus, whole_experts=True)
    routing = zipf_routing(tuple(range(spec.layer_count)), 128, 4, 0.01)
    model = RooflineModel(spec, FORMATS["mxfp4"], load_gpu("h100"), layout, routing)
    expert_bytes = sum(kind.count * kind.expert for kind in model.kinds) * FORMATS["mxfp4"].bits / 8
    stored_s = 128 / gpus * expert_bytes / load_gpu("h100").hbm_bytes_per_s
    times = [model.of([Tokens(users=users, new=1, context=1)]).experts_s for users in (1, 8, 32, 128, 512)]
    assert times == sorted(times)
    assert times[-1] == pytest.approx(stored_s)

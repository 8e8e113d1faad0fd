"""Tests of the ASGI application of ``wse serve`` on a machine that needs a few milliseconds per token."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest

from tests.support.plain_costs import PlainCosts
from tests.support.plain_workload import plain_workload
from wse.serving.simulation.continuous.live_machine import LiveMachine
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.kv.kv_tiers import KvTier
from wse.serving.simulation.live_replicas import LiveReplicas

pytest.importorskip("prometheus_client", reason="needs pip install 'wse[serve]'")
pytest.importorskip("starlette", reason="needs pip install 'wse[serve]'")
httpx = pytest.importorskip("httpx", reason="needs pip install 'wse[test]'")

from wse.studies.endpoint.app import endpoint_app  # noqa: E402
from wse.studies.endpoint.bodies import CompletionBody  # noqa: E402
from wse.studies.endpoint.service import Service  # noqa: E402

COSTS = PlainCosts(pass_s=0.01, prompt_s=0.001, chunk_tokens=1, kv_capacity_tokens=2_000)
Result = TypeVar("Result")


def make_service(
    *,
    max_users: int = 4,
    speed: float = 20.0,
    texts: list[list[str]] | None = None,
    prefix_cache: bool = False,
    costs: PlainCosts = COSTS,
    kv_tiers: tuple[KvTier, ...] = (),
) -> Service:
    """Return a service with a context of 200 tokens; `texts` are the answers as lists of tokens."""
    template = plain_workload(np.zeros(1), np.array([20]), np.array([30]))
    policy = ContinuousPolicy(max_users=max_users, prompt_tokens=64, prefix_cache=prefix_cache, kv_tiers=kv_tiers)
    return Service(
        LiveReplicas([LiveMachine(template, costs, policy)]), model="tiny", context=200, speed=speed, texts=texts
    )


def with_client(use: Callable[[Any], Awaitable[Result]], service: Service | None = None) -> Result:
    """Call `use` with an HTTP client of a service, by default a new one, and return its result."""

    async def run() -> Result:
        transport = httpx.ASGITransport(endpoint_app(service or make_service()), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://wse") as client:
            return await use(client)

    return asyncio.run(run())


def post(path: str, body: Any, service: Service | None = None) -> Any:
    """Send one POST request and return the response; a body that is no text is encoded as JSON."""
    content = body if isinstance(body, str) else json.dumps(body)
    return with_client(lambda client: client.post(path, content=content), service)


def events(response: Any) -> list[Any]:
    """Return the decoded events of a streamed response, which must end with [DONE]."""
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_completion_repeats_the_prompt() -> None:
    body = {"model": "tiny", "prompt": "Once upon a time", "max_tokens": 6, "ignore_eos": True}
    answer = post("/v1/completions", body).json()
    assert answer["object"] == "text_completion"
    assert answer["choices"][0]["text"] == "Once upon a timeOnce upo"
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"] == {"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 10}


def test_chat_is_answered_with_a_given_text() -> None:
    messages = [
        {"role": "system", "content": "Be kind"},
        {"role": "user", "content": [{"type": "text", "text": "Tell me"}]},
    ]
    body = {"model": "tiny", "messages": messages, "max_completion_tokens": 2, "temperature": 0.5}
    answer = post("/v1/chat/completions", body, make_service(texts=[["The ", "end", " of ", "all"]])).json()
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "The end"}
    assert answer["usage"]["prompt_tokens"] == 4  # 14 characters


def test_answers_use_several_texts_one_after_another() -> None:
    service = make_service(texts=[["One"], ["Two"]])
    body = CompletionBody(model="tiny", prompt="Tell me")

    async def texts() -> list[list[str]]:
        return [[*service.begin(body).text.pieces] for _ in range(3)]

    assert asyncio.run(texts()) == [["One"], ["Two"], ["One"]]


@pytest.mark.parametrize("includes_usage", [True, False])
def test_stream_has_role_finish_reason_and_requested_usage(*, includes_usage: bool) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Once upon a time"}], "stream": True}
    chunks = events(post("/v1/chat/completions", body | {"stream_options": {"include_usage": includes_usage}}))
    if includes_usage:
        last = chunks.pop()
        assert last["choices"] == []
        assert last["usage"] == {"prompt_tokens": 4, "completion_tokens": 4, "total_tokens": 8}
    choices = [chunk["choices"][0] for chunk in chunks]
    assert "".join(choice["delta"]["content"] for choice in choices) == "Once upon a time"
    assert [choice["delta"].get("role") for choice in choices] == ["assistant"] + [None] * (len(choices) - 1)
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["stop"]
    assert len({chunk["id"] for chunk in chunks}) == 1


@pytest.mark.parametrize(
    ("body", "status", "param", "code"),
    [
        ('{"model": ', 400, None, None),
        ({"model": "tiny"}, 400, "prompt", None),
        ({"model": "tiny", "prompt": "a", "max_tokens": 0}, 400, "max_tokens", None),
        ({"model": "tiny", "prompt": "a", "n": 2}, 400, "n", None),
        ({"model": "tiny", "prompt": ["a", "b"]}, 400, "prompt", None),
        ({"model": "tiny", "prompt": ""}, 400, None, None),
        ({"model": "tiny", "prompt": [5] * 195, "max_tokens": 6}, 400, None, "context_length_exceeded"),
        (
            {"model": "tiny", "prompt": [5] * 195, "max_tokens": 2_000_000_000, "ignore_eos": True},
            400,
            None,
            "context_length_exceeded",
        ),
        ({"model": "tiny", "prompt": "a", "max_tokens": 2**70, "ignore_eos": True}, 400, "max_tokens", None),
        ({"model": "tiny", "prompt": [2**70]}, 400, "prompt", None),
        ({"model": "tiny", "prompt": "a", "stop": ["a", "b", "c", "d", "e"]}, 400, "stop", None),
        ({"model": "tiny", "prompt": "a", "stop": "a" * 1_025}, 400, "stop", None),
        ({"model": "gpt", "prompt": "a"}, 404, "model", "model_not_found"),
    ],
)
def test_invalid_request_gets_an_error_object_before_an_answer_is_made(
    body: Any, status: int, param: str | None, code: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wse.studies.endpoint.service.answer_text", None)
    response = post("/v1/completions", body)
    error = response.json()["error"]
    assert response.status_code == status
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, code)
    assert error["message"]


def test_usage_and_metrics_state_the_tokens_of_the_prefix_cache() -> None:
    async def use(client: Any) -> tuple[list[int], str]:
        cached_tokens = []
        for prompt in (list(range(70)), list(range(50)) + [1] * 20, list(range(64)), list(range(80))):
            body = {"model": "tiny", "prompt": prompt, "max_tokens": 2}
            usage = (await client.post("/v1/completions", json=body)).json()["usage"]
            cached_tokens.append(usage["prompt_tokens_details"]["cached_tokens"])
        return cached_tokens, (await client.get("/metrics")).text

    cached_tokens, metrics = with_client(use, make_service(prefix_cache=True))
    assert cached_tokens == [0, 48, 48, 64]  # whole blocks of 16 tokens that end before the last one
    assert 'vllm:prefix_cache_queries_total{model_name="tiny"} 284.0' in metrics
    assert 'vllm:prefix_cache_hits_total{model_name="tiny"} 160.0' in metrics
    assert 'vllm:kv_cache_usage_perc{model_name="tiny"} 0.0' in metrics  # prefixes that no request uses do not count


def test_usage_and_metrics_state_the_tokens_loaded_from_tiers() -> None:
    """A cache of 100 tokens stores 64 tokens of the first prompt. The second one needs 72, so it parks 48 of them."""

    async def use(client: Any) -> tuple[list[int], str]:
        cached_tokens = []
        for start in (0, 100, 0, 0):
            body = {"model": "tiny", "prompt": list(range(start, start + 70)), "max_tokens": 2}
            usage = (await client.post("/v1/completions", json=body)).json()["usage"]
            cached_tokens.append(usage["prompt_tokens_details"]["cached_tokens"])
        return cached_tokens, (await client.get("/metrics")).text

    tier = KvTier(name="host", capacity_tokens=1_000, s_per_token=1e-5, latency_s=1e-3)
    service = make_service(prefix_cache=True, costs=replace(COSTS, kv_capacity_tokens=100), kv_tiers=(tier,))
    cached_tokens, metrics = with_client(use, service)
    assert cached_tokens == [0, 0, 64, 64]  # the third prompt loads 48, the last one finds all in the cache
    counts = {"prefix_cache_queries": 4 * 70, "prefix_cache_hits": 16 + 64}
    counts |= {"external_prefix_cache_queries": 4 * 70 - 16 - 64, "external_prefix_cache_hits": 48}
    for name, count in counts.items():
        assert f'vllm:{name}_total{{model_name="tiny"}} {count}.0' in metrics


def test_request_that_fills_the_context_is_answered() -> None:
    stops = ["w", "x" * 1_024, "y", "z"]
    body = {"model": "tiny", "prompt": [5] * 190, "max_tokens": 10, "stop": stops}
    assert post("/v1/completions", body).json()["usage"]["total_tokens"] == 200


def test_too_large_body_is_not_read_completely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wse.studies.endpoint.service.JSON_BYTES", 400)
    sizes = []

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(100):
            sizes.append(1_000)
            yield b" " * sizes[-1]

    response = with_client(lambda client: client.post("/v1/completions", content=parts()))
    assert response.status_code == 413
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert sum(sizes) == 11_000  # the first multiple above 400 + 48 bytes for each of 200 tokens


def test_requests_are_refused_while_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wse.studies.endpoint.service.MAX_BACKLOG", 2)
    body = {"model": "tiny", "prompt": "Once", "max_tokens": 50, "ignore_eos": True}

    async def use(client: Any) -> list[Any]:
        answers = await asyncio.gather(*(client.post("/v1/completions", json=body) for _ in range(5)))
        return [*answers, await client.post("/v1/completions", json=body)]

    *concurrent, later = with_client(use, make_service(max_users=1))
    refusals = [answer.json()["error"] for answer in concurrent if answer.status_code != 200]
    assert [(error["type"], error["code"]) for error in refusals] == [("rate_limit_error", "rate_limit_exceeded")] * 2
    assert [answer.status_code for answer in concurrent].count(429) == 2
    assert later.status_code == 200


def test_wrong_paths_and_methods_get_error_objects() -> None:
    async def use(client: Any) -> list[Any]:
        return [await client.get("/v1/complete"), await client.get("/v1/completions"), await client.get("/health")]

    unknown, method, health = with_client(use)
    assert (unknown.status_code, method.status_code, health.status_code) == (404, 405, 200)
    assert unknown.json()["error"]["type"] == method.json()["error"]["type"] == "invalid_request_error"


def test_models_and_metrics_describe_the_served_requests() -> None:
    async def use(client: Any) -> tuple[Any, dict[str, float]]:
        body = {"model": "tiny", "prompt": [1] * 10, "max_tokens": 5}
        await asyncio.gather(*(client.post("/v1/completions", json=body) for _ in range(3)))
        models = (await client.get("/v1/models")).json()["data"]
        lines = [line for line in (await client.get("/metrics")).text.splitlines() if not line.startswith("#")]
        return models, {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    (model,), metrics = with_client(use)
    label = '{model_name="tiny"}'
    assert (model["id"], model["max_model_len"]) == ("tiny", 200)
    assert metrics[f"vllm:prompt_tokens_total{label}"] == 30
    assert metrics[f"vllm:generation_tokens_total{label}"] == 15
    assert metrics['vllm:request_success_total{finished_reason="length",model_name="tiny"}'] == 3
    assert metrics[f"vllm:num_requests_running{label}"] == metrics[f"vllm:num_requests_waiting{label}"] == 0
    assert metrics[f"vllm:inter_token_latency_seconds_count{label}"] == 12
    first_s = metrics[f"vllm:time_to_first_token_seconds_sum{label}"] / 3
    assert 0.01 <= first_s <= 0.1  # one or two passes of the predicted machine


@pytest.mark.parametrize("stream", [True, False])
def test_disconnected_client_frees_its_slot_for_others(*, stream: bool) -> None:
    service = make_service(max_users=1, speed=5.0)
    body = {"model": "tiny", "prompt": [1] * 10, "max_tokens": 190, "ignore_eos": True, "stream": stream}
    scope = {
        "type": "http", "method": "POST", "path": "/v1/completions", "query_string": b"", "headers": [],
        "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "scheme": "http",
    }  # fmt: skip

    async def use(client: Any) -> Any:
        messages = [{"type": "http.request", "body": json.dumps(body).encode()}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await asyncio.sleep(0.03)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            pass

        disconnected = asyncio.create_task(endpoint_app(service)(scope, receive, send))
        await asyncio.sleep(0.01)
        short = {"model": "tiny", "prompt": "Once", "max_tokens": 1}
        answer = await client.post("/v1/completions", json=short)
        await disconnected
        return answer

    answer = with_client(use, service)
    assert answer.json()["choices"][0]["text"] == "Once"
    metrics = service.metrics.text().decode()
    assert 'request_success_total{finished_reason="abort",model_name="tiny"} 1.0' in metrics
    assert 'kv_cache_usage_perc{model_name="tiny"} 0.0' in metrics

"""Tests of `wse serve` with published clients: they measure the times that the simulation predicts.

The simulation gets the arrival times that the client measured. Real clocks are involved, so medians are compared, and
a measurement is repeated up to twice if the computer was busy.
"""

import asyncio
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tiers import AT_REQUEST

from tests.studies.endpoint.endpoint_process import Measurement, Served, first_token_s, per_token_s

pytestmark = pytest.mark.slow

STREAMS = 32
TOLERANCE, TOLERANCE_S = 0.03, 0.002
"""Maximum difference between measured and predicted medians: relative, or in seconds if that is larger."""
WAFERS = Served(options={"wafers": 1}, prompt_tokens=512, new_tokens=32, speed=0.02)
GPUS = Served(options={"gpu": "h100", "gpus": 8}, prompt_tokens=512, new_tokens=16, speed=0.04)
REPLICAS = replace(GPUS, options={"gpu": "h100", "gpus": 4, "replicas": 2, "prefix_cache": True}, speed=0.01)
MACHINES = [pytest.param(WAFERS, marks=AT_REQUEST, id="wafers"), pytest.param(GPUS, id="gpus")]
MODEL = "llama-3-8b"


async def _stream(client: Any, served: Served, delay_s: float) -> Measurement:
    """Send one request after a delay, and measure its answer."""
    await asyncio.sleep(delay_s)
    sent_s = time.perf_counter()
    stream = await client.completions.create(
        model=MODEL,
        prompt="word" * served.prompt_tokens,
        max_tokens=served.new_tokens,
        stream=True,
        stream_options={"include_usage": True},
    )
    times = []
    async for chunk in stream:
        if chunk.choices:
            times.append(time.perf_counter())
        else:
            assert chunk.usage is not None
            assert chunk.usage.completion_tokens == served.new_tokens
    return Measurement(sent_s, times[0], times[-1])


async def _with_openai(address: str, served: Served, spacing_s: float) -> list[Measurement]:
    """Send STREAMS requests at regular intervals with the `openai` package."""
    import openai

    async with openai.AsyncOpenAI(base_url=address, api_key="none", max_retries=0) as client:
        # two requests that import, connect, and fill the prefix caches of both replicas
        first = await asyncio.gather(*(_stream(client, served, 0.0) for _ in range(2)))
        others = await asyncio.gather(*(_stream(client, served, spacing_s * number) for number in range(STREAMS)))
        return [*first, *others]


async def _with_llmeter(address: str, served: Served) -> list[Measurement]:
    """Send two requests from each of 16 clients with the `llmeter` package."""
    from llmeter.endpoints.openai import OpenAICompletionStreamEndpoint
    from llmeter.runner import Runner

    endpoint = OpenAICompletionStreamEndpoint(model_id=MODEL, base_url=address, api_key="none", max_retries=0)
    payload = {
        "messages": [{"role": "user", "content": "word" * served.prompt_tokens}],
        "max_tokens": served.new_tokens,
        "stream_options": {"include_usage": True},
    }
    result = await Runner(endpoint).run(payload=payload, n_requests=2, clients=16)
    measurements = []
    for response in result.responses:
        assert response.error is None
        assert response.num_tokens_output == served.new_tokens
        sent_s = response.request_time.timestamp()
        measurements.append(
            Measurement(sent_s, sent_s + response.time_to_first_token, sent_s + response.time_to_last_token)
        )
    return measurements


def medians_of(served: Served, measured: list[Measurement]) -> dict[str, tuple[float, float]]:
    """Return (measured median, predicted median) of TTFT and of TPOT, in seconds of real time."""
    predicted = served.predicted(MODEL, measured)
    return {
        "TTFT": (float(np.median(first_token_s(measured))), float(np.median(first_token_s(predicted)))),
        "TPOT": (
            float(np.median(per_token_s(measured, served.new_tokens))),
            float(np.median(per_token_s(predicted, served.new_tokens))),
        ),
    }


def is_close(medians: dict[str, tuple[float, float]]) -> bool:
    return all(
        abs(measured - predicted) <= max(TOLERANCE * predicted, TOLERANCE_S) for measured, predicted in medians.values()
    )


@pytest.mark.parametrize("served", [*MACHINES, pytest.param(REPLICAS, id="replicas")])
def test_openai_client_measures_the_predicted_times(served: Served) -> None:
    pytest.importorskip("openai", reason="30 MB: pip install openai")
    with served.endpoint(MODEL) as address:
        spacing_s = 2.0 / STREAMS
        for _ in range(3):  # other processes of a busy machine may delay a client
            medians = medians_of(served, asyncio.run(_with_openai(address, served, spacing_s)))
            print(medians)  # noqa: T201
            if is_close(medians):
                break
    assert is_close(medians), medians


@pytest.mark.parametrize("served", MACHINES)
def test_llmeter_client_measures_the_predicted_times(served: Served) -> None:
    pytest.importorskip("llmeter", reason="65 MB with its dependencies: pip install llmeter")
    with served.endpoint(MODEL) as address:
        for _ in range(3):  # other processes of a busy machine may delay a client
            medians = medians_of(served, asyncio.run(_with_llmeter(address, served)))
            print(medians)  # noqa: T201
            if is_close(medians):
                break
    assert is_close(medians), medians

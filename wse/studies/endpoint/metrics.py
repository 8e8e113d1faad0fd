"""Metrics of the endpoint in Prometheus format, under the names that vLLM uses.

Durations are those of the predicted machine. With ``--speed 1`` they are also those that clients
see, without the network.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from wse.serving.simulation.live_replicas import LiveReplicas
from wse.studies.endpoint.paced_machine import PacedAnswer

ABORT: Final = "abort"
BUCKETS_S: Final = tuple(digit * 10.0**power for power in range(-5, 3) for digit in (1, 2, 5))
"""Upper ends of the buckets of all histograms of durations: 10 µs to 500 s."""
LABEL: Final = "model_name"


class Metrics:
    """Prometheus metrics of an endpoint: its request and token counts, state and latencies."""

    def __init__(self, model: str, live: LiveReplicas) -> None:
        """Create the metrics.

        Args:
            model: Name of the model, with which all metrics are labelled.
            live: The running simulation. Gauges show its current numbers of running and waiting
                requests, and its KV-cache use.
        """
        registry = self._registry = CollectorRegistry()
        for name, text, function in (
            ("num_requests_running", "Requests in a batch slot.", lambda: live.running_requests),
            ("num_requests_waiting", "Requests that wait for a batch slot.", lambda: live.queue_length),
            ("kv_cache_usage_perc", "Fraction of the KV cache that is reserved.", lambda: live.kv_fraction),
        ):
            Gauge(f"vllm:{name}", text, [LABEL], registry=registry).labels(model).set_function(function)
        self._ends = Counter(
            "vllm:request_success",
            "Requests by the reason of their end.",
            [LABEL, "finished_reason"],
            registry=registry,
        )
        self._model = model
        self._keeps_prefixes = live.prefix_block_tokens is not None
        self._has_kv_tiers = live.has_kv_tiers
        counters = (
            Counter(f"vllm:{name}", text, [LABEL], registry=registry).labels(model)
            for name, text in (
                ("prompt_tokens", "Tokens of prompts."),
                ("generation_tokens", "Tokens of answers."),
                ("prefix_cache_queries", "Tokens of prompts that were looked up in the prefix cache."),
                ("prefix_cache_hits", "Tokens of prompts that were in the prefix cache."),
                ("external_prefix_cache_queries", "Tokens of prompts that were looked up in KV tiers."),
                ("external_prefix_cache_hits", "Tokens of prompts that were loaded from KV tiers."),
            )
        )
        self._prompt_tokens, self._new_tokens, self._cache_queries, self._cache_hits, *tier_counters = counters
        self._tier_queries, self._tier_hits = tier_counters
        self._queue_s, self._first_s, self._between_s, self._total_s = (
            Histogram(f"vllm:{name}_seconds", text, [LABEL], registry=registry, buckets=BUCKETS_S).labels(model)
            for name, text in (
                ("request_queue_time", "Time from arrival to admission."),
                ("time_to_first_token", "Time from arrival to the first token."),
                ("inter_token_latency", "Time between two tokens of an answer."),
                ("e2e_request_latency", "Time from arrival to the last token."),
            )
        )

    def add(self, answer: PacedAnswer, prompt_tokens: int, finish_reason: str) -> None:
        """Add a request that has ended to the counters and histograms.

        Args:
            answer: The answer, which is incomplete if the request was aborted.
            prompt_tokens: Length of the prompt.
            finish_reason: Why the answer ended: ``length``, ``stop`` or ``abort``.
        """
        times_s = answer.token_times_s
        self._ends.labels(self._model, finish_reason).inc()
        self._prompt_tokens.inc(prompt_tokens)
        self._new_tokens.inc(len(times_s))
        if times_s:
            self._first_s.observe(times_s[0] - answer.arrival_s)
            self._cache_queries.inc(prompt_tokens * self._keeps_prefixes)
            self._cache_hits.inc(answer.cached_tokens)
            self._tier_queries.inc((prompt_tokens - answer.cached_tokens) * self._has_kv_tiers)
            self._tier_hits.inc(answer.loaded_tokens)
        for before_s, after_s in pairwise(times_s):
            self._between_s.observe(after_s - before_s)
        if answer.is_complete:
            self._queue_s.observe(answer.start_s - answer.arrival_s)
            self._total_s.observe(times_s[-1] - answer.arrival_s)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return bytes(generate_latest(self._registry))

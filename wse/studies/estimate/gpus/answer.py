"""The answer of ``wse estimate`` on GPUs: headline, sentences and number rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from wse.reports.number_text import count, in_bytes, plural, seconds
from wse.reports.table import Table
from wse.reports.terminal import printable
from wse.studies.estimate.drafts.result import draft_sentence
from wse.studies.results.answer import (
    AnswerRow,
    answer_tables,
    limit_sentence,
    machine_text,
    outside_sentence,
    published_sentence,
    serving_rows,
    speed_sentence,
    verification_text,
)

if TYPE_CHECKING:
    from wse.studies.estimate.gpus.result import GpuEstimateResult

TERMS: Final = {
    "weights_s": "reading weights",
    "cache_s": "reading the KV cache",
    "compute_s": "matrix products",
    "launch_s": "launching kernels",
    "all_reduce_s": "all-reduces: waiting for other GPUs",
    "crossing_s": "all-reduces: vectors on links",
    "host_s": "the host",
    "prompts_s": "prompts of other users",
}
"""Descriptions of the parts of the time per output token, by JSON key."""


def gpu_answer_tables(result: GpuEstimateResult, *, detail: bool) -> list[Table]:
    """Return the first tables of an estimate: headline, conclusions and main numbers.

    Args:
        result: The estimate.
        detail: Whether to add a grade for the reliability of each number.
    """
    system, replicas = result.system, result.serving.replicas
    gpus = f"{plural(system.gpus, f'{printable(result.gpu.name)} GPU')} ({printable(system.software)})"
    headline = f"{printable(result.model.name)} as {result.model.dtype} on {machine_text(gpus, replicas)}"
    grades = result.grades if detail else None
    return answer_tables(headline, _sentences(result), [*_rows(result)], grades, result.ranges, on_gpus=True)


def _sentences(result: GpuEstimateResult) -> Iterator[str]:
    """Yield the sentences below the headline."""
    if result.note:
        yield f"Note: {printable(result.note)}."
    yield speed_sentence(result.serving, result.ranges)
    yield draft_sentence(result.drafts)
    parts = {term: value for term, value in result.latency.tpot_by.to_dict().items() if value}
    all_reduce_s = sum(parts.pop(term, 0.0) for term in ("all_reduce_s", "crossing_s"))
    meanings = {**TERMS, "all_reduces_s": "all-reduces"}
    yield limit_sentence({**parts, "all_reduces_s": all_reduce_s}, meanings, "the time per output token")
    yield published_sentence(result.published)
    interval, serving = result.ranges.get("serving.tokens_per_s_per_user"), result.serving
    yield outside_sentence(result.published, interval, math.ceil(serving.requests / serving.replicas), result.inputs)


def _rows(result: GpuEstimateResult) -> Iterator[AnswerRow]:
    """Yield the rows of a GPU estimate's main table, such as speed, KV cache and weights."""
    bound = f"at least {seconds(result.latency.bound_s)} with perfect software at the stated rates"
    sequences = result.serving.max_users
    by_stack = result.memory.kv_capacity_users == result.system.max_sequences
    limit = f"at most {sequences:,} sequences, the limit of {printable(result.system.software)}" if by_stack else ""
    yield from serving_rows(result.serving, bound, limit, result.ranges)
    cache = f"tokens, with {result.model.cache_bits} bits per element, fit on {plural(result.system.gpus, 'GPU')}"
    request_tokens = result.serving.prompt_tokens + result.serving.new_tokens - (result.serving.prefix_tokens or 0)
    if sequences * request_tokens > result.serving.replicas * result.memory.kv_capacity_tokens:
        cache += " if every layer stores all of them; layers with a sliding window store fewer"
    yield AnswerRow("KV cache", count(result.memory.kv_capacity_tokens), cache, "memory.kv_capacity_tokens")
    yield AnswerRow("weights", in_bytes(result.model.bytes), f"{count(result.model.parameters)} parameters")
    if result.decode.experts is not None:
        text = f"of a layer are used by a pass, chosen as in {printable(str(result.inputs['routing']))}"
        yield AnswerRow("experts", count(result.decode.experts), text)
    if result.verify is not None:
        verify = result.verify
        text = verification_text(verify.tokens, verify.ratio_to_decode)
        yield AnswerRow("verification", seconds(verify.s), text, "latency.tpot_s")

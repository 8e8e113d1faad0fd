"""``kv_transfer`` of a result: the way of caches from the machine that reads prompts to the one that decodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from wse.reports.result import Doc, Result
from wse.studies.serve.machines.machine import Machine
from wse.studies.serve.prepare import PreparedServe

GIGA: Final = 1e9
MICRO: Final = 1e-6


@dataclass(frozen=True, kw_only=True)
class KvTransferResult(Result):
    """The link that caches move over when their prompts have been read, one after another."""

    bytes_per_token: Annotated[float, Doc("of the cache of a token", "B")]
    bytes_per_s: Annotated[float, Doc("bandwidth of the link", "B/s")]
    latency_s: Annotated[float, Doc("its latency", "s")]
    prompt_s: Annotated[float, Doc("the cache of a mean prompt, until the last of it is there", "s")]


def kv_transfer(prepared: PreparedServe, decode: Machine, prefill: Machine) -> KvTransferResult:
    """The way of caches: over the edge between two parts of a wafer, a link that was given, or the machines' own.

    From GPUs to GPUs each has a link, with what it holds of the cache. Between wafers and GPUs it is the link out of
    a wafer, with one copy of the cache.
    """
    request = prepared.request
    if prepared.beside:
        size, rate, latency_s = prefill.kv_bytes_per_token, prefill.edge_bytes_per_s, 0.0
    elif (prefill.result.gpus is None) == (decode.result.gpus is None):
        size, rate, latency_s = prefill.kv_bytes_per_token, prefill.link_bytes_per_s, prefill.link_latency_s
    else:
        wafers = prefill if prefill.result.gpus is None else decode
        size, rate, latency_s = prefill.kv_copy_bytes_per_token, wafers.link_bytes_per_s, wafers.link_latency_s
    if request.prefilling.kv_bandwidth is not None:
        size, rate = prefill.kv_copy_bytes_per_token, request.prefilling.kv_bandwidth * GIGA
    if request.prefilling.kv_latency is not None:
        latency_s = request.prefilling.kv_latency * MICRO
    prompt_tokens = float(prepared.workload.prompt_tokens.mean())
    return KvTransferResult(
        bytes_per_token=size, bytes_per_s=rate, latency_s=latency_s, prompt_s=latency_s + prompt_tokens * size / rate
    )

"""KvTransferResult: the transfer of KV caches from the prefill machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from wse.reports.result import Doc, Result
from wse.studies.serve_sim.machines.machine import ServingMachine
from wse.studies.serve_sim.prepare import PreparedServe

GIGA: Final = 1e9
MICRO: Final = 1e-6


@dataclass(frozen=True, kw_only=True)
class KvTransferResult(Result):
    """Link that sends KV caches from the prefill machine to the decode machine.

    The caches of several prompts are sent sequentially.
    """

    bytes_per_token: Annotated[float, Doc("KV-cache bytes per token", "B")]
    bytes_per_s: Annotated[float, Doc("bandwidth of the link", "B/s")]
    latency_s: Annotated[float, Doc("latency of the link", "s")]
    prompt_s: Annotated[float, Doc("time to move the KV cache of a mean prompt", "s")]


def kv_transfer(prepared_serve: PreparedServe, decode: ServingMachine, prefill: ServingMachine) -> KvTransferResult:
    """Return the link that sends KV caches from the prefill machine to the decode machine.

    There are three cases:

    1. Both machines are parts of the same wafer: the link is the boundary between them.
    2. Both machines are wafers, or both are GPUs: the links of the prefill machine are used. Each
       GPU sends its part of the cache over its own link.
    3. One machine consists of wafers and the other of GPUs: one copy of the cache is sent over the
       link of the wafers.

    ``--kv-bandwidth`` and ``--kv-latency`` override the bandwidth and latency of the link. With
    ``--kv-bandwidth``, one copy of the cache is sent.

    Args:
        prepared_serve: The serving request.
        decode: The decode machine.
        prefill: The prefill machine.
    """
    request = prepared_serve.request
    if prepared_serve.shares_wafers:  # 1
        size, rate, latency_s = prefill.kv_bytes_per_token, prefill.edge_bytes_per_s, 0.0
    elif (prefill.result.gpus is None) == (decode.result.gpus is None):  # 2
        size, rate, latency_s = prefill.kv_bytes_per_token, prefill.link_bytes_per_s, prefill.link_latency_s
    else:  # 3
        wafers = prefill if prefill.result.gpus is None else decode
        size, rate, latency_s = prefill.kv_copy_bytes_per_token, wafers.link_bytes_per_s, wafers.link_latency_s
    if request.prefilling.kv_bandwidth is not None:
        size, rate = prefill.kv_copy_bytes_per_token, request.prefilling.kv_bandwidth * GIGA
    if request.prefilling.kv_latency is not None:
        latency_s = request.prefilling.kv_latency * MICRO
    prompt_tokens = float(prepared_serve.workload.prompt_tokens.mean())
    return KvTransferResult(
        bytes_per_token=size, bytes_per_s=rate, latency_s=latency_s, prompt_s=latency_s + prompt_tokens * size / rate
    )

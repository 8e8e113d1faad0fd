"""The function `wse.serve`, with all options of ``wse serve`` as arguments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wse.hardware.generations import DEFAULT_WAFER
from wse.studies.endpoint.request import EndpointRequest
from wse.studies.options.arguments import checks_arguments, read_request

if TYPE_CHECKING:
    from wse.studies.endpoint.server import Endpoint


@checks_arguments(EndpointRequest)
def serve(
    model: str | Path,
    *,
    wafer: str | Path = DEFAULT_WAFER,
    mesh: str | None = None,
    wafers: int | str | None = None,
    mapping: str | Path = "auto",
    region: str | None = None,
    experts: str = "auto",
    place_experts: str | Path | None = None,
    schedule: str = "optimized",
    all_reduce: str | None = None,
    software: str | Path = "production",
    dtype: str | None = None,
    activations: str | None = None,
    accumulate: str | None = None,
    context: int | str | None = None,
    link: str | Path = "vendor",
    set: Sequence[str] | str = (),
    defects: str | Path | None = None,
    defects_seed: int | str = 0,
    workload: str | None = None,
    prompt_len: int | str | None = None,
    new_tokens: int | str | None = None,
    prefix_tokens: int | str | None = None,
    batch: int | str | None = None,
    objective: str | None = None,
    routing: str = "even",
    draft_model: str | Path | None = None,
    draft_place: str | None = None,
    gpu: str | Path | None = None,
    gpus: int | str | None = None,
    stack: str | Path | None = None,
    parallelism: str | None = None,
    draft: str | None = None,
    draft_tokens: int | str | None = None,
    dispatch: str = "least-loaded",
    max_users: int | str | None = None,
    chunk: int | str | None = None,
    prefill: str = "same",
    prefill_wafer: str | Path | None = None,
    prefill_gpu: str | Path | None = None,
    prefill_stack: str | Path | None = None,
    kv_bandwidth: float | str | None = None,
    kv_latency: float | str | None = None,
    prefill_wafers: int | str | None = None,
    prefill_gpus: int | str | None = None,
    prefill_mesh: str | None = None,
    prefix_cache: bool = False,
    kv_tiers: str | None = None,
    kv_wafers: int | str | None = None,
    kv_host_memory: float | str | None = None,
    replicas: int | str = 1,
    host: str = "127.0.0.1",
    port: int | str = 8000,
    speed: float | str = 1.0,
    text: str = "echo",
) -> Endpoint:
    """Serve the OpenAI API over HTTP at the predicted speed, as ``wse serve`` does.

    The function returns when the model is compiled. Requests are answered in another thread until
    the endpoint is closed.

    Example:
        with wse.serve("llama-3-8b", port=0) as endpoint:
            print(endpoint.address)  # clients can connect until the end of the block

    Arguments that are not listed here have the same meaning as in `wse.estimate`.

    Args:
        draft: Verify drafts in decode passes, with this acceptance: that of a measured model of
            acceptance.toml, typical, probabilities by position such as 0.8,0.7,0.6, or a TOML file. On
            wafers, not for models with linear attention.
        draft_tokens: Draft tokens per pass. Default: the number that is fastest for the users, or
            for those of one pass.
        dispatch (least-loaded|round-robin): With replicas, send each request to the replica with
            the fewest in flight, or to one replica after another.
        max_users: Maximum users served at a time, or batch slots of a static batch. Default: the
            most that fit.
        chunk: Prompt tokens to prefill at a time, between two decode passes of other users.
            Default: 8,192 on GPUs; on wafers, the number that stages can process while they
            would otherwise be idle.
        prefill (same|own): Prefill prompts on the machine that decodes (same), or on separate
            wafers or GPUs (own).
        prefill_wafer: Wafer that prefills prompts if GPUs decode: a name of `wse wafers`, or a TOML
            file.
        prefill_gpu: GPU that prefills prompts if wafers decode: a name of `wse gpus`, or a TOML
            file.
        prefill_stack: Serving stack of prefill_gpu. Default: vllm.
        kv_bandwidth (GB/s): Bandwidth of the link that moves KV caches to the machine that decodes.
            Default: the machine's own link. A number is in GB/s; a string has a unit.
        kv_latency: Latency of that link, such as 5us. Default: that of the machine's own link. A
            number is in µs; a string has a unit.
        prefill_wafers: Number of wafers that prefill prompts, with prefill own. Default: the number
            that decode, or that the model needs.
        prefill_gpus: Number of GPUs that prefill prompts, with prefill own. Default: the number
            that decode, or that the model needs.
        prefill_mesh (ROWSxCOLS): Mesh of PEs that prefill prompts, next to the mesh that decodes,
            on the same wafers.
        prefix_cache: Keep the KV caches of prefixes, and states of linear attention, for later
            prompts. prefix_tokens and kv_tiers turn it on.
        kv_tiers (sram,wafer,host): Where to park prefixes that must leave the KV cache: on unused
            PEs (sram), on wafers that only store KV caches (wafer), in host memory (host), or
            several of these in a list. A later prompt loads them unless prefilling them again is
            faster. Implies prefix_cache. GPUs have host only.
        kv_wafers: With kv_tiers wafer, wafers per replica that only store KV caches. Default: 1.
        kv_host_memory: With kv_tiers host, memory per replica for KV caches, such as 4TB. Default:
            3.6 TB per wafer or 256 GB per GPU. A number is in GB; a string has a unit.
        replicas: Number of identical machines that share the requests.
        host: Address to listen on; 0.0.0.0 makes the endpoint available to other computers.
        port: Port to listen on; 0 for a free one.
        speed: Simulated seconds per second of real time. With 0.1, all tokens come ten times as
            slowly.
        text (echo|story|FILE): Text of the answers: the prompt (echo), stories that the bundled
            model writes at the start (story), or the content of a file. A token is four characters.
    """
    from wse.studies.endpoint.server import Endpoint

    endpoint = Endpoint(read_request(EndpointRequest, locals()))
    endpoint.start()
    return endpoint

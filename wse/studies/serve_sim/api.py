"""The function `wse.serve_sim`, with all options of ``wse serve-sim`` as arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wse.hardware.generations import DEFAULT_WAFER
from wse.reports.progress import OnProgress, ignore
from wse.studies.options.arguments import checks_arguments, read_request
from wse.studies.serve_sim.request import ServeRequest

if TYPE_CHECKING:
    from wse.studies.serve_sim.result import ServeResult


@checks_arguments(ServeRequest)
def serve_sim(
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
    think_time: float | str | None = None,
    batch: int | str | None = None,
    users: int | str | None = None,
    replicas: int | str | None = 1,
    objective: str | None = None,
    routing: str = "even",
    draft_model: str | Path | None = None,
    draft_place: str | None = None,
    gpu: str | Path | None = None,
    gpus: int | str | None = None,
    stack: str | Path | None = None,
    parallelism: str | None = None,
    economics: str | Path | Mapping[str, Any] | None = None,
    price: str | Mapping[str, float] | None = None,
    draft: str | None = None,
    draft_tokens: int | str | None = None,
    arrivals: str | Path | None = None,
    rate: float | str | None = None,
    load: float | str | None = None,
    requests: int | str | None = None,
    time_scale: float | str | None = None,
    too_long: str = "refuse",
    burst: int | str = 8,
    length_cv: float | str | None = None,
    batching: str = "continuous",
    dispatch: str = "least-loaded",
    max_users: int | str | None = None,
    batch_wait: float | str | None = None,
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
    prefixes: int | str | None = None,
    fast_share: float | str = 0.0,
    ttft: float | str | None = None,
    tpot: float | str | None = None,
    seed: int | str = 0,
    timeline: str | Path | None = None,
    html: str | Path | None = None,
    on_progress: OnProgress | None = None,
) -> ServeResult:
    """Simulate a service whose requests arrive over time, as ``wse serve-sim`` does.

    Example:
        result = wse.serve_sim("llama-3-8b", load=0.9, ttft="100ms")
        result.load.stable, result.served.all.ttft.p99

    Arguments that are not listed here have the same meaning as in `wse.estimate`.

    Args:
        draft: Verify drafts in decode passes, with this acceptance: that of a measured model of
            acceptance.toml, typical, probabilities by position such as 0.8,0.7,0.6, or a TOML file. On
            wafers, not for models with linear attention.
        draft_tokens: Draft tokens per pass. Default: the number that is fastest for the users, or
            for those of one pass.
        arrivals (poisson|constant|bursts|FILE): When requests arrive: at random, at a constant
            rate, in bursts, or as in a trace. Traces of Mooncake, Azure, Splitwise and BurstGPT are
            recognised by their content, and CSV files with columns arrival_s, prompt_tokens,
            new_tokens, and optionally tier, prefix and prefix_tokens. With users, constant means
            that each user sends the next request when an answer ends. Default: constant if users
            sets the rate, else poisson.
        rate: Requests per second; the times of a trace are scaled to it. Default: the rate that
            users generate, that of load, or that of the trace.
        load: Arrival rate as a fraction of the rate that can be served at most. Default: 0.7.
        requests: Number of requests; of a trace, the first N. Default: 10,000, or all of the trace.
        time_scale: Factor for the arrival times of a trace: with 0.5, requests arrive twice as
            fast.
        too_long (refuse|skip): Refuse a trace with requests that exceed the context, or leave them
            out and report their number.
        burst: Requests per burst.
        length_cv: Variation of prompt and answer lengths, which are log-normal: standard deviation
            over mean. Default: that of workload, or 0.
        batching (continuous|static): Users join and leave between two tokens (continuous), or wait
            for a batch and stay until it ends (static).
        dispatch (least-loaded|round-robin): With replicas, send each request to the replica with
            the fewest in flight, or to one replica after another.
        max_users: Maximum users served at a time, or batch slots of a static batch. Default: the
            most that fit.
        batch_wait: Time after which a static batch starts even if it is not full, such as 500ms.
            Default: never. A number is in s; a string has a unit.
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
        prefixes: Number of different shared prefixes. Default: one, or with workload chat or
            coding-agent, whose sessions have a history each, one per user.
        fast_share: Fraction of requests in a fast tier, which are admitted and prefilled before all
            others.
        ttft: Limit of the time to first token, for goodput, such as 200ms. A number is in s; a
            string has a unit.
        tpot: Limit of the time per output token after the first, for goodput, such as 2ms. A number
            is in s; a string has a unit.
        seed: Seed of arrivals and lengths: the same seed gives the same result.
        timeline: File for a timeline that Perfetto opens.
        html: File for a page with tables and plots of the queue over time.
        on_progress: Called with (requests served, total, current activity).
    """
    from wse.studies.serve_sim.files import serve_to_files

    request = read_request(ServeRequest, locals())
    return serve_to_files(request, on_progress or ignore, timeline=timeline, html=html)

"""Option groups of ``wse serve-sim``: traffic, batching, prefill machine, limits and KV tiers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Final

from wse.hardware.quantity import TOKEN
from wse.option import Option, Panel
from wse.studies.options import known_names

CONTINUOUS: Final = "continuous"
STATIC: Final = "static"
BATCHING: Final = (CONTINUOUS, STATIC)
LEAST_LOADED: Final = "least-loaded"
DISPATCHES: Final = (LEAST_LOADED, "round-robin")
REFUSE: Final = "refuse"
SKIP: Final = "skip"
TOO_LONG: Final = (REFUSE, SKIP)
SAME: Final = "same"
OWN: Final = "own"
PREFILL_PLACES: Final = (SAME, OWN)
LOAD: Final = 0.7
"""Default offered load if no rate is specified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficOptions:
    """Options for the simulated requests: how many, when they arrive, and how long they are.

    Attributes:
        arrivals: When requests arrive: at random, at a constant rate, in bursts, or as in a trace.
            Traces of Mooncake, Azure, Splitwise and BurstGPT are recognised by their content, and
            CSV files with columns arrival_s, prompt_tokens, new_tokens, and optionally tier, prefix
            and prefix_tokens. With --users, constant means that each user sends the next request
            when an answer ends. Default: constant if --users sets the rate, else poisson.
        rate: Requests per second; the times of a trace are scaled to it. Default: the rate that
            --users generate, that of --load, or that of the trace.
        load: Arrival rate as a fraction of the rate that can be served at most. Default: 0.7.
        requests: Number of requests; of a trace, the first N. Default: 10,000, or all of the trace.
        time_scale: Factor for the arrival times of a trace: with 0.5, requests arrive twice as
            fast.
        too_long: Refuse a trace with requests that exceed the context, or leave them out and report
            their number.
        burst: Requests per burst.
        length_cv: Variation of prompt and answer lengths, which are log-normal: standard deviation
            over mean. Default: that of --workload, or 0.
        prefixes: Number of different shared prefixes. Default: one, or with --workload chat or
            coding-agent, whose sessions have a history each, one per user.
        fast_share: Fraction of requests in a fast tier, which are admitted and prefilled before all
            others.
        seed: Seed of arrivals and lengths: the same seed gives the same result.
    """

    PANEL: ClassVar[Panel] = "Serving"

    arrivals: Annotated[str | Path | None, Option(metavar="poisson|constant|bursts|FILE")] = None
    rate: Annotated[float | None, Option(metavar="R")] = None
    load: Annotated[float | None, Option(metavar="F")] = None
    requests: Annotated[int | None, Option()] = None
    time_scale: Annotated[float | None, Option(metavar="F")] = None
    too_long: Annotated[str, Option(metavar="refuse|skip")] = REFUSE
    burst: Annotated[int, Option()] = 8
    length_cv: Annotated[float | None, Option(metavar="F")] = None
    prefixes: Annotated[int | None, Option()] = None
    fast_share: Annotated[float, Option(metavar="F")] = 0.0
    seed: Annotated[int, Option()] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchingOptions:
    """Options for batching and for assigning requests to replicas.

    Attributes:
        batching: Users join and leave between two tokens (continuous), or wait for a batch and stay
            until it ends (static).
        dispatch: With --replicas, send each request to the replica with the fewest in flight, or to
            one replica after another.
        max_users: Maximum users served at a time, or batch slots of a static batch. Default: the
            most that fit.
        batch_wait: Time after which a static batch starts even if it is not full, such as 500ms.
            Default: never.
        chunk: Prompt tokens to prefill at a time, between two decode passes of other users.
            Default: 8,192 on GPUs; on wafers, the number that stages can process while they would
            otherwise be idle.
        prefix_cache: Keep the KV caches of prefixes, and states of linear attention, for later
            prompts. --prefix-tokens and --kv-tiers turn it on.
    """

    PANEL: ClassVar[Panel] = "Serving"

    batching: Annotated[str, Option(metavar="continuous|static")] = CONTINUOUS
    dispatch: Annotated[str, Option(metavar="least-loaded|round-robin")] = LEAST_LOADED
    max_users: Annotated[int | None, Option()] = None
    batch_wait: Annotated[float | None, Option(unit="s")] = None
    chunk: Annotated[int | None, Option(unit=TOKEN)] = None
    prefix_cache: Annotated[bool, Option()] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillOptions:
    """Options for a separate prefill machine, and for the link that sends KV caches.

    Attributes:
        prefill: Prefill prompts on the machine that decodes (same), or on separate wafers or GPUs
            (own).
        prefill_wafer: Wafer that prefills prompts if GPUs decode: a name of `wse wafers`, or a TOML
            file.
        prefill_gpu: GPU that prefills prompts if wafers decode: a name of `wse gpus`, or a TOML
            file.
        prefill_stack: Serving stack of --prefill-gpu. Default: vllm.
        kv_bandwidth: Bandwidth of the link that moves KV caches to the machine that decodes.
            Default: the machine's own link.
        kv_latency: Latency of that link, such as 5us. Default: that of the machine's own link.
        prefill_wafers: Number of wafers that prefill prompts, with --prefill own. Default: the
            number that decode, or that the model needs.
        prefill_gpus: Number of GPUs that prefill prompts, with --prefill own. Default: the number
            that decode, or that the model needs.
        prefill_mesh: Mesh of PEs that prefill prompts, next to the --mesh that decodes, on the same
            wafers.
    """

    PANEL: ClassVar[Panel] = "Serving"

    prefill: Annotated[str, Option(metavar="same|own")] = SAME
    prefill_wafer: Annotated[str | Path | None, Option(metavar="NAME|FILE", known_values=known_names.wafers)] = None
    prefill_gpu: Annotated[str | Path | None, Option(metavar="NAME|FILE", known_values=known_names.gpus)] = None
    prefill_stack: Annotated[str | Path | None, Option(metavar="NAME|FILE", known_values=known_names.stacks)] = None
    kv_bandwidth: Annotated[float | None, Option(metavar="GB/s", unit="GB/s")] = None
    kv_latency: Annotated[float | None, Option(unit="µs")] = None
    prefill_wafers: Annotated[int | None, Option()] = None
    prefill_gpus: Annotated[int | None, Option()] = None
    prefill_mesh: Annotated[str | None, Option(metavar="ROWSxCOLS")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedTimes:
    """Options for the latencies promised to users.

    Requests served within these latencies count as goodput.

    Attributes:
        ttft: Limit of the time to first token, for goodput, such as 200ms.
        tpot: Limit of the time per output token after the first, for goodput, such as 2ms.
    """

    PANEL: ClassVar[Panel] = "Serving"

    ttft: Annotated[float | None, Option(unit="s")] = None
    tpot: Annotated[float | None, Option(unit="s")] = None


SRAM: Final = "sram"
WAFER: Final = "wafer"
HOST: Final = "host"
TIERS: Final = (SRAM, WAFER, HOST)
"""All tiers, in the order in which they are filled: from the one with the highest bandwidth on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierOptions:
    """Options for memory tiers that store KV caches of prompt prefixes for reuse.

    If the KV cache is full, a prefix is moved to a tier. Later prompts can load it from there.

    Attributes:
        kv_tiers: Where to park prefixes that must leave the KV cache: on unused PEs (sram), on
            wafers that only store KV caches (wafer), in host memory (host), or several of these in
            a list. A later prompt loads them unless prefilling them again is faster. Implies
            --prefix-cache. GPUs have host only.
        kv_wafers: With --kv-tiers wafer, wafers per replica that only store KV caches. Default: 1.
        kv_host_memory: With --kv-tiers host, memory per replica for KV caches, such as 4TB.
            Default: 3.6 TB per wafer or 256 GB per GPU.
    """

    PANEL: ClassVar[Panel] = "Serving"

    kv_tiers: Annotated[str | None, Option(metavar="sram,wafer,host")] = None
    kv_wafers: Annotated[int | None, Option()] = None
    kv_host_memory: Annotated[float | None, Option(metavar="SIZE", unit="GB")] = None

    @property
    def tier_names(self) -> tuple[str, ...]:
        """Names of the requested tiers, in the order in which the user lists them."""
        return () if self.kv_tiers is None else tuple(name.strip() for name in self.kv_tiers.split(","))

    @property
    def storage_wafers(self) -> int:
        """Number of wafers per replica that only store KV caches."""
        return (self.kv_wafers or 1) if WAFER in self.tier_names else 0

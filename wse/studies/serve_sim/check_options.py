"""Checks of the ``wse serve-sim`` options and their combinations."""

from __future__ import annotations

from typing import Any, Final

from wse.errors import BadInput, UnknownName
from wse.serving.simulation.arrivals import ARRIVALS, BURSTS
from wse.studies.estimate.checks import check_replicas, check_think_time
from wse.studies.options.amounts import check_counts
from wse.studies.options.option import get_option
from wse.studies.serve_sim.options import (
    BATCHING,
    DISPATCHES,
    HOST,
    OWN,
    PREFILL_PLACES,
    STATIC,
    TIERS,
    TOO_LONG,
    WAFER,
)
from wse.studies.serve_sim.request import ServeRequest

COUNTS: Final = (
    "requests",
    "burst",
    "max_users",
    "chunk",
    "prefill_wafers",
    "prefill_gpus",
    "prefixes",
    "draft_tokens",
    "kv_wafers",
)
"""Names of options that are at least 1."""
MAX_REQUESTS: Final = 1_000_000
MAX_CV: Final = 10.0
MAX_LATENCY_US: Final = 1e9
MAX_DRAFTED: Final = 64
"""Maximum number of tokens per draft, which exceeds all measured draft lengths."""


def check_options(request: ServeRequest) -> None:
    """Check that all options of a serving simulation are in range and have an effect.

    Raises:
        BadInput: An option is out of range, unknown, or has no effect in combination with the other
            options.
    """
    traffic, batches, prefilling = request.traffic, request.batches, request.prefilling
    check_counts(**{name: get_option(request, name) for name in COUNTS})
    if traffic.requests is not None and traffic.requests > MAX_REQUESTS:
        raise BadInput(f"--requests {traffic.requests}: give at most {MAX_REQUESTS:,}")
    if traffic.too_long not in TOO_LONG:
        raise UnknownName("treatment of long requests", traffic.too_long, TOO_LONG, place="--too-long")
    users = request.base.serving.users
    if traffic.requests is not None and users is not None and traffic.requests < users:
        raise BadInput(f"--requests {traffic.requests}: give at least one request for each of the {users:,} --users")
    _check_numbers(request)
    check_think_time(request.base.workload, request.base.serving.users)
    if batches.batching not in BATCHING:
        raise UnknownName("batching", batches.batching, BATCHING)
    if prefilling.prefill not in PREFILL_PLACES:
        raise UnknownName("place of prefill", prefilling.prefill, PREFILL_PLACES)
    rate_sources = ("--rate", "--load", "--users", "--time-scale")
    given_sources = [option for option in rate_sources if given_value(request, option) is not None]
    if len(given_sources) > 1:
        raise BadInput(f"{' and '.join(given_sources)}: each of them sets the rate of requests; give one of them")
    if batches.dispatch not in DISPATCHES:
        raise UnknownName("dispatch", batches.dispatch, DISPATCHES, place="--dispatch")
    _check_replicas(request)
    _check_tiers(request)
    _check_needs(request)
    _check_prefill(request)


def _check_needs(request: ServeRequest) -> None:
    """Check that each option is given together with the options that it requires.

    For example, ``--batch-wait`` has an effect only with ``--batching static``.

    Raises:
        BadInput: An option is given without an option that it requires.
    """
    prefilling, parking = request.prefilling, request.parking
    is_static, is_trace = request.batches.batching == STATIC, str(request.arrivals) not in ARRIVALS
    prefix_tokens = request.base.workload.prefix_tokens
    has_prefixes = prefix_tokens is not None or request.base.workload.workload_name is not None
    on_gpus, by_gpus = request.base.gpu is not None, prefilling.prefill_gpu is not None
    has_own = prefilling.prefill == OWN
    for option, needs, is_there in (
        ("--batch-wait", "--batching static", is_static),
        ("--burst", f"--arrivals {BURSTS}", str(request.arrivals) == BURSTS),
        ("--prefill-wafers", "--prefill own", has_own),
        ("--prefill-mesh", "--prefill own", has_own),
        ("--prefill-gpus", "--prefill own", has_own),
        ("--prefill-wafer", "--prefill own", has_own),
        ("--prefill-wafer", "--gpu", on_gpus),
        ("--prefill-gpu", "--prefill own", has_own),
        ("--prefill-gpus", "--gpu or --prefill-gpu", by_gpus or on_gpus),
        ("--prefill-stack", "--prefill-gpu", by_gpus),
        ("--kv-bandwidth", "--prefill own", has_own),
        ("--kv-latency", "--prefill own", has_own),
        ("--prefill own", "--batching continuous", not is_static),
        ("--prefix-cache", "--batching continuous", not is_static),
        ("--prefix-cache", "--prefill same", not has_own),
        ("--kv-tiers", "--batching continuous", not is_static),
        ("--kv-tiers", "--prefill same", not has_own),
        ("--prefix-tokens", "--batching continuous", not (prefix_tokens and is_static)),
        ("--prefix-tokens", "--prefill same", not (prefix_tokens and has_own)),
        ("--kv-tiers", "--prefix-tokens, --workload or a trace", has_prefixes or is_trace),
        ("--kv-wafers", "--kv-tiers wafer", WAFER in parking.tier_names),
        ("--kv-host-memory", "--kv-tiers host", HOST in parking.tier_names),
        ("--fast-share", "--batching continuous", not is_static),
        ("--prefixes", "--prefix-tokens or --workload", has_prefixes),
        ("--draft-tokens", "--draft", request.draft is not None),
        ("--time-scale", "--arrivals FILE", is_trace),
        ("--too-long", "--arrivals FILE", is_trace),
    ):
        if given_value(request, option) is not None and not is_there:
            raise BadInput(f"{option}: needs {needs}; give that too, or leave it out")


def given_value(request: ServeRequest, option: str) -> Any:
    """Return the value of an option such as ``--chunk``, or None if it is the default.

    A word after the name, as in ``--prefill own``, is ignored.
    """
    name = option.split()[0].removeprefix("--").replace("-", "_")
    value = get_option(request, name)
    return None if value == get_option(ServeRequest(), name) else value


def _check_prefill(request: ServeRequest) -> None:
    """Check that the options of the separate machine that reads prompts are compatible.

    Raises:
        BadInput: Two options contradict each other.
    """
    on_gpus, by_gpus = request.base.gpu is not None, request.prefilling.prefill_gpu is not None
    by_other_wafers = request.prefilling.prefill_wafer is not None
    on_same_wafer = request.prefilling.prefill_mesh is not None
    wafers_only = "applies only if wafers decode; leave it out, or leave out --gpu"
    for option, is_refused, reason in (
        ("--prefill-gpus", on_gpus and by_other_wafers, "wafers prefill the prompts (--prefill-wafer); leave it out"),
        ("--prefill-wafers", on_gpus and not by_other_wafers, wafers_only),
        ("--prefill-gpu", on_gpus, wafers_only),
        ("--prefill-mesh", on_gpus, wafers_only),
        ("--prefill-wafers", by_gpus, "GPUs prefill the prompts; leave it out"),
        ("--prefill-mesh", by_gpus, "GPUs prefill the prompts; leave it out"),
        ("--kv-bandwidth", on_same_wafer, "KV caches stay on the same wafer; leave it out"),
        ("--kv-latency", on_same_wafer, "KV caches stay on the same wafer; leave it out"),
    ):
        if is_refused and given_value(request, option) is not None:
            raise BadInput(f"{option}: {reason}")


def _check_tiers(request: ServeRequest) -> None:
    """Check that the tiers of ``--kv-tiers`` exist on the machine and are named once.

    Raises:
        BadInput: A tier is unknown or named twice, or the machine consists of GPUs, which have only
            the tier ``host``.
    """
    names, text = request.parking.tier_names, request.parking.kv_tiers
    for name in names:
        if name not in TIERS:
            raise UnknownName("tier", name, TIERS, place="--kv-tiers")
        if names.count(name) > 1:
            raise BadInput(f"--kv-tiers {text}: {name} is named twice; name it once")
        if request.base.gpu is not None and name != HOST:
            raise BadInput(f"--kv-tiers {text}: only wafers have the tier {name}; give --kv-tiers {HOST} for GPUs")


def _check_replicas(request: ServeRequest) -> None:
    """Check the option ``--replicas``, the number of identical machines that share the requests.

    Raises:
        BadInput: There are fewer users than replicas, or replicas are requested with static batches.
            Or the number is ``auto``, and neither a rate nor a number of users determines it.
    """
    replicas, is_drawn = request.base.replicas, str(request.arrivals) in ARRIVALS
    if request.base.serving.users is None:
        check_counts(replicas=replicas)
    else:
        check_replicas(request.base.serving.users, replicas)
    if replicas == 1:
        return
    if request.batches.batching == STATIC:
        raise BadInput(f"--replicas {replicas or 'auto'}: needs --batching continuous; give that too, or leave it out")
    if replicas is None and is_drawn and request.traffic.rate is None and request.base.serving.users is None:
        raise BadInput("--replicas auto: the number follows from --users or --rate; give one of them")


def check_draft_tokens(request: ServeRequest, context: int) -> None:
    """Check that drafts (tokens proposed for verification) are allowed and fit into the context.

    Args:
        request: The serving request. Without ``--draft-tokens``, nothing is checked.
        context: Maximum number of tokens per request.

    Raises:
        BadInput: The drafts are too long.
    """
    max_tokens = min(MAX_DRAFTED, context - 2)
    if request.draft_tokens is not None and request.draft_tokens > max_tokens:
        raise BadInput(
            f"--draft-tokens {request.draft_tokens}: with a context of {context:,} tokens, give at most {max_tokens}"
        )


def _check_numbers(request: ServeRequest) -> None:
    """Check that all numeric options of a serving simulation are in range.

    Raises:
        BadInput: A number is out of range.
    """
    traffic, batches, prefilling, promises = request.traffic, request.batches, request.prefilling, request.promised
    for option, value, max_value, unit in (
        ("--rate", traffic.rate, 1e12, " requests/s"),
        ("--load", traffic.load, 1e6, ""),
        ("--time-scale", traffic.time_scale, 1e6, ""),
        ("--batch-wait", batches.batch_wait, 1e9, " s"),
        ("--ttft", promises.ttft, 1e9, " s"),
        ("--tpot", promises.tpot, 1e9, " s"),
        ("--kv-bandwidth", prefilling.kv_bandwidth, 1e9, " GB/s"),
        ("--kv-host-memory", request.parking.kv_host_memory, 1e9, " GB"),
    ):
        if value is not None and not 0 < value <= max_value:
            raise BadInput(f"{option} {value:g}: give a number above 0, at most {max_value:g}{unit}")
    for option, value, max_value, unit in (
        ("--length-cv", traffic.length_cv or 0.0, MAX_CV, ""),
        ("--fast-share", traffic.fast_share, 1, ""),
        ("--kv-latency", prefilling.kv_latency or 0.0, MAX_LATENCY_US, " µs"),
    ):
        if not 0 <= value <= max_value:
            raise BadInput(f"{option} {value:g}: give a number from 0 to {max_value:g}{unit}")

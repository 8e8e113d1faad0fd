"""``inputs`` of a result: the options of a serving simulation, with defaults filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wse.studies.options.option import get_option
from wse.studies.serve_sim.machines.service_machines import ServiceMachines


def inputs(machines: ServiceMachines, replicas: int) -> dict[str, Any]:
    """Return the options of a serving request, with defaults filled in, for the result record.

    The options are keyed by option name without dashes.
    """
    prepared_serve, decode = machines.prepared, machines.decode
    request = prepared_serve.request
    always_given = {
        "prefix_cache": request.keeps_prefixes,
        **{name: get_option(request, name) for name in ("burst", "batching", "prefill", "fast_share", "seed")},
    }
    names = (
        "length_cv",
        "think_time",
        "rate",
        "time_scale",
        "draft",
        "batch_wait",
        "chunk",
        "prefill_wafers",
        "prefill_gpus",
        "prefill_gpu",
        "prefill_stack",
        "prefill_wafer",
        "kv_bandwidth",
        "kv_latency",
        "prefill_mesh",
        "prefix_tokens",
        "prefixes",
        "kv_tiers",
        "kv_wafers",
        "kv_host_memory",
        "ttft",
        "tpot",
    )
    values = {name: get_option(request, name) for name in names}
    optional_values = {name: str(v) if isinstance(v, Path) else v for name, v in values.items() if v is not None}
    if prepared_serve.workload.think_s:
        optional_values |= {"users": request.base.serving.users}
    if request.base.workload.workload_name is not None:
        optional_values |= {"workload": request.base.workload.workload_name}
    if decode.drafts is not None:
        optional_values |= {"draft_tokens": decode.drafts.draft_tokens}
    load_sets_rate = not (prepared_serve.has_times or request.traffic.rate or prepared_serve.rate_of_users)
    load = {"load": prepared_serve.load} if load_sets_rate else {}
    replica_values = {} if replicas == 1 else {"replicas": replicas, "dispatch": request.batches.dispatch}
    return (
        {**decode.inputs, "arrivals": str(request.arrivals), "max_users": machines.max_users}
        | replica_values
        | always_given
        | load
        | optional_values
    )

"""`wse.compare`: comparisons as a function of the Python API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wse.errors import BadInput
from wse.hardware.generations import DEFAULT_WAFER
from wse.reports.progress import OnProgress, ignore
from wse.studies.compare.request import CompareRequest
from wse.studies.options.arguments import checks_arguments, read_request
from wse.studies.options.engine import EngineChoice
from wse.studies.options.option import make_request

if TYPE_CHECKING:
    from wse.studies.compare.curve.result import CurveResult
    from wse.studies.compare.plan.result import PlanResult
    from wse.studies.compare.result import CompareResult
    from wse.studies.compare.traces import TracesComparison


@checks_arguments(CompareRequest)
def compare(
    model: str | Path,
    other: str | Path | None = None,
    *,
    wafer: str | Path = DEFAULT_WAFER,
    mesh: str | None = None,
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
    objective: str | None = None,
    routing: str = "even",
    gpus: int | str | None = None,
    stack: str | Path | None = None,
    parallelism: str | None = None,
    economics: str | Path | Mapping[str, Any] | None = None,
    price: str | Mapping[str, float] | None = None,
    wafers: Sequence[int] | str | None = None,
    mapping: Sequence[str] | str | None = None,
    link_bandwidth: Sequence[float] | str | None = None,
    link_latency: Sequence[float] | str | None = None,
    gpu: Sequence[str | Path] | None = None,
    plain_speed: float | str | None = None,
    replicas: int | str | None = None,
    ttft: float | str | None = None,
    tpot: float | str | None = None,
    lengths: Sequence[str] | str | None = None,
    top: int | str | None = None,
    pareto: bool = False,
    question: str | None = None,
    jobs: int | None = None,
    engine: str = "local",
    ray_address: str | None = None,
    on_progress: OnProgress | None = None,
) -> CompareResult | CurveResult | PlanResult | TracesComparison:
    """Compare wafers, mappings and GPUs for one model, or two traces, as ``wse compare`` does.

    Example:
        result = wse.compare("llama-3-8b", wafers=[1, 2, 4])
        print(*result.verdict, sep="\\n")

    Arguments that are not listed here are described at `wse.estimate`.

    Args:
        model: A model, as in `run`, or a trace.
        other: The second trace, if the first argument is a trace.
        wafers (1,2,4|auto): Numbers of wafers to compare; auto: 1, 2, 4 and 8 times the fewest.
            With users or targets but without pareto: 1 and 2 times the fewest, larger multiples as
            long as the largest is the best, and numbers near the best. None is auto.
        mapping: Mappings to compare: names of `wse mappings`, TOML files that list regions, or your
            own strategies as FILE.py:NAME. Default: auto.
        link_bandwidth (GB/s,...): Bandwidths of links between wafers. Default: the wafer's own
            bandwidth, 8 GB/s and 150 GB/s. A number is in GB/s; a string has a unit.
        link_latency: Latencies of links between wafers, such as 5us. Default: the wafer's own
            latency, 20us and 500ns. A number is in µs; a string has a unit.
        gpu: GPU to compare with the wafers in speed and cost: a name of `wse gpus`, or a TOML file;
            repeats.
        plain_speed: Speed of the plain service tier with gpu, in tokens/s per user; the fast tier
            is 2.5 times as fast. Default: 50, because GPU services of 70B-class models were published
            with 32, 49, 71 and 128 tokens/s per user.
        replicas (N|auto): Number of identical machines that share the users; auto: for each layout,
            the fewest that meet the targets; without targets, also 2, 4, 8 ... of the smaller
            machines. None is auto.
        ttft: Limit the time to first token, such as 200ms, and rank machines. A number is in s; a
            string has a unit.
        tpot: Limit the time per output token, such as 2ms, and rank machines. Also limits
            concurrent users. A number is in s; a string has a unit.
        lengths: Rank machines for each of several pairs of prompt tokens and new tokens.
        top: Rank machines, and show the first N.
        pareto: Rank machines, and show those on the Pareto frontier of tokens/s per user and cost
            of a token.
        question: Answer one question about wafers: one-wafer-or-many, pipeline-or-tensor or
            sram-or-streaming.
        jobs: Number of processes. None uses all cores.
        engine: ``ray`` uses workers of a Ray cluster instead of processes on this computer.
        ray_address: Address of the Ray cluster, as HOST:PORT or ``auto``. None starts a cluster on
            this machine.
        on_progress: Called with (combinations done, total number, last combination).
    """
    from wse.studies.compare.study import compare_machines
    from wse.tracing.query.two_traces.compare import check_traces, compare_traces, is_trace

    request = read_request(CompareRequest, locals())
    paths = [str(path) for path in (model, other) if path is not None]
    if len(paths) > 1 or is_trace(paths[0]):
        first, second = check_traces(paths)
        economics, price = request.base.costs.economics, request.base.costs.price
        if question is not None or request != make_request(CompareRequest, economics=economics, price=price):
            raise BadInput(f"{' and '.join(paths)}: two traces are compared; leave out the options of models")
        from wse.studies.compare.traces import TracesComparison

        return compare_traces(first, second, economics, price).convert(TracesComparison)
    request = replace(request, base=replace(request.base, model=paths[0]))
    engine_choice = EngineChoice(engine, ray_address)
    return compare_machines(request, question, on_progress or ignore, jobs=jobs, engine=engine_choice)

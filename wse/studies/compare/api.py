"""`wse.compare`: the study as a function of Python."""

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
    schedule: str = "fused",
    all_reduce: str | None = None,
    software: str | Path = "production",
    dtype: str | None = None,
    activations: str | None = None,
    accumulate: str | None = None,
    context: int | str | None = None,
    set: Sequence[str] | str = (),
    defects: str | Path | None = None,
    defects_seed: int | str = 0,
    prompt_len: int | str | None = None,
    new_tokens: int | str | None = None,
    batch: int | str | None = None,
    users: int | str | None = None,
    objective: str | None = None,
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
    """Set wafers and mappings, or wafers and GPUs, side by side for one model; or two traces: ``wse compare``.

    Example:
        result = wse.compare("llama-3-8b", wafers=[1, 2, 4])
        print(*result.verdict, sep="\\n")

    Arguments that are not listed here are those of `wse.estimate`.

    Args:
        model: A model as for `run`, or a trace.
        other: The second trace, where the first argument is a trace.
        wafers (1,2,4|auto): Numbers of wafers; auto: 1, 2, 4 and 8 times the fewest. None is auto.
        mapping: Names of `wse mappings`, TOML files that list regions, or strategies of your own as
            FILE.py:NAME. Default: auto; with detail all.
        link_bandwidth (GB/s,...): Bandwidth of links between wafers. Default: the wafer's own, 8 and 150
            GB/s. A number is in GB/s; a text has a unit.
        link_latency: Latency of links between wafers, such as 5us. Default: the wafer's own, 20 and 0.5 µs. A
            number is in µs; a text has a unit.
        gpu: GPUs to set beside the wafers, speed against cost: a name of `wse gpus`, or a TOML file; repeats.
        plain_speed: Speed of the plain tier with gpu, tokens/s per user; the fast tier is 2.5 times that.
            Default: 50.
        replicas (N|auto): Equal machines that share the users; auto: the fewest that keep the targets. None
            is auto.
        ttft: Rank rows: the cheapest that give the first token within this time, such as 200ms. A number is
            in s; a text has a unit.
        tpot: Likewise each further token, such as 2ms; and no more users at once than leaves them that. A
            number is in s; a text has a unit.
        lengths: Rank rows for each of several tokens of a prompt and new ones.
        top: Rank rows, and show the first so many.
        pareto: Rank those rows alone that none surpasses in tokens/s of a user and of a wafer.
        question: one-wafer-or-many, pipeline-or-tensor or sram-or-streaming: the verdict on that.
        jobs: Processes; all cores where None.
        engine: ``ray`` has workers of a Ray cluster instead of this machine's processes.
        ray_address: The cluster, as HOST:PORT or ``auto``; one on this machine where None.
        on_progress: Called with (done, all, the combination that is done).
    """
    from wse.studies.compare.study import compare_machines
    from wse.tracing.query.two_traces.compare import check_traces, compare_traces, is_trace

    request = read_request(CompareRequest, locals())
    paths = [str(path) for path in (model, other) if path is not None]
    if len(paths) > 1 or is_trace(paths[0]):
        first, second = check_traces(paths)
        economics, price = request.base.costs.economics, request.base.costs.price
        if question is not None or request != make_request(CompareRequest, economics=economics, price=price):
            message = f"{' and '.join(paths)}: two traces are compared; leave out the options of models"
            raise BadInput(message)
        from wse.studies.compare.traces import TracesComparison

        return compare_traces(first, second, economics, price).convert(TracesComparison)
    request = replace(request, base=replace(request.base, model=paths[0]))
    engine_choice = EngineChoice(engine, ray_address)
    return compare_machines(request, question, on_progress or ignore, jobs=jobs, engine=engine_choice)

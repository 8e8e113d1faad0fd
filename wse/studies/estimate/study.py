"""The study of ``wse estimate``: cycles, traffic, SRAM and cost of a model from its config.

An estimate uses the compiler and fabric model of ``wse run``, but executes nothing. The cost of a
decoded token depends on the tokens before it only through the number of cache slots in use and the
rows that shift a cache entry. Tokens that agree in both are timed once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from wse.backends.fabric.model import Fabric
from wse.backends.fabric.run_totals import RunTotals, TimedRun
from wse.program.program import Program
from wse.reports.progress import OnProgress, ignore
from wse.serving.deployment.wafers import WaferDeployment
from wse.studies.estimate.cuts import cuts_result
from wse.studies.estimate.drafts.plan import draft_plan
from wse.studies.estimate.grades import Grades, grades_result
from wse.studies.estimate.inputs import inputs
from wse.studies.estimate.layouts.choose_layout import ChosenLayout, choose_layout
from wse.studies.estimate.layouts.result import search_result
from wse.studies.estimate.layouts.room import cache_room
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.ranges.sampled_figures import intervals_of, sampled_figures
from wse.studies.estimate.ranges.sensitivity import changed_requests, sensitivity_result
from wse.studies.estimate.ranges.study import contributions_of, uncertainty_of
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.result import EstimateResult
from wse.studies.estimate.sram import estimate_sram, users_at_longer_contexts
from wse.studies.estimate.timing.first_token import prompts_result
from wse.studies.estimate.timing.latency import latency_result
from wse.studies.estimate.timing.verify import verify_result, verify_rewrites
from wse.studies.estimate.token_results import token_results
from wse.studies.options.settings import replaced_numbers
from wse.studies.options.trace_path import trace_path
from wse.studies.results.defects import defects_result
from wse.studies.results.expert_loads import expert_loads_result
from wse.studies.results.phases import crossing_result, fabric_result, prefill_result
from wse.studies.results.placement import model_result, system_result, wafer_result
from wse.studies.results.published import EstimatedSpeed, PublishedSpeed, published_speeds
from wse.studies.results.rewrites import rewrites_result


def estimate(
    request: EstimateRequest,
    *,
    on_progress: OnProgress = ignore,
) -> EstimateResult:
    """Compile a model for wafers, and estimate the speed and cost of serving it.

    1. Load the files that the request names, and check the options.
    2. Choose and compile the layout.
    3. Count the cycles spent on prompts and decoded tokens.
    4. Compute ranges, find the best draft length and tree, and look up published speeds.
    5. If requested, estimate the request again with changed numbers of the machine.
    6. If requested, write a trace.

    Args:
        request: The request.
        on_progress: Called with (number of parts done, number of parts, name of the next part).

    Raises:
        BadInput: A name is unknown, a file cannot be used, or options contradict each other.
        DoesNotFit: The model does not fit, and the option ``capacity`` is not ``report``. The
            message states the missing bytes and a remedy.
        BadTrace: The trace cannot be written.
    """
    trace = trace_path(request.trace)
    part_names = ["wafers", "layouts", "times"]
    on_progress(0, len(part_names), part_names[0])
    # 1. Load and check.
    prepared_estimate = prepare_estimate(request)
    changed_by_name = changed_requests(prepared_estimate) if request.sensitivity else {}
    part_names += [*changed_by_name, *(["trace"] if trace else [])]
    on_progress(1, len(part_names), part_names[1])
    # 2. Choose the layout, which also fixes options that the request leaves open, such as the batch.
    layout = choose_layout(prepared_estimate)
    prepared_estimate, choice = layout.prepared, layout.compilation
    on_progress(2, len(part_names), part_names[2])
    timed_run = time_run(prepared_estimate, choice.program)
    result = _layout_result(layout, timed_run)  # 3, 4
    # 5. Changed requests.
    if request.sensitivity:
        if result.cuts is not None and result.cuts.wafers_for_whole_layers is not None:
            whole_layers_change = {"no layer cut": replace(request, wafers=result.cuts.wafers_for_whole_layers)}
            changed_by_name |= whole_layers_change
            part_names[3:3] = whole_layers_change

        def estimate_changed(name: str, changed_request: EstimateRequest) -> EstimateResult:
            """Report progress, and return the estimate of a changed request."""
            on_progress(part_names.index(name), len(part_names), name)
            return estimate_on_best_layout(changed_request)

        result = replace(result, sensitivity=sensitivity_result(result, changed_by_name, estimate_changed))
    # 6. Trace.
    if trace is not None:
        from wse.tracing.record.estimate import write_estimate  # HDF5 is slow to load

        on_progress(part_names.index("trace"), len(part_names), "trace")
        result = replace(result, trace=str(trace))
        write_estimate(trace, prepared_estimate, choice.program, timed_run, result.to_dict())
    on_progress(len(part_names), len(part_names), "")
    return result


def time_run(prepared_estimate: PreparedEstimate, program: Program) -> TimedRun:
    """Count the cycles needed to process the prompts and decode all new tokens of a request.

    The first new token of each user is not decoded, because prefill already yields it.
    """
    clock = RunTotals(Fabric(program, prepared_estimate.wafer, prepared_estimate.software, prepared_estimate.meshes))
    return TimedRun(clock, clock.prefill_all(), clock.decode_all(prepared_estimate.new_tokens - 1))


def _layout_result(layout: ChosenLayout, timed_run: TimedRun) -> EstimateResult:
    """Return the result for a layout, with ranges, drafts and published speeds.

    Args:
        layout: The chosen layout.
        timed_run: Its cycles.
    """
    prepared_estimate, choice = layout.prepared, layout.compilation
    estimated = result_of(prepared_estimate, choice.program, timed_run)
    result, deployment = estimated.result, estimated.deployment
    result = replace(
        result,
        cuts=cuts_result(prepared_estimate, result.system),
        search=search_result(choice, prepared_estimate.goal.objective),
        rewrites=rewrites_result(prepared_estimate.spec, prepared_estimate.options, choice.rewrites),
        sram=replace(
            result.sram,
            users=(*result.sram.users, *users_at_longer_contexts(layout)),
            room=cache_room(layout),
        ),
    )
    if prepared_estimate.request.most_users:
        max_users = layout.max_users_of_any_layout
        result = replace(
            result,
            serving=replace(result.serving, max_users_of_any_layout=result.serving.replicas * max_users),
            roomiest_layout=layout.layout_with_room(max_users),
        )
    result = with_ranges(result, prepared_estimate, choice.program, deployment)
    result = replace(result, drafts=draft_plan(prepared_estimate, choice, deployment, result.serving))
    # Published speeds are compared with the speed with drafts too.
    result = replace(result, published=_published(prepared_estimate, result))
    if result.verify is not None:
        result = replace(result, verify=replace(result.verify, rewrites=verify_rewrites(prepared_estimate, choice)))
    return result


def with_ranges(
    result: EstimateResult, prepared_estimate: PreparedEstimate, program: Program, deployment: WaferDeployment
) -> EstimateResult:
    """Add the ranges of the main figures and, if requested, the contribution of each constant.

    Args:
        result: The estimate.
        prepared_estimate: The request.
        program: The compiled model.
        deployment: The deployment from which serving speeds are computed.
    """
    serving, uncertainty = result.serving, uncertainty_of(prepared_estimate, program)
    figures = sampled_figures(uncertainty, deployment, serving.users, serving.replicas)
    return replace(
        result,
        ranges={f"serving.{name}": interval for name, interval in intervals_of(serving, figures).items()},
        uncertainty=contributions_of(uncertainty, deployment, serving)
        if prepared_estimate.request.uncertainty
        else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedEstimate:
    """Estimate of a compiled model, with the deployment from which serving speeds are computed."""

    result: EstimateResult
    deployment: WaferDeployment


def timed_estimate(prepared_estimate: PreparedEstimate, program: Program) -> TimedEstimate:
    """Estimate the speed and cost of a compiled model, and return the deployment as well."""
    return result_of(prepared_estimate, program, time_run(prepared_estimate, program))


def estimate_on_best_layout(request: EstimateRequest) -> EstimateResult:
    """Estimate a request on the layout that is best for it, without ranges and drafts."""
    layout = choose_layout(prepare_estimate(request))
    return estimate_of(layout.prepared, layout.compilation.program)


def estimate_of(prepared_estimate: PreparedEstimate, program: Program) -> EstimateResult:
    """Estimate the speed and cost of a compiled model."""
    return timed_estimate(prepared_estimate, program).result


def result_of(prepared_estimate: PreparedEstimate, program: Program, timed_run: TimedRun) -> TimedEstimate:
    """Compute the complete estimate from the cycles spent on prompts and decoded tokens.

    Args:
        prepared_estimate: The request.
        program: The compiled model.
        timed_run: Cycle counts of prompts and decoded tokens.
    """
    clock, wafer = timed_run.clock, prepared_estimate.wafer
    grades = Grades(prepared_estimate.request.machine, wafer.generation)
    prompts = prompts_result(clock.fabric, timed_run.prompts)
    prefill = prefill_result(
        clock.prefill, sum(prepared_estimate.options.unread_tokens), wafer.clock_hz, prompts.ttft_s(wafer)
    )
    tokens = token_results(prepared_estimate, program, timed_run, grades)
    verify = verify_result(prepared_estimate, clock.fabric)
    result = EstimateResult.from_parts(
        tokens,
        inputs=inputs(prepared_estimate),
        note=prepared_estimate.note,
        batch=program.batch,
        model=model_result(prepared_estimate.spec, program),
        wafer=wafer_result(wafer, replaced_numbers(prepared_estimate.request)),
        system=system_result(program),
        sram=estimate_sram(prepared_estimate, program, grades),
        prefill=prefill,
        fabric=fabric_result(program, clock.decode),
        latency=latency_result(clock, program, wafer, prepared_estimate.network, prompts),
        verify=verify,
        crossing=crossing_result(clock.decode, wafer.clock_hz) if clock.decode.runs else None,
        grades=grades_result(
            grades,
            program.wafers,
            {"prefill": prefill.cycles_by, **({} if verify is None else {"verify": verify.cycles_by})},
            tokens.decode,
            tokens.energy,
            tokens.cost,
            prepared_estimate.network,
        ),
        routing=program.routing.name if any(program.mixtures) else None,
        expert_loads=expert_loads_result(prepared_estimate, program),
        defects=defects_result(prepared_estimate, program, prepared_estimate.middle_context),
    )
    return TimedEstimate(result=result, deployment=tokens.deployment)


def _published(prepared_estimate: PreparedEstimate, result: EstimateResult) -> tuple[PublishedSpeed, ...] | None:
    """Return published speeds of the model, for comparison with the estimate.

    The result is None if nothing was published, or if nothing is decoded.
    """
    if result.decode is None:
        return None
    estimated = EstimatedSpeed(
        machine=prepared_estimate.wafer.name,
        chips=result.system.wafers,
        same_chips_only=False,
        users=1,  # a pass takes as long for one user as for a whole batch
        dtype=result.model.dtype,
        tokens_per_s_per_user=result.decode.tokens_per_s_per_user,
        drafted_tokens_per_s_per_user=None if result.drafts is None else result.drafts.tokens_per_s_per_user,
        draft_chips=0 if result.drafts is None or not result.drafts.draft_tokens else result.drafts.wafers,
    )
    return published_speeds(prepared_estimate.spec, estimated)

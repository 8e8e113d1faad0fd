"""Cycles, traffic and SRAM of a model from its config alone: the study of ``wse estimate``. Nothing is executed.

The same compiler, Program and fabric model as of a run. What a decoded token costs depends on the tokens before it only
through the cache slots in use and the rows that pass an entry up, so tokens that are equal in that are timed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wse.fabric.expert_costs import Pairs
from wse.fabric.model import Fabric
from wse.fabric.run_totals import RunTotals, TimedRun
from wse.program.program import Program
from wse.report.progress import OnProgress, ignore
from wse.request.estimate_request import EstimateRequest
from wse.request.prepare_estimate import PreparedEstimate, prepare_estimate
from wse.request.settings import replaced_numbers
from wse.request.trace_path import trace_path
from wse.studies.compile.choose import compile_fastest, compile_with_remedies
from wse.studies.estimate.bounds import BoundsResult, bounds_result
from wse.studies.estimate.cuts import cuts_result
from wse.studies.estimate.draft_plan import draft_plan
from wse.studies.estimate.economy import CostResult, EnergyResult, Rates, cost_result, energy_result
from wse.studies.estimate.grades import Grades, grades_result
from wse.studies.estimate.latency import latency_result
from wse.studies.estimate.pipelining import PipeliningResult, pipelining_result
from wse.studies.estimate.result import EstimateResult
from wse.studies.estimate.room import cache_room
from wse.studies.estimate.search import search_result
from wse.studies.estimate.sensitivity import changed_requests, sensitivity_result
from wse.studies.estimate.sram import estimate_sram
from wse.studies.estimate.verify import verify_result, verify_rewrites
from wse.studies.results.defects import defects_result
from wse.studies.results.phases import DecodeResult, decode_result, prefill_result
from wse.studies.results.placement import model_result, system_result, wafer_result
from wse.studies.results.rewrites import rewrites_result
from wse.studies.results.traffic import crossing_result, fabric_result


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """The experts that the tokens of a run chose, for each chunk of the prompts and each decoded token."""

    prefill: Sequence[Pairs]
    decode: Sequence[Pairs]


def estimate(
    request: EstimateRequest,
    *,
    on_progress: OnProgress = ignore,
) -> EstimateResult:
    """Compile a request and time it.

    Args:
        request: The request.
        on_progress: Called with (done, all, name) before each piece of the work.

    Raises:
        BadInput and its kinds: something that was named is missing or cannot be used.
        DoesNotFit: with the bytes and what would make it fit; not with ``capacity`` ``report``.
        BadTrace: the trace cannot be written.
    """
    trace = trace_path(request.trace)
    pieces = ["wafers", "layouts", "times"]
    on_progress(0, len(pieces), pieces[0])
    prepared = prepare_estimate(request)
    changed_by_name = changed_requests(prepared) if request.sensitivity else {}
    pieces += [*changed_by_name, *(["trace"] if trace else [])]
    on_progress(1, len(pieces), pieces[1])
    choice = compile_with_remedies(prepared)
    on_progress(2, len(pieces), pieces[2])
    counted = time_run(prepared, choice.program, None)
    result = result_of(prepared, choice.program, counted)
    result = replace(
        result,
        cuts=cuts_result(prepared, result.system),
        search=search_result(choice),
        rewrites=rewrites_result(prepared.spec, prepared.options, choice.rewrites),
        sram=replace(result.sram, room=cache_room(prepared, choice)),
    )
    result = replace(result, drafts=draft_plan(prepared, choice, result.decode))
    if result.verify is not None:
        result = replace(result, verify=replace(result.verify, rewrites=verify_rewrites(prepared, choice)))
    if request.sensitivity:
        if result.cuts is not None and result.cuts.wafers_for_whole_layers is not None:
            whole_layers = {"no layer cut": replace(request, wafers=result.cuts.wafers_for_whole_layers)}
            changed_by_name |= whole_layers
            pieces[3:3] = whole_layers

        def estimate_piece(name: str, changed_request: EstimateRequest) -> EstimateResult:
            on_progress(pieces.index(name), len(pieces), name)
            prepared = prepare_estimate(changed_request)
            return estimate_of(prepared, compile_fastest(prepared).program)

        result = replace(result, sensitivity=sensitivity_result(result, changed_by_name, estimate_piece))
    if trace is not None:
        from wse.record.estimate import write_estimate  # HDF5 is slow to load

        on_progress(pieces.index("trace"), len(pieces), "trace")
        result = replace(result, trace=str(trace))
        write_estimate(trace, prepared, choice.program, counted, result.to_dict())
    on_progress(len(pieces), len(pieces), "")
    return result


def estimate_of(prepared: PreparedEstimate, program: Program, routing: Routing | None = None) -> EstimateResult:
    """The result of a compiled request; without ``routing`` tokens choose experts as evenly as they can."""
    return result_of(prepared, program, time_run(prepared, program, routing), given_routing=routing is not None)


def result_of(
    prepared: PreparedEstimate, program: Program, counted: TimedRun, *, given_routing: bool = False
) -> EstimateResult:
    """The result of a request whose cycles were counted."""
    clock, wafer = counted.clock, prepared.wafer
    grades = _grades(prepared)
    prefill = prefill_result(clock.prefill, sum(prepared.options.prompt_tokens), wafer.clock_hz)
    tokens = _decode_results(prepared, program, counted, grades)
    verify = verify_result(prepared, clock.fabric)
    prompts = None if tokens.pipelining is None else tokens.pipelining.prefill
    return EstimateResult(
        inputs=inputs(prepared),
        note=prepared.note,
        batch=program.batch,
        model=model_result(prepared.spec, program),
        wafer=wafer_result(
            wafer, sram_bytes_per_pe=wafer.sram_bytes_per_pe, replaced=replaced_numbers(prepared.request)
        ),
        system=system_result(program, context=program.context),
        sram=estimate_sram(prepared, program, grades),
        prefill=prefill,
        fabric=fabric_result(program, clock.decode),
        latency=latency_result(clock, program, wafer, prepared.network, prompts),
        decode=tokens.decode,
        verify=verify,
        crossing=crossing_result(clock.decode, wafer.clock_hz) if clock.decode.runs else None,
        schedule=tokens.pipelining,
        bounds=tokens.bounds,
        energy=tokens.energy,
        cost=tokens.cost,
        grades=grades_result(
            grades,
            program.wafers,
            {"prefill": prefill.cycles_by, **({} if verify is None else {"verify": verify.cycles_by})},
            tokens.decode,
            tokens.energy,
            tokens.cost,
            prepared.network,
        ),
        routing=("given" if given_routing else "even") if any(program.mixtures) else None,
        defects=defects_result(prepared, program, prepared.middle_context),
    )


def _grades(prepared: PreparedEstimate) -> Grades:
    """The grades of the constants that a request is timed with."""
    request = prepared.request
    return Grades(
        request.wafer,
        request.software,
        prepared.wafer.generation,
        wafer_values=request.wafer_values,
        software_values=request.software_values,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _DecodeResults:
    """The results of generated tokens: none where nothing is decoded, ``decode`` alone where experts are given."""

    decode: DecodeResult | None = None
    pipelining: PipeliningResult | None = None
    bounds: BoundsResult | None = None
    energy: EnergyResult | None = None
    cost: CostResult | None = None


def _decode_results(prepared: PreparedEstimate, program: Program, counted: TimedRun, grades: Grades) -> _DecodeResults:
    clock, prompts, token_classes = counted
    wafer, spec, economics = prepared.wafer, prepared.spec, prepared.economics
    if not clock.decode.runs:
        return _DecodeResults()
    decode = decode_result(clock.decode, spec.layer_count, wafer.clock_hz, program.batch)
    if not token_classes:
        return _DecodeResults(decode=decode)
    middle_cost = clock.fabric.decode_cost(*prepared.middle_context)
    pipelining = pipelining_result(clock.fabric, prompts, middle_cost, prepared.new_tokens)
    saturated = max((row.tokens_per_s for row in pipelining.rows), default=None) if len(program.stages) > 1 else None
    rates = Rates(alone=decode.tokens_per_s, saturated=saturated)
    return _DecodeResults(
        decode=decode,
        pipelining=pipelining,
        bounds=bounds_result(clock.fabric, spec, token_classes, grades),
        energy=energy_result(clock.fabric, clock.decode, token_classes, economics, rates),
        cost=cost_result(program.wafers, economics, rates),
    )


def time_run(prepared: PreparedEstimate, program: Program, routing: Routing | None) -> TimedRun:
    """Prompts and all new tokens but the first of each user, which the prompts give, counted."""
    clock = RunTotals(Fabric(program, prepared.wafer, prepared.software, prepared.meshes))
    if routing is None:
        return TimedRun(clock, clock.prefill_all(), clock.decode_all(prepared.new_tokens - 1))
    prompts = [clock.prefill_chunk(index, pairs) for index, pairs in enumerate(routing.prefill)]
    for pairs in routing.decode:
        clock.decode_token(pairs=pairs)
    return TimedRun(clock, prompts, [])


def inputs(prepared: PreparedEstimate) -> dict[str, str | int | float]:
    """The options of a request by name, defaults filled in; a region that the mapping chose is left out."""
    request, options = prepared.request, prepared.options
    values = {
        "model": str(request.model),
        "wafer": str(request.wafer),
        "mesh": "{}x{}".format(*prepared.fabric_shape),
        "wafers": "auto" if request.wafers is None else request.wafers,
        "mapping": options.mapping_name,
        "region": request.region,
        "experts": None if prepared.spec.experts is None else options.experts,
        "schedule": options.schedule,
        "all_reduce": request.all_reduce,
        "software": str(request.software),
        "dtype": options.dtype,
        "activations": options.activation_type,
        "accumulate": options.accumulate,
        "prompt_len": prepared.prompt_len,
        "new_tokens": prepared.new_tokens,
        "batch": request.batch,
        "verify_tokens": request.verify_tokens,
        "draft": request.draft,
        "draft_model": None if request.draft_model is None else str(request.draft_model),
        "draft_place": request.draft_place,
        "context": options.context,
        "capacity": options.capacity,
        **replaced_numbers(request),
        "defects": None if request.defects is None else str(request.defects),
        "defects_seed": request.defects_seed if request.defects else None,
    }
    return {name: value for name, value in values.items() if value is not None}

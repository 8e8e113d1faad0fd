"""Cycles, traffic and SRAM of a model from its config alone: what ``wse estimate`` reports. Nothing is executed.

The same compiler, Program and fabric model as of a run. What a decoded token costs depends on the tokens before it only
through the cache slots in use and the rows that pass an entry up, so tokens alike in that are timed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wse.fabric.clock import Clock, Timed
from wse.fabric.expert_costs import Pairs
from wse.fabric.model import Fabric
from wse.program.memory_use import stage_bytes
from wse.program.program import Program
from wse.report.as_json import Report
from wse.request.estimate_request import EstimateRequest
from wse.request.prepare_estimate import PreparedEstimate, prepare_estimate
from wse.studies.compile.choose import best, found
from wse.studies.estimate.bounds import bound_facts
from wse.studies.estimate.economy import economy_facts
from wse.studies.estimate.grades import Grades, code_facts, grade_facts
from wse.studies.estimate.latency import latency_facts
from wse.studies.estimate.search_facts import search_facts
from wse.studies.estimate.sensitivity import changed_requests, sensitivity_facts
from wse.studies.estimate.stream_facts import schedule_facts
from wse.studies.estimate.users import user_facts
from wse.studies.results.defect_facts import defect_facts
from wse.studies.results.facts import (
    crossing_facts,
    decode_facts,
    fabric_facts,
    model_facts,
    prefill_facts,
    sram_facts,
    system_facts,
    wafer_facts,
)

OnPiece = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Which experts the tokens of a run chose: of each chunk of the prompts, and of each decoded token."""

    prefill: Sequence[Pairs]
    decode: Sequence[Pairs]


def estimate(
    request: EstimateRequest,
    *,
    sensitivity: bool = False,
    trace: Path | None = None,
    on_piece: OnPiece = lambda done, total, name: None,
) -> Report:
    """The report of a request, with the JSON keys that the command line promises.

    Args:
        request: The request.
        sensitivity: Whether to add what another wafer would change.
        trace: Where to write a trace; None writes none.
        on_piece: Hears (done, all, name) before each piece of the work.

    Raises:
        BadInput and its kinds: something that was named is missing or cannot be used.
        DoesNotFit: with the bytes and what would make it fit; not with ``capacity`` ``report``.
        BadTrace: the trace cannot be written.
    """
    pieces = ["wafers", "layouts", "times"]
    on_piece(0, len(pieces), pieces[0])
    prepared = prepare_estimate(request)
    others = changed_requests(prepared) if sensitivity else {}
    pieces += [*others, *(["trace"] if trace else [])]
    on_piece(1, len(pieces), pieces[1])
    chosen = found(prepared)
    on_piece(2, len(pieces), pieces[2])
    counted = timed(prepared, chosen.program, None)
    report = report_of(prepared, chosen.program, counted)
    tried = search_facts(chosen)
    if tried:
        report["search"] = tried
    if sensitivity:

        def estimated(name: str, other: EstimateRequest) -> Report:
            on_piece(pieces.index(name), len(pieces), name)
            prepared = prepare_estimate(other)
            return estimate_of(prepared, best(prepared).program)

        report["sensitivity"] = sensitivity_facts(report, others, estimated)
    if trace is not None:
        from wse.record.estimate import write_estimate  # HDF5 is slow to load

        on_piece(pieces.index("trace"), len(pieces), "trace")
        report["trace"] = str(trace)
        write_estimate(trace, prepared, chosen.program, counted, report)
    on_piece(len(pieces), len(pieces), "")
    return report


def estimate_of(prepared: PreparedEstimate, program: Program, routing: Routing | None = None) -> Report:
    """The report of a compiled request; without ``routing`` tokens choose experts as evenly as they can."""
    return report_of(prepared, program, timed(prepared, program, routing), given_routing=routing is not None)


def report_of(prepared: PreparedEstimate, program: Program, counted: Timed, *, given_routing: bool = False) -> Report:
    """The report of what was counted."""
    clock, prompts, alike = counted
    wafer, spec, tokens = prepared.wafer, prepared.spec, sum(prepared.options.prompt_tokens)
    request = prepared.request
    grades = Grades(
        request.wafer,
        request.software,
        wafer.generation,
        wafer_values=request.wafer_values,
        software_values=request.software_values,
    )
    report: Report = {
        "inputs": inputs(prepared),
        "batch": program.batch,
        "model": model_facts(spec, program),
        "wafer": {**wafer_facts(wafer), "sram_bytes_per_pe": wafer.sram_bytes_per_pe},
        "system": {**system_facts(program), "context": program.context},
        "sram": {
            **sram_facts(program, wafer.sram_bytes_per_pe),
            "stages": [stage_bytes(program, i, wafer.sram_bytes_per_pe) for i in range(len(program.stages))],
            "code": code_facts(prepared.software, grades, wafer.generation),
            "users": user_facts(program, spec.context_limit),
        },
        "prefill": prefill_facts(clock.prefill, tokens, wafer.clock_hz),
        "fabric": fabric_facts(program, clock.decode),
        "latency": latency_facts(clock, program, wafer),
    }
    if clock.decode.runs:
        report["decode"] = decode_facts(clock.decode, spec.layer_count, wafer.clock_hz, program.batch)
        report["crossing"] = crossing_facts(clock.decode, wafer.clock_hz)
    if alike:
        midway = clock.fabric.decode_cost(*prepared.midway)
        report["schedule"] = schedule_facts(clock.fabric, prompts, midway, prepared.new_tokens)
        report["bounds"] = bound_facts(clock.fabric, spec, alike, grades)
        rates = {"alone": report["decode"]["tokens_per_s"]}
        if len(program.stages) > 1 and report["schedule"]["rows"]:
            rates["saturated"] = max(row["tokens_per_s"] for row in report["schedule"]["rows"])
        report |= economy_facts(clock.fabric, clock.decode, alike, prepared.economics, rates)
    report["grades"] = grade_facts(grades, report)
    if any(program.mixtures):
        report["routing"] = "given" if given_routing else "even"
    return report | defect_facts(prepared, program, prepared.midway)


def timed(prepared: PreparedEstimate, program: Program, routing: Routing | None) -> Timed:
    """Prompts and all new tokens but the first of each user, which the prompts give, counted."""
    clock = Clock(Fabric(program, prepared.wafer, prepared.software, prepared.meshes))
    if routing is None:
        return Timed(clock, clock.prefill_all(), clock.decode_all(prepared.new_tokens - 1))
    prompts = [clock.prefill_chunk(index, pairs) for index, pairs in enumerate(routing.prefill)]
    for pairs in routing.decode:
        clock.decoded(pairs=pairs)
    return Timed(clock, prompts, [])


def inputs(prepared: PreparedEstimate) -> Report:
    """``inputs``: what was asked for, with defaults filled in; a region that the mapping chose is left out."""
    request, options = prepared.request, prepared.options
    asked = {
        "model": request.model,
        "wafer": request.wafer,
        "mesh": "{}x{}".format(*prepared.fabric_shape),
        "wafers": "auto" if request.wafers is None else request.wafers,
        "mapping": options.mapping,
        "region": request.region,
        "experts": None if prepared.spec.experts is None else options.experts,
        "software": request.software,
        "dtype": options.dtype,
        "activations": options.activation_type,
        "accumulate": options.accumulate,
        "prompt_len": request.prompt_len,
        "new_tokens": request.new_tokens,
        "batch": request.batch,
        "context": options.context,
        "capacity": options.capacity,
        **{f"wafer.{name}": value for name, value in request.wafer_values},
        **{f"software.{name}": value for name, value in request.software_values},
        "defects": request.defects,
        "defects_seed": request.defects_seed if request.defects else None,
    }
    return {name: value for name, value in asked.items() if value is not None}

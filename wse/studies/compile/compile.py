"""The study of ``wse compile``: the places of stages, buffers and colours. Nothing is executed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from wse.fabric.model import Fabric
from wse.fabric.phase_cost import PhaseCost
from wse.fabric.run_totals import RunTotals
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import ROWS, Slots
from wse.request.prepare_run import PreparedRun, prepare
from wse.request.run_request import CompileRequest
from wse.request.settings import replaced_numbers
from wse.studies.compile.choose import compile_with_remedies
from wse.studies.compile.contention import contention_result
from wse.studies.compile.reduces import reduces_result
from wse.studies.compile.result import ColourUse, CompileFabric, CompileResult, CompileSram, HistogramBin
from wse.studies.compile.sram_map import sram_map
from wse.studies.results.defects import defects_result
from wse.studies.results.phases import decode_result, prefill_result
from wse.studies.results.placement import model_result, system_result, wafer_result
from wse.studies.results.rewrites import rewrites_result
from wse.studies.results.sram import sram_result, use_bytes
from wse.studies.results.traffic import crossing_result, fabric_result

HISTOGRAM_BINS = 12


def compile_request(request: CompileRequest) -> CompileResult:
    """Compile what a request names, and give the places of everything.

    Raises:
        BadInput and its kinds: something that was named is missing or cannot be used.
        DoesNotFit: with the bytes and what would make it fit.
    """
    prepared = prepare(request.as_run())
    choice = compile_with_remedies(prepared)
    rewrites = rewrites_result(prepared.spec, prepared.options, choice.rewrites)
    return replace(compile_result(prepared, choice.program), rewrites=rewrites)


def compile_result(prepared: PreparedRun, program: Program) -> CompileResult:
    """The result of a compiled request; a token is timed in the middle of the answer that is asked for."""
    wafer, spec = prepared.wafer, prepared.spec
    clock, slots, costs = _time_program(prepared, program)
    return CompileResult(
        model=model_result(spec, program),
        wafer=wafer_result(
            wafer,
            sram_bytes_per_pe=wafer.sram_bytes_per_pe,
            colours=wafer.colours - wafer.reserved_colours,
            replaced=replaced_numbers(prepared.request),
        ),
        batch=program.batch,
        system=system_result(program, context=program.context),
        sram=_sram(program, wafer.sram_bytes_per_pe),
        fabric=fabric_result(program, clock.decode).convert(
            CompileFabric,
            colours=_colour_uses(program),
            contention=contention_result(program, costs),
            reduces=reduces_result(program, wafer, prepared.software, slots),
        ),
        prefill=prefill_result(clock.prefill, sum(map(len, prepared.prompts)), wafer.clock_hz),
        decode=decode_result(
            clock.decode,
            spec.layer_count,
            wafer.clock_hz,
            program.batch,
            after_tokens=max(prepared.middle_context),
            routing="even" if any(program.mixtures) else None,
        ),
        crossing=crossing_result(clock.decode, wafer.clock_hz),
        defects=defects_result(prepared, program, prepared.middle_context),
    )


def _time_program(prepared: PreparedRun, program: Program) -> tuple[RunTotals, Slots, list[tuple[Phase, PhaseCost]]]:
    """Cycles of the prompts, and of one token in the middle of what is asked for; the cache slots in use
    then; cost by phase."""
    clock = RunTotals(Fabric(program, prepared.wafer, prepared.software, prepared.meshes))
    costs = [(phase, clock.prefill_chunk(index)) for index, phase in enumerate(program.prefill)]
    (slots, _), cost = clock.decode_token(*prepared.middle_context)
    return clock, slots, [*costs, (program.decode, cost)]


def _sram(program: Program, sram_bytes: int) -> CompileSram:
    return sram_result(program, sram_bytes).convert(
        CompileSram,
        stages=tuple(use_bytes(program, index, sram_bytes) for index in range(len(program.stages))),
        histogram=histogram(program, sram_bytes),
        map=sram_map(program),
    )


def histogram(program: Program, sram_bytes: int) -> tuple[HistogramBin, ...]:
    """PEs of all wafers by bytes of SRAM in use: above ``from_bytes``, at most ``to_bytes``.

    The first row, from 0 to 0, counts the PEs outside of all regions.
    """
    edges = [round(sram_bytes * i / HISTOGRAM_BINS) for i in range(HISTOGRAM_BINS + 1)]
    lowest = [(i, stage) for i, stage in enumerate(program.stages) if not program.stages_below(i)]
    sizes = [(program.used_bytes(i), stage.rect.rows * stage.cols) for i, stage in lowest]
    all_pes = program.wafers * program.wafer_rows * program.wafer_cols
    bins = [HistogramBin(from_bytes=0, to_bytes=0, pes=all_pes - sum(pes for _, pes in sizes))]
    for low, high in pairwise(edges):
        pes = sum(pes for top, pes in sizes if low < top <= high)
        bins.append(HistogramBin(from_bytes=low, to_bytes=high, pes=pes))
    return tuple(bins)


def _colour_uses(program: Program) -> tuple[ColourUse, ...]:
    """The colours ``first`` to ``first + colours - 1`` of each pattern of each stage; repainted ones take turns."""
    return tuple(
        ColourUse(
            stage=use.stage,
            pattern=use.pattern,
            along="rows" if use.axis == ROWS else "columns",
            first=use.first,
            colours=use.colours,
            repainted=use.repainted,
        )
        for use in program.colour_uses
    )

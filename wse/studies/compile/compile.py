"""The study behind ``wse compile``: locates stages, buffers and colours. Nothing is executed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from wse.backends.fabric.model import Fabric
from wse.backends.fabric.run_totals import RunTotals
from wse.program.program import Program
from wse.program.steps import ROWS
from wse.studies.compile.contention import contention_result
from wse.studies.compile.reduces import reduces_result
from wse.studies.compile.result import ColourUse, CompileFabric, CompileResult, CompileSram, HistogramBin
from wse.studies.compile.sram_map import sram_map
from wse.studies.estimate.layouts.choose_layout import choose_layout
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.timing.first_token import prompts_result
from wse.studies.options.basis import PreparedPlacement
from wse.studies.options.settings import replaced_numbers
from wse.studies.results.defects import defects_result
from wse.studies.results.expert_loads import expert_loads_result
from wse.studies.results.phases import crossing_result, decode_result, fabric_result, prefill_result
from wse.studies.results.placement import model_result, system_result, wafer_result
from wse.studies.results.rewrites import rewrites_result
from wse.studies.results.sram import sram_result, use_bytes

HISTOGRAM_BINS = 12


def compile_request(request: EstimateRequest) -> CompileResult:
    """Compile a model and describe where its layers and buffers are placed.

    The Program is the same one that `wse.estimate` times for the same options.

    Raises:
        BadInput: A file is missing or cannot be used, a name is unknown, or options contradict each
            other.
        DoesNotFit: The model does not fit. The message states the bytes and remedies.
    """
    layout = choose_layout(prepare_estimate(request))
    prepared_placement, choice = layout.prepared, layout.compilation
    rewrites = rewrites_result(prepared_placement.spec, prepared_placement.options, choice.rewrites)
    return replace(compile_result(prepared_placement, choice.program), rewrites=rewrites)


def compile_result(prepared_placement: PreparedPlacement, program: Program) -> CompileResult:
    """Describe a compiled Program: its placement, SRAM use, communication and cycles.

    The cycles cover all prompts and all decoded tokens of the request.

    Args:
        prepared_placement: The checked request.
        program: The compiled Program.
    """
    wafer, spec = prepared_placement.wafer, prepared_placement.spec
    clock = RunTotals(Fabric(program, wafer, prepared_placement.software, prepared_placement.meshes))
    prompt_costs = clock.prefill_all()
    clock.decode_all(prepared_placement.new_tokens - 1)
    middle = prepared_placement.middle_context
    costs = [*zip(program.prefill, prompt_costs, strict=True), (program.decode, clock.fabric.decode_cost(*middle))]
    slots, _ = clock.fabric.cache_use(middle)
    decodes = clock.decode.runs > 0
    ttft_s = prompts_result(clock.fabric, prompt_costs).ttft_s(wafer)
    return CompileResult(
        note=prepared_placement.note,
        model=model_result(spec, program),
        wafer=wafer_result(wafer, replaced_numbers(prepared_placement.request)),
        batch=program.batch,
        system=system_result(program),
        sram=_sram(program, wafer.sram_bytes_per_pe),
        fabric=fabric_result(program, clock.decode).convert(
            CompileFabric,
            colours=_colour_uses(program),
            contention=contention_result(program, costs),
            reduces=reduces_result(program, wafer, prepared_placement.software, slots),
        ),
        prefill=prefill_result(clock.prefill, sum(prepared_placement.options.unread_tokens), wafer.clock_hz, ttft_s),
        decode=decode_result(
            clock.decode,
            spec.layer_count,
            wafer.clock_hz,
            program.batch,
            routing=program.routing.name if any(program.mixtures) else None,
        )
        if decodes
        else None,
        crossing=crossing_result(clock.decode, wafer.clock_hz) if decodes else None,
        defects=defects_result(prepared_placement, program, middle),
        expert_loads=expert_loads_result(prepared_placement, program),
    )


def _sram(program: Program, sram_bytes: int) -> CompileSram:
    return sram_result(program, sram_bytes).convert(
        CompileSram,
        stages=tuple(use_bytes(program, index, sram_bytes) for index in range(len(program.stages))),
        histogram=histogram(program, sram_bytes),
        map=sram_map(program),
    )


def histogram(program: Program, sram_bytes: int) -> tuple[HistogramBin, ...]:
    """Return a histogram of SRAM use per PE in bytes, over all wafers.

    Args:
        program: The compiled Program.
        sram_bytes: SRAM size of a PE in bytes.

    Returns:
        The bins. The first bin, from 0 to 0 bytes, counts the unused PEs. It is followed by bins of
        equal width, which count the PEs that use more than ``from_bytes`` and at most ``to_bytes``.
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
    """Return which colours each communication pattern uses in each pipeline stage.

    A colour is a number that selects a route in each router. Each pattern uses consecutive colours. Patterns that
    are marked as ``repainted`` share colours: routers change the routes of these colours at run
    time.
    """
    return tuple(
        ColourUse.from_parts(use, along="rows" if use.axis == ROWS else "columns", repainted=use.is_rewritten)
        for use in program.colour_uses
    )

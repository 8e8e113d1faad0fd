"""The parts of a JSON report that follow from a Program and its costs; keys as the command line promises them."""

from __future__ import annotations

from wse.fabric.causes import CAUSES
from wse.fabric.clock import PhaseTotals
from wse.hardware.spec import WaferSpec
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import parameter_count, stored_bytes
from wse.number_formats import ELEMENT_BYTES
from wse.program.memory_use import fullest_stage, stage_bytes
from wse.program.program import Program
from wse.program.steps import HOST, Field, HostStream, Kind
from wse.report.as_json import Report

TOWARDS = ("north", "east", "south", "west")
MOST_LINKS = 4


def model_facts(spec: ModelSpec, program: Program) -> Report:
    """``model``: name, parameters, how weights are held, the other element types, bytes of all tensors so held."""
    return {
        "name": spec.name,
        "parameters": parameter_count(spec),
        "dtype": program.weight_type,
        "activations": program.element_type("act"),
        "accumulate": program.element_type("acc"),
        "bytes": stored_bytes(spec, program.weight_type, ELEMENT_BYTES[program.element_type("act")]),
    }


def wafer_facts(wafer: WaferSpec) -> Report:
    """``wafer``: name, mesh, clock."""
    return {"name": wafer.name, "rows": wafer.mesh_rows, "cols": wafer.mesh_cols, "clock_hz": wafer.clock_hz}


def system_facts(program: Program) -> Report:
    """``system``: wafers, regions, the mapping, the prefill product, and the stages."""
    elements = ELEMENT_BYTES[program.element_type("act")]
    return {
        "wafers": program.wafers,
        "regions": len(program.stages),
        "mapping": program.mapping_name,
        "prefill": program.prefill_name,
        "prefill_chunks": [phase.tokens for phase in program.prefill],
        "padding_fraction": program.padding_fraction,
        "cut_bytes_per_token": cut_bytes_per_token(program),
        "element_bytes": elements,
        **_experts(program),
        "stages": [
            {
                "wafer": s.wafer,
                "wafers": s.span,
                "row": s.rect.row,
                "col": s.rect.col,
                "rows": s.rect.rows,
                "cols": s.rect.cols,
                "layers": [s.first_layer, s.last_layer - 1] if s.last_layer > s.first_layer else [],
                "embedding": s.has_embedding,
                "head": s.has_head,
            }
            for s in program.stages
        ],
    }


def _experts(program: Program) -> Report:
    """``experts`` of a layer, those that a token uses, and of how many a column holds a share at most."""
    mixtures = [mixture for mixture in program.mixtures if mixture is not None]
    if not mixtures:
        return {}
    held = max(int(mixture.by_column.shape[1]) for mixture in mixtures)
    return {"experts": {"count": mixtures[0].count, "active": mixtures[0].active, "on_a_column": held}}


def cut_bytes_per_token(program: Program) -> int:
    """Bytes that one decoded token sends from region to region, over the mesh and between wafers."""
    phase = program.decode
    moves = (phase.steps.kind == Kind.HAND_OVER) | (
        (phase.steps.kind == Kind.CROSS) & (phase.steps.fixed[:, Field.WHAT] == HostStream.NONE)
    )
    return int(phase.steps.fixed[moves, Field.BYTES].sum())


def sram_facts(program: Program, sram_bytes: int) -> Report:
    """``sram``: the fullest PE by use, and the tokens that fit each user's cache with all that is free."""
    stage = fullest_stage(program)
    uses = stage_bytes(program, stage, sram_bytes)
    return {
        "bytes_per_pe": uses,
        "fullest_pe_fraction": (sram_bytes - uses["free"]) / sram_bytes,
        "kv_capacity_tokens": _kv_tokens(program),
        "fits": program.fits,
    }


def _kv_tokens(program: Program) -> int:
    """Tokens of each user that the caches of every stage have room for; the context where no stage has one."""
    rows = program.stages[0].rect.rows
    slots = -(-program.context // rows)
    room = (rows * max(0, room // (held // slots)) for held, room in program.cache_bytes() if held)
    return min(room, default=program.context)


def prefill_facts(totals: PhaseTotals, prompt_tokens: int, clock_hz: float) -> Report:
    """``prefill``: cycles and their causes, seconds, tokens of all prompts a second."""
    seconds = totals.cycles / clock_hz
    by = {cause: float(value) for cause, value in zip(CAUSES, totals.by_cause, strict=True)}
    return {"cycles": totals.cycles, "s": seconds, "tokens_per_s": prompt_tokens / seconds, "cycles_by": by}


def decode_facts(totals: PhaseTotals, layers: int, clock_hz: float, batch: int) -> Report:
    """``decode``: means over the decoded tokens; ``cycles_by`` sums exactly to ``cycles_per_token``.

    In these cycles each of ``batch`` users gets a token.
    """
    by = {cause: float(value) / totals.runs for cause, value in zip(CAUSES, totals.by_cause, strict=True)}
    cycles = sum(by.values())
    return {
        "cycles_per_token": cycles,
        "cycles_per_layer": totals.layer_cycles / totals.runs / layers,
        "tokens_per_s_per_user": clock_hz / cycles,
        "tokens_per_s": batch * clock_hz / cycles,
        "cycles_by": by,
    }


def fabric_facts(program: Program, totals: PhaseTotals) -> Report:
    """``fabric``: wavelet-hops and the busiest link of a mean token of all users, colours of the busiest stage."""
    facts: Report = {"colours_used": colours_used(program)}
    if totals.runs:
        facts["words_per_token"] = totals.words / totals.runs
        facts["wavelet_hops_per_token"] = totals.hops / totals.runs
        busiest = totals.busiest_links()
        facts["busiest_link_words_per_token"] = (busiest[0].words if busiest else 0) / totals.runs
        facts["busiest_links"] = [
            {
                "wafer": link.plane // len(TOWARDS),
                "row": link.row,
                "col": link.col,
                "to": TOWARDS[link.plane % len(TOWARDS)],
                "words_per_token": link.words / totals.runs,
            }
            for link in busiest[:MOST_LINKS]
        ]
    return facts


def colours_used(program: Program) -> int:
    """Colours that the stage with the most of them occupies."""
    used: dict[int, set[int]] = {}
    for use in program.colour_uses:
        used.setdefault(use.stage, set()).update(range(use.first, use.first + use.colours))
    return max((len(colours) for colours in used.values()), default=0)


def crossing_facts(totals: PhaseTotals, clock_hz: float) -> Report:
    """``crossing``: of a mean decoded token, bytes between wafers and their time, in all and cut by cut; the host's."""
    crossing = float(totals.by_cause[CAUSES.index("crossing")])
    cuts = [
        {"from_wafer": source, "to_wafer": target, "bytes_per_token": carried / totals.runs}
        for (source, target), carried in sorted(totals.crossed.items())
        if HOST not in (source, target)
    ]
    host = sum(carried for ends, carried in totals.crossed.items() if HOST in ends)
    return {
        "bytes_per_token": sum(cut["bytes_per_token"] for cut in cuts),
        "host_bytes_per_token": host / totals.runs,
        "s_per_token": crossing / totals.runs / clock_hz,
        "cuts": cuts,
    }

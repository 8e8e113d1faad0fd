"""Where a Program puts everything, as plain values: what ``wse compile`` reports. Nothing is executed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from wse.fabric.clock import Clock
from wse.fabric.model import Fabric
from wse.fabric.phase_cost import PhaseCost
from wse.program.memory_use import fullest_stage, stage_bytes
from wse.program.phase import Phase
from wse.program.program import Buffer, Program
from wse.program.steps import ROWS
from wse.report.as_json import Report
from wse.request.prepare_run import Prepared
from wse.studies.compile.contention import contention_facts
from wse.studies.compile.reduces import reduce_facts
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

HISTOGRAM_BINS = 12


def placement(prepared: Prepared, program: Program) -> Report:
    """``model``, ``wafer``, ``system``, ``sram``, ``fabric``, and the cycles of the prompt and of a token midway."""
    wafer, spec = prepared.wafer, prepared.spec
    clock, midway, slots, costs = _timed(prepared, program)
    return {
        "model": model_facts(spec, program),
        "wafer": {**wafer_facts(wafer), "sram_bytes_per_pe": wafer.sram_bytes_per_pe, "colours": _colours(prepared)},
        "batch": program.batch,
        "system": {**system_facts(program), "context": program.context},
        "sram": _sram(program, wafer.sram_bytes_per_pe),
        "fabric": {
            **fabric_facts(program, clock.decode),
            "colours": _colour_uses(program),
            "contention": contention_facts(program, costs),
            "reduces": reduce_facts(program, wafer, prepared.software, slots),
        },
        "prefill": prefill_facts(clock.prefill, sum(map(len, prepared.prompts)), wafer.clock_hz),
        "decode": {
            **decode_facts(clock.decode, spec.layer_count, wafer.clock_hz, program.batch),
            "after_tokens": midway,
            **_routing(program),
        },
        "crossing": crossing_facts(clock.decode, wafer.clock_hz),
        **defect_facts(prepared, program, prepared.midway),
    }


def _routing(program: Program) -> Report:
    """``routing``: how tokens are taken to choose experts where nothing is executed."""
    return {"routing": "even"} if any(program.mixtures) else {}


def _timed(prepared: Prepared, program: Program) -> tuple[Clock, int, int, list[tuple[Phase, PhaseCost]]]:
    """Cycles of the prompts, and of one token in the middle of what is asked for; how many precede it, of the user with
    the most; the cache slots in use on the fullest row then; cost by phase."""
    clock = Clock(Fabric(program, prepared.wafer, prepared.software, prepared.meshes))
    costs = [(phase, clock.prefill_chunk(index)) for index, phase in enumerate(program.prefill)]
    (slots, _), cost = clock.decoded(*prepared.midway)
    return clock, max(prepared.midway), slots, [*costs, (program.decode, cost)]


def _colours(prepared: Prepared) -> int:
    """Colours that the wafer's runtime leaves to programs."""
    return prepared.wafer.colours - prepared.wafer.reserved_colours


def _sram(program: Program, sram_bytes: int) -> Report:
    stage = fullest_stage(program)
    placed = program.stages[stage]
    return {
        **sram_facts(program, sram_bytes),
        "stages": [stage_bytes(program, index, sram_bytes) for index in range(len(program.stages))],
        "histogram": histogram(program, sram_bytes),
        "map": {
            "stage": stage,
            "wafer": placed.wafer,
            "row": placed.rect.row,
            "col": placed.rect.col,
            "decode_steps": len(program.decode.steps),
            "buffers": sram_map(program, stage),
        },
    }


def histogram(program: Program, sram_bytes: int) -> list[dict[str, int]]:
    """PEs of all wafers by bytes of SRAM in use: above ``from_bytes``, at most ``to_bytes``.

    The first row, from 0 to 0, counts the PEs outside of all regions.
    """
    edges = [round(sram_bytes * i / HISTOGRAM_BINS) for i in range(HISTOGRAM_BINS + 1)]
    lowest = [(i, stage) for i, stage in enumerate(program.stages) if not program.below(i)]
    sizes = [(program.used_bytes(i), stage.rect.rows * stage.cols) for i, stage in lowest]
    every = program.wafers * program.wafer_rows * program.wafer_cols
    rows = [{"from_bytes": 0, "to_bytes": 0, "pes": every - sum(pes for _, pes in sizes)}]
    for low, high in pairwise(edges):
        rows.append({"from_bytes": low, "to_bytes": high, "pes": sum(p for top, p in sizes if low < top <= high)})
    return rows


def sram_map(program: Program, stage: int) -> list[dict[str, Any]]:
    """The buffers of a stage's PEs by address: name, use, bytes, when they live, and which others take the same bytes.

    ``live`` has, for each phase that touches the buffer, its name, chunk, and first and last step; it is empty where
    the buffer always lives.
    """
    mine = sorted((b for b in program.buffers if b.stage == stage), key=lambda b: (b.address, -b.bytes))
    return [
        {
            "address": buffer.address,
            "bytes": buffer.bytes,
            "name": buffer.name,
            "use": buffer.use,
            "dtype": buffer.element,
            "live": [
                {
                    "phase": program.phases[phase].name,
                    "chunk": phase,
                    "first_step": first,
                    "last_step": last,
                }
                for phase, first, last in buffer.live
            ],
            "shares_with": [other.name for other in mine if other is not buffer and _overlap(buffer, other)],
        }
        for buffer in mine
    ]


def _overlap(a: Buffer, b: Buffer) -> bool:
    return a.address < b.address + b.bytes and b.address < a.address + a.bytes


def _colour_uses(program: Program) -> list[dict[str, Any]]:
    """The colours ``first`` to ``first + colours - 1`` of each pattern of each stage; repainted ones take turns."""
    return [
        {
            "stage": use.stage,
            "pattern": use.pattern,
            "along": "rows" if use.axis == ROWS else "columns",
            "first": use.first,
            "colours": use.colours,
            "repainted": use.repainted,
        }
        for use in program.colour_uses
    ]

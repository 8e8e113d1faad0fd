"""A Program written into a trace: what was compiled, before anything of it runs."""

from __future__ import annotations

from typing import Any

from wse.phase import ROWS
from wse.program import Program
from wse.studies.facts import USES, stage_bytes
from wse_traces.write import TraceWriter


def write_program(writer: TraceWriter, p: Program, sram_bytes: int) -> None:
    """Ops, stages, buffers and colours of a Program, before anything runs."""
    writer.append(
        "op",
        {"name": p.op_names, "kind": p.op_kinds, "layer": p.op_layers, "stage": p.op_stages},
    )
    writer.append("edge", {"src": p.op_edges[:, 0], "dst": p.op_edges[:, 1]})
    used = [stage_bytes(p, i, sram_bytes) for i in range(len(p.stages))]
    has_layers = [s.last_layer > s.first_layer for s in p.stages]
    stages: dict[str, Any] = {
        "wafer": [s.wafer for s in p.stages],
        "row": [s.rect.row for s in p.stages],
        "col": [s.rect.col for s in p.stages],
        "rows": [s.rect.rows for s in p.stages],
        "cols": [s.rect.cols for s in p.stages],
        "first_layer": [s.first_layer if h else -1 for s, h in zip(p.stages, has_layers, strict=True)],
        "last_layer": [s.last_layer - 1 if h else -1 for s, h in zip(p.stages, has_layers, strict=True)],
        "stage_bytes": [[u[use] for use in (*USES, "free")] for u in used],
    }
    writer.append_sram(stages, pe_bytes=sram_bytes)
    _write_buffers(writer, p)
    _write_routes(writer, p)


def _write_buffers(writer: TraceWriter, p: Program) -> None:
    live = [_live_ops(p, b.live) for b in p.buffers]
    writer.append(
        "buffer",
        {
            "stage": [b.stage for b in p.buffers],
            "name": [b.name[:128] for b in p.buffers],
            "use": [USES.index(b.use) for b in p.buffers],
            "address": [b.address for b in p.buffers],
            "bytes": [b.bytes for b in p.buffers],
            "dtype": [b.element for b in p.buffers],
            "live_from": [first for first, _ in live],
            "live_to": [last for _, last in live],
        },
    )


def _live_ops(p: Program, live: tuple[tuple[int, int, int], ...]) -> tuple[int, int]:
    if not live:
        return -1, -1
    ops = [int(p.phases[phase].op[step]) for phase, first, last in live for step in (first, last)]
    return min(ops), max(ops)


def _write_routes(writer: TraceWriter, p: Program) -> None:
    rows = [(use, use.first + i) for use in p.colour_uses for i in range(use.colours)]
    rects = [p.stages[use.stage].rect for use, _ in rows]
    writer.append(
        "route",
        {
            "stage": [use.stage for use, _ in rows],
            "colour": [colour for _, colour in rows],
            "pattern": writer.append_names([use.pattern for use, _ in rows]),
            "axis": [0 if use.axis == ROWS else 1 for use, _ in rows],
            "wafer": [p.stages[use.stage].wafer for use, _ in rows],
            "row": [r.row for r in rects],
            "col": [r.col for r in rects],
            "rows": [r.rows for r in rects],
            "cols": [r.cols for r in rects],
        },
    )

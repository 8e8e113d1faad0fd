"""Recording of what is known before a run: the header, the compiled Program and its placement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import wse
from wse.compiler.placeable import Placeable
from wse.program.memory_use import stage_bytes
from wse.program.program import Program
from wse.program.stage import Stage
from wse.program.steps import ROWS
from wse_traces.header import RunHeader
from wse_traces.schema import PHASES, USES
from wse_traces.writer.write import TraceWriter

TRACED_USES: Final = {"state": "kv"}
"""Uses of SRAM that traces record under the name of another use."""


def trace_header(placeable: Placeable, program: Program, digest: str, seed: int, options: dict[str, Any]) -> RunHeader:
    """Return the header of a trace, which identifies the model, the wafer and the options.

    Args:
        placeable: The request that was compiled.
        program: The compiled Program.
        digest: Hexadecimal digest of the Program.
        seed: Seed for random weights and sampling.
        options: Additional options of the command.
    """
    rows, cols = placeable.fabric_shape[::-1] if program.is_transposed else placeable.fabric_shape
    return RunHeader(
        created_by=f"wse {wse.__version__}",
        model=encode_names(program.model_name),
        wafer=program.wafer_name,
        mapping=program.mapping_name,
        seed=seed,
        program_digest=digest,
        wafers=program.wafers,
        rows=rows,
        cols=cols,
        clock_hz=placeable.wafer.clock_hz,
        options={**encode_names(options), **_options(placeable), **_defects(placeable, program)},
        versions={"wse": wse.__version__, "numpy": np.__version__},
    )


def encode_names(value: Any) -> Any:
    """Replace characters that cannot be encoded as UTF-8 with escape sequences.

    Such characters can occur in file names.

    Args:
        value: Text, dictionary or other value. Dictionaries are converted recursively.
    """
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    return {key: encode_names(item) for key, item in value.items()} if isinstance(value, dict) else value


def _options(placeable: Placeable) -> dict[str, Any]:
    """Return the options of a request that a trace header records, keyed by name."""
    o = placeable.options
    return {
        "dtype": o.dtype,
        "activations": o.activation_type,
        "accumulate": o.accumulate,
        "experts": o.experts,
        "context": o.context,
        "prompt_tokens": o.prompt_tokens[0] if o.batch == 1 else list(o.prompt_tokens),
        "new_tokens": placeable.new_tokens,
        "software": placeable.software.name,
        "region": list(o.region) if o.region else None,
    }


def _defects(placeable: Placeable, program: Program) -> dict[str, Any]:
    """Return the header entries about dead PEs and the live-PE mesh.

    The result is empty if the wafer has no defects.
    """
    if placeable.defects is None or not placeable.meshes:
        return {}
    mesh = [program.wafer_rows, program.wafer_cols]
    return {"defects": encode_names(placeable.defects.option), "defects_seed": placeable.defects.seed, "mesh": mesh}


def write_program(writer: TraceWriter, p: Program, sram_bytes: int) -> None:
    """Write how a compiled model is placed: its stages, ops, SRAM buffers and colours.

    A stage is a part of the model, stored on one region of PEs. A colour is a number that words
    carry; each router has a route for it.

    Args:
        writer: Writer of the trace.
        p: The Program.
        sram_bytes: SRAM size per PE in bytes.
    """
    uses = [stage_bytes(p, i, sram_bytes) for i in range(len(p.stages))]
    # Rows for further wafers of a stage come last, because other tables refer to stages by row number.
    places = [(s.wafer, i) for i, s in enumerate(p.stages)]
    places += [(w, i) for i, s in enumerate(p.stages) for w in s.wafers[1:]]
    stages_placed = [p.stages[i] for _, i in places]
    has_layers = [s.last_layer > s.first_layer for s in stages_placed]
    stages: dict[str, Any] = {
        "wafer": [wafer for wafer, _ in places],
        **{name: [getattr(s.rect, name) for s in stages_placed] for name in ("row", "col", "rows", "cols")},
        "first_layer": [s.first_layer if h else -1 for s, h in zip(stages_placed, has_layers, strict=True)],
        "last_layer": [s.last_layer - 1 if h else -1 for s, h in zip(stages_placed, has_layers, strict=True)],
        "stage_bytes": [_traced_bytes(uses[i]) for _, i in places],
    }
    writer.append_sram(stages, pe_bytes=sram_bytes)
    writer.append_rows("attention", _attention_rows(stages_placed))
    ops: dict[str, Any] = {"name": p.op_names, "kind": p.op_kinds, "layer": p.op_layers, "stage": p.op_stages}
    writer.append("op", ops)
    writer.append("edge", {"src": p.op_edges[:, 0], "dst": p.op_edges[:, 1]})
    writer.append_rows("buffer", _buffer_rows(p))
    writer.append_rows("live", _life_rows(p))
    patterns = writer.append_names([use.pattern for use in p.colour_uses])
    writer.append_rows("route", _route_rows(p, patterns.tolist()))


def _traced_bytes(uses: dict[str, int]) -> list[int]:
    """Return how many bytes of SRAM a PE needs for each use, in the order of `USES`.

    Args:
        uses: Bytes of each use in the Program. Traces combine some of these uses.
    """
    return [sum(size for use, size in uses.items() if TRACED_USES.get(use, use) == traced_use) for traced_use in USES]


def _attention_rows(stages: Sequence[Stage]) -> list[tuple[int, int, int]]:
    """Return the rows of the table ``attention``: for each stage, the PE columns that compute it.

    A row consists of the index of the stage, the first column and the number of columns. Stages
    without attention are omitted. A stage that spans several wafers is listed with all of its
    columns.
    """
    return [
        (index, stage.rect.col, stage.rect.cols)
        if stage.span > 1
        else (index, stage.rect.col + stage.attention[0], stage.attention[1])
        for index, stage in enumerate(stages)
        if stage.has_attention
    ]


def _buffer_rows(p: Program) -> list[tuple[Any, ...]]:
    """Return the rows of the table of SRAM buffers, with the first and last op that need each."""
    return [
        (
            b.stage,
            b.name[:128],
            USES.index(TRACED_USES.get(b.use, b.use)),
            b.address,
            b.bytes,
            b.element,
            *_live_ops(p, b.live),
        )
        for b in p.buffers
    ]


def _life_rows(p: Program) -> list[tuple[int, ...]]:
    """Return the rows of the table that states when each SRAM buffer is needed.

    A row consists of the buffer, the phase, and the first and last step of an interval. All prompt
    chunks have the same phase name. Only the first phase of each name is recorded.
    """
    first = {p.phases[index].name: index for index in reversed(range(len(p.phases)))}
    codes = {first[name]: PHASES.index(name) for name in first}
    return [
        (index, codes[phase], *steps)
        for index, buffer in enumerate(p.buffers)
        for phase, *steps in buffer.live
        if phase in codes
    ]


def _live_ops(p: Program, live: tuple[tuple[int, int, int], ...]) -> tuple[int, int]:
    """Return the first and last op that need a buffer, or (-1, -1) if it is always needed.

    Args:
        p: The Program.
        live: Phase, first step and last step of each interval in which the buffer is needed.
    """
    if not live:
        return -1, -1
    ops = [int(p.phases[phase].steps.op[step]) for phase, first, last in live for step in (first, last)]
    return min(ops), max(ops)


def _route_rows(p: Program, patterns: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the rows of the table of the colours that the patterns of each stage use.

    Args:
        p: The Program.
        patterns: For each of ``Program.colour_uses``, the row of its pattern in the table of names.
    """
    return [
        (use.stage, use.first + i, pattern, 0 if use.axis == ROWS else 1, wafer, *p.stages[use.stage].rect)
        for use, pattern in zip(p.colour_uses, patterns, strict=True)
        for i in range(use.colours)
        for wafer in p.stages[use.stage].wafers
    ]

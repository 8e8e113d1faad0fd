"""Schema of traces, version 1: one ``Field`` for each HDF5 dataset of a trace file.

Writer, reader, validator and FORMAT.md are all driven by this list.

The first axis of a dataset names its *table*. All datasets with the same first axis are columns of
one table: they have the same length and grow together while a run is recorded. *Planes* are an
exception. A plane has a value for each PE, its first axis is ``wafer``, and it is a table of its
own, which has no rows if nothing was recorded.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Final

from wse_traces.field import Field, code_field, end_field, rectangle_fields, reference_field, text_field
from wse_traces.header import RunHeader

FORMAT: Final = "wse-trace"
VERSION: Final = 1
FORMAT_DOC: Final = "python -m wse_traces.format_page"
"""Command that prints the description of the format, wherever the package ``wse`` is installed."""

USES: Final = ("code", "weights", "kv", "activations", "buffers", "free")
CAUSES: Final = ("hops", "relays", "compute", "launch", "crossing", "host")
DIRECTIONS: Final = ("north", "east", "south", "west")
MOVES: Final = (*DIRECTIONS, "ramp")
PHASES: Final = ("prefill", "decode", "verify")
KINDS: Final = ("compute", "transfer", "cross")
LINES: Final = ("row", "col", "both")

HOST: Final = -1
NONE: Final = -1


# Axes whose length is fixed. `row` and `col` have the lengths of the mesh; every other axis is a table.
FIXED_AXES: Final[Mapping[str, int]] = {
    "use": len(USES),
    "cause": len(CAUSES),
    "direction": len(DIRECTIONS),
    "dim": 4,
}
AXIS_LABELS: Final[Mapping[str, tuple[str, ...]]] = {"use": USES, "cause": CAUSES, "direction": DIRECTIONS}


FIELDS: Final[tuple[Field, ...]] = (
    # run
    Field("run/summary", "u1", ("summary_byte",), "byte", "report of the run: a JSON object as UTF-8"),
    # strings
    text_field("strings/names", "name", "names of kernels and patterns"),
    # graph
    text_field("graph/ops/name", "op", "name of the op, unique"),
    text_field("graph/ops/kind", "op", "kind of op"),
    Field("graph/ops/layer", "<i4", ("op",), "layer", "layer of the model, -1: outside of the layers"),
    reference_field("graph/ops/stage", "op", "stage", "stage that runs the op, -1: the host"),
    reference_field("graph/edges/src", "edge", "op", "op that produces the value"),
    reference_field("graph/edges/dst", "edge", "op", "op that uses the value"),
    # placement
    reference_field("placement/stages/wafer", "stage", "wafer", "wafer of the stage"),
    *rectangle_fields("placement/stages", "stage", "its rectangle"),
    Field("placement/stages/first_layer", "<i4", ("stage",), "layer", "first layer of the stage, -1: none"),
    Field("placement/stages/last_layer", "<i4", ("stage",), "layer", "last layer of the stage, -1: none"),
    # sram
    Field(
        "sram/stage_bytes",
        "<i8",
        ("stage", "use"),
        "B/PE",
        "SRAM by use on the fullest PE of the stage; all uses including `free` add up to the SRAM of a PE; "
        "`free` is negative in an estimate of a model that does not fit",
        signed=True,
    ),
    Field("sram/bytes_per_pe", "<i4", ("wafer", "use", "row", "col"), "B", "SRAM by use on every PE", signed=True),
    reference_field("sram/buffers/stage", "buffer", "stage", "stage; the buffer is in its fullest PE"),
    text_field("sram/buffers/name", "buffer", "name of the buffer"),
    code_field("sram/buffers/use", "buffer", USES, "use of the buffer"),
    Field("sram/buffers/address", "<i4", ("buffer",), "B", "first byte in the SRAM of the PE"),
    Field("sram/buffers/bytes", "<i4", ("buffer",), "B", "size"),
    text_field("sram/buffers/dtype", "buffer", "type of the elements"),
    reference_field("sram/buffers/live_from", "buffer", "op", "first op that needs the buffer, -1: always needed"),
    reference_field("sram/buffers/live_to", "buffer", "op", "last op that needs the buffer, -1: always needed"),
    reference_field("lives/buffer", "live", "buffer", "buffer that the steps need"),
    code_field("lives/phase", "live", PHASES, "phase of the steps; for prefill, they are those of the first chunk"),
    Field("lives/first_step", "<i4", ("live",), "index", "first step, counted from the first step of the schedule"),
    Field("lives/last_step", "<i4", ("live",), "index", "last step, counted in the same way"),
    # routes
    reference_field("routes/stage", "route", "stage", "stage that uses the colour, -1: between stages"),
    Field("routes/colour", "<i4", ("route",), "colour", "colour: one of the statically configured routes of a router"),
    reference_field("routes/pattern", "route", "name", "pattern that uses the colour"),
    code_field("routes/axis", "route", LINES, "lines of PEs that the pattern runs along"),
    reference_field("routes/wafer", "route", "wafer", "wafer of its rectangle"),
    *rectangle_fields("routes", "route", "the PEs that set the colour"),
    # schedules and their steps
    code_field("schedules/phase", "schedule", PHASES, "phase of the schedule"),
    Field(
        "schedules/kv_slots", "<i4", ("schedule",), "token", "KV cache slots in use on the fullest mesh row of a region"
    ),
    Field("schedules/first_step", "<i8", ("schedule",), "index", "first row of the schedule in the table of steps"),
    Field("schedules/steps", "<i8", ("schedule",), "1", "number of its rows there, which are consecutive"),
    Field("schedules/cycles", "<i8", ("schedule",), "cycle", "cycles from its start to the end of its last step"),
    reference_field("steps/op", "step", "op", "op that the step belongs to, -1: none"),
    reference_field("steps/stage", "step", "stage", "stage in which the step runs, -1: none"),
    Field("steps/layer", "<i4", ("step",), "layer", "layer of the model, -1: outside of the layers"),
    reference_field("steps/wafer", "step", "wafer", "wafer on which the step runs, -1: the host"),
    code_field("steps/kind", "step", KINDS, "kind of step"),
    reference_field("steps/name", "step", "name", "kernel or pattern, -1: none"),
    Field("steps/start_cycle", "<i8", ("step",), "cycle", "start, counted from the start of the schedule"),
    Field("steps/cycles", "<i8", ("step",), "cycle", "cycles from its start to its end"),
    Field("steps/cycles_by", "<i8", ("step", "cause"), "cycle", "the cycles by cause; they add up to `cycles`"),
    Field(
        "steps/words",
        "<i8",
        ("step",),
        "word",
        "32-bit words sent in every pass, each counted once; `shifts` has further ones",
    ),
    Field("steps/hops", "<i8", ("step",), "wavelet-hop", "links that these words cross, summed over words"),
    *rectangle_fields("steps", "step", "its rectangle"),
    # what was executed
    reference_field("passes/schedule", "pass", "schedule", "schedule that was executed"),
    Field("passes/start_cycle", "<i8", ("pass",), "cycle", "start, counted from the start of the run"),
    Field("passes/wall_s", "<f8", ("pass",), "s", "time that the emulator needed"),
    reference_field("shifts/pass", "shift", "pass", "pass with the cache shift"),
    Field("shifts/step", "<i8", ("shift",), "index", "step, counted from the first step of the schedule"),
    Field("shifts/words", "<i8", ("shift",), "word", "words sent in this pass in addition to those of the schedule"),
    Field("shifts/hops", "<i8", ("shift",), "wavelet-hop", "links that these words cross, summed over words"),
    Field("tokens/id", "<i4", ("token",), "id", "id in the vocabulary, -1: unknown"),
    code_field("tokens/is_prompt", "token", ("generated", "prompt"), "whether the token was read or generated"),
    Field("tokens/sequence", "<i4", ("token",), "index", "sequence of the batch that the token belongs to"),
    Field("tokens/position", "<i4", ("token",), "token", "position in its sequence"),
    reference_field("tokens/pass", "token", "pass", "pass that read or generated the token, -1: none"),
    Field("tokens/cycles", "<i8", ("token",), "cycle", "from the token before it to this one, 0 in a prompt"),
    Field("tokens/wall_s", "<f8", ("token",), "s", "time that the emulator needed, 0 in a prompt"),
    end_field("tokens/text_end", "token", "tokens/text"),
    Field(
        "tokens/text",
        "u1",
        ("text_byte",),
        "byte",
        "UTF-8 bytes of all tokens; the bytes of a single token may be a part of a character",
    ),
    # traffic
    reference_field(
        "crossings/pass", "crossing", "pass", "pass that the transfer belongs to, -1: loading of the model"
    ),
    reference_field("crossings/src_wafer", "crossing", "wafer", "wafer that sends, -1: the host"),
    reference_field("crossings/dst_wafer", "crossing", "wafer", "wafer that receives, -1: the host"),
    Field("crossings/bytes", "<i8", ("crossing",), "B", "number of bytes"),
    Field("crossings/cycles", "<i8", ("crossing",), "cycle", "cycles from the first byte to the last"),
    Field(
        "links/words",
        "<i8",
        ("wafer", "direction", "row", "col"),
        "word",
        "words that leave the PE in the direction, over the whole run",
    ),
    Field(
        "links/patterns/words",
        "<i8",
        ("pattern", "direction", "row", "col"),
        "word",
        "as `links/words` for one layer; row and col are counted from the rectangle of the layer",
    ),
    Field("links/patterns/rows", "<i4", ("pattern",), "PE", "rows of the rectangle; words beyond it are 0"),
    Field("links/patterns/cols", "<i4", ("pattern",), "PE", "columns of the rectangle; words beyond it are 0"),
    Field("links/layers/layer", "<i4", ("placed_layer",), "layer", "layer, -1: everything outside of the layers"),
    reference_field("links/layers/wafer", "placed_layer", "wafer", "wafer of the layer"),
    Field("links/layers/row", "<i4", ("placed_layer",), "PE", "row of the pattern's row 0"),
    Field("links/layers/col", "<i4", ("placed_layer",), "PE", "column of the pattern's column 0"),
    reference_field("links/layers/pattern", "placed_layer", "pattern", "pattern with its words on links"),
    Field("pe/busy_cycles", "<i8", ("wafer", "row", "col"), "cycle", "cycles in which the PE computes, over the run"),
    # optional
    reference_field("attention/stage", "attention", "stage", "stage that contains attention"),
    Field("attention/col", "<i4", ("attention",), "PE", "first column of its rectangle that attention uses"),
    Field("attention/cols", "<i4", ("attention",), "PE", "number of these columns; sums along rows run over them"),
    Field("experts/layer", "<i4", ("expert_load",), "layer", "layer of the experts"),
    Field("experts/expert", "<i4", ("expert_load",), "index", "expert within the layer"),
    Field("experts/tokens", "<i8", ("expert_load",), "token", "tokens that were routed to the expert, over the run"),
    reference_field("routed/pass", "routed", "pass", "pass whose tokens were routed"),
    Field("routed/layer", "<i4", ("routed",), "layer", "layer of the experts"),
    Field("routed/expert", "<i4", ("routed",), "index", "expert within the layer that got any tokens"),
    Field("routed/tokens", "<i4", ("routed",), "token", "tokens of the pass that were routed to the expert"),
    reference_field("tensors/pass", "tensor", "pass", "pass in which the tensor was produced"),
    reference_field("tensors/op", "tensor", "op", "op that produced the tensor"),
    text_field("tensors/dtype", "tensor", "type of the elements, little-endian"),
    Field("tensors/shape", "<i8", ("tensor", "dim"), "1", "shape, padded with leading ones"),
    end_field("tensors/end", "tensor", "tensors/bytes"),
    Field("tensors/bytes", "u1", ("tensor_byte",), "byte", "elements of all tensors, row-major"),
    reference_field("contents/pass", "content", "pass", "pass in which the bytes were read"),
    reference_field("contents/buffer", "content", "buffer", "buffer that contains the bytes"),
    reference_field("contents/wafer", "content", "wafer", "wafer of the PE"),
    Field("contents/row", "<i4", ("content",), "PE", "row of the PE"),
    Field("contents/col", "<i4", ("content",), "PE", "column of the PE"),
    end_field("contents/end", "content", "contents/bytes", "row"),
    Field("contents/bytes", "u1", ("content_byte",), "byte", "bytes of all contents, as stored in SRAM"),
    reference_field("wavelets/pass", "wavelet", "pass", "pass that was simulated"),
    Field("wavelets/step", "<i8", ("wavelet",), "index", "step, counted from the first step of the schedule"),
    Field(
        "wavelets/cycle", "<i8", ("wavelet",), "cycle", "cycle in which the wavelet leaves, from the start of the pass"
    ),
    reference_field("wavelets/wafer", "wavelet", "wafer", "wafer of the router"),
    Field("wavelets/row", "<i4", ("wavelet",), "PE", "row of the PE whose router the wavelet leaves"),
    Field("wavelets/col", "<i4", ("wavelet",), "PE", "column of the PE whose router the wavelet leaves"),
    Field("wavelets/colour", "u1", ("wavelet",), "colour", "colour, counted from the first colour of the step"),
    code_field("wavelets/direction", "wavelet", MOVES, "direction of the move; `ramp`: into the PE"),
    code_field(
        "wavelets/source",
        "wavelet_source",
        MOVES,
        "side from which the wavelet of each row of table `wavelet` came; `ramp`: from the PE",
    ),
)

TABLES: Final[Mapping[str, tuple[Field, ...]]] = {
    table: tuple(f for f in FIELDS if f.table == table) for table in dict.fromkeys(f.table for f in FIELDS)
}
BY_PATH: Final[Mapping[str, Field]] = {f.path: f for f in FIELDS}

NAMES: Final[Mapping[str, str]] = {"op": "graph/ops/name", "name": "strings/names"}
"""Tables whose rows have names, and the columns with these names."""

# Complete rows of each table, in the order of the attribute `labels`.
ROWS: Final = Field(
    "run/rows",
    "<i8",
    ("table",),
    "row",
    "complete rows of each table; `labels` names the tables; further rows must be ignored",
    labels=tuple(TABLES),
)

# Tables whose rows are segments of another table: (table, column with the ends, divided table).
RAGGED: Final = (
    ("token", "tokens/text_end", "text_byte"),
    ("tensor", "tensors/end", "tensor_byte"),
    ("content", "contents/end", "content_byte"),
)


def shape_of(item: Field, header: RunHeader) -> tuple[int, ...]:
    """Return the shape of one row of a dataset: the lengths of all axes except the first.

    Args:
        item: Field that describes the dataset.
        header: Header of the trace, which has the size of the mesh.
    """
    lengths = {**FIXED_AXES, "row": header.rows, "col": header.cols}
    return tuple(lengths[axis] for axis in item.axes[1:])


def flat_names(item: Field) -> list[str]:
    """Return the names of the columns of a flat table in which a dataset is shown.

    A dataset with several values per row, such as the cycles by cause, becomes a column for each
    position on its further axes, with names such as ``cycles_by_hops`` or ``shape_0``.
    """
    places = (AXIS_LABELS.get(axis) or map(str, range(FIXED_AXES[axis])) for axis in item.axes[1:])
    return ["_".join((item.name, *place)) for place in itertools.product(*places)]


def chunk_of(item: Field, header: RunHeader) -> tuple[int, ...]:
    """Return the shape of the HDF5 chunks in which a dataset is compressed and stored.

    A chunk of a plane (a dataset with values for every PE) has at most 256 x 256 PEs of one wafer.
    It has one index of each other axis, such as one link direction. Tables of bytes have 65,536 rows
    per chunk, all other tables 4,096.

    Args:
        item: Field that describes the dataset.
        header: Header of the trace, which has the size of the mesh.
    """
    lengths = shape_of(item, header)
    if item.is_plane:
        return (
            1,
            *(1 if n in FIXED_AXES else min(k, 256) for n, k in zip(item.axes[1:], lengths, strict=True)),
        )
    return (65536 if item.dtype == "u1" and item.table.endswith("_byte") else 4096, *lengths)

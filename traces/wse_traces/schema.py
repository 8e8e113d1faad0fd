"""Schema of traces, version 1: one entry for each dataset. FORMAT.md is generated from this module.

The first axis of a dataset names its *table*. All datasets with the same first axis are columns of
one table and grow together. Planes are an exception: their first axis is ``wafer``, and each is a
table of its own, which is empty if nothing was recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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

TEXT: Final = "S128"  # UTF-8, padded with NUL


@dataclass(frozen=True, slots=True)
class Field:
    """Dataset of the format.

    Numbers are at least 0. The value -1 is allowed as well if ``doc`` says what it means, and any
    value if the field is signed.

    Attributes:
        path: Path of the dataset in the file.
        dtype: Type of the elements.
        axes: Names of the axes. The first is the table, or "wafer" for a plane.
        unit: Unit of the values.
        doc: Description of the values.
        labels: Names of the codes 0, 1, ...; empty if the values are not codes.
        refers: Table that the values are row numbers of, or empty.
        signed: Whether negative values are allowed.
    """

    path: str
    dtype: str
    axes: tuple[str, ...]
    unit: str
    doc: str
    labels: tuple[str, ...] = ()
    refers: str = ""
    signed: bool = False

    @property
    def table(self) -> str:
        """Table that the dataset is a column of. A plane is its own table."""
        return self.path if self.axes[0] == "wafer" else self.axes[0]

    @property
    def name(self) -> str:
        """Name of the column within its table."""
        return self.path.rsplit("/", 1)[1]


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
    Field("strings/names", TEXT, ("name",), "text", "names of kernels and patterns"),
    # graph
    Field("graph/ops/name", TEXT, ("op",), "text", "name of the op, unique"),
    Field("graph/ops/kind", TEXT, ("op",), "text", "kind of op"),
    Field("graph/ops/layer", "<i4", ("op",), "layer", "layer of the model, -1: outside of the layers"),
    Field("graph/ops/stage", "<i4", ("op",), "index", "stage that runs the op, -1: the host", refers="stage"),
    Field("graph/edges/src", "<i4", ("edge",), "index", "op that produces the value", refers="op"),
    Field("graph/edges/dst", "<i4", ("edge",), "index", "op that uses the value", refers="op"),
    # placement
    Field("placement/stages/wafer", "<i4", ("stage",), "index", "wafer of the stage", refers="wafer"),
    Field("placement/stages/row", "<i4", ("stage",), "PE", "first row of its rectangle"),
    Field("placement/stages/col", "<i4", ("stage",), "PE", "first column of its rectangle"),
    Field("placement/stages/rows", "<i4", ("stage",), "PE", "rows of its rectangle"),
    Field("placement/stages/cols", "<i4", ("stage",), "PE", "columns of its rectangle"),
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
    Field("sram/buffers/stage", "<i4", ("buffer",), "index", "stage; the buffer is in its fullest PE", refers="stage"),
    Field("sram/buffers/name", TEXT, ("buffer",), "text", "name of the buffer"),
    Field("sram/buffers/use", "u1", ("buffer",), "code", "use of the buffer", labels=USES),
    Field("sram/buffers/address", "<i4", ("buffer",), "B", "first byte in the SRAM of the PE"),
    Field("sram/buffers/bytes", "<i4", ("buffer",), "B", "size"),
    Field("sram/buffers/dtype", TEXT, ("buffer",), "text", "type of the elements"),
    Field(
        "sram/buffers/live_from",
        "<i4",
        ("buffer",),
        "index",
        "first op that needs the buffer, -1: always needed",
        refers="op",
    ),
    Field(
        "sram/buffers/live_to",
        "<i4",
        ("buffer",),
        "index",
        "last op that needs the buffer, -1: always needed",
        refers="op",
    ),
    Field("lives/buffer", "<i4", ("live",), "index", "buffer that the steps need", refers="buffer"),
    Field(
        "lives/phase",
        "u1",
        ("live",),
        "code",
        "phase of the steps; for prefill, they are those of the first chunk",
        labels=PHASES,
    ),
    Field("lives/first_step", "<i4", ("live",), "index", "first step, counted from the first step of the schedule"),
    Field("lives/last_step", "<i4", ("live",), "index", "last step, counted in the same way"),
    # routes
    Field("routes/stage", "<i4", ("route",), "index", "stage that uses the colour, -1: between stages", refers="stage"),
    Field("routes/colour", "<i4", ("route",), "colour", "colour: one of the statically configured routes of a router"),
    Field("routes/pattern", "<i4", ("route",), "index", "pattern that uses the colour", refers="name"),
    Field("routes/axis", "u1", ("route",), "code", "lines of PEs that the pattern runs along", labels=LINES),
    Field("routes/wafer", "<i4", ("route",), "index", "wafer of its rectangle", refers="wafer"),
    Field("routes/row", "<i4", ("route",), "PE", "first row of the PEs that set the colour"),
    Field("routes/col", "<i4", ("route",), "PE", "first column of the PEs that set the colour"),
    Field("routes/rows", "<i4", ("route",), "PE", "rows of the PEs that set the colour"),
    Field("routes/cols", "<i4", ("route",), "PE", "columns of the PEs that set the colour"),
    # schedules and their steps
    Field("schedules/phase", "u1", ("schedule",), "code", "phase of the schedule", labels=PHASES),
    Field(
        "schedules/kv_slots", "<i4", ("schedule",), "token", "KV cache slots in use on the fullest mesh row of a region"
    ),
    Field("schedules/first_step", "<i8", ("schedule",), "index", "first row of the schedule in the table of steps"),
    Field("schedules/steps", "<i8", ("schedule",), "1", "number of its rows there, which are consecutive"),
    Field("schedules/cycles", "<i8", ("schedule",), "cycle", "cycles from its start to the end of its last step"),
    Field("steps/op", "<i4", ("step",), "index", "op that the step belongs to, -1: none", refers="op"),
    Field("steps/stage", "<i4", ("step",), "index", "stage in which the step runs, -1: none", refers="stage"),
    Field("steps/layer", "<i4", ("step",), "layer", "layer of the model, -1: outside of the layers"),
    Field("steps/wafer", "<i4", ("step",), "index", "wafer on which the step runs, -1: the host", refers="wafer"),
    Field("steps/kind", "u1", ("step",), "code", "kind of step", labels=KINDS),
    Field("steps/name", "<i4", ("step",), "index", "kernel or pattern, -1: none", refers="name"),
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
    Field("steps/row", "<i4", ("step",), "PE", "first row of its rectangle"),
    Field("steps/col", "<i4", ("step",), "PE", "first column of its rectangle"),
    Field("steps/rows", "<i4", ("step",), "PE", "rows of its rectangle"),
    Field("steps/cols", "<i4", ("step",), "PE", "columns of its rectangle"),
    # what was executed
    Field("passes/schedule", "<i4", ("pass",), "index", "schedule that was executed", refers="schedule"),
    Field("passes/start_cycle", "<i8", ("pass",), "cycle", "start, counted from the start of the run"),
    Field("passes/wall_s", "<f8", ("pass",), "s", "time that the emulator needed"),
    Field("shifts/pass", "<i4", ("shift",), "index", "pass with the cache shift", refers="pass"),
    Field("shifts/step", "<i8", ("shift",), "index", "step, counted from the first step of the schedule"),
    Field("shifts/words", "<i8", ("shift",), "word", "words sent in this pass in addition to those of the schedule"),
    Field("shifts/hops", "<i8", ("shift",), "wavelet-hop", "links that these words cross, summed over words"),
    Field("tokens/id", "<i4", ("token",), "id", "id in the vocabulary, -1: unknown"),
    Field(
        "tokens/is_prompt",
        "u1",
        ("token",),
        "code",
        "whether the token was read or generated",
        labels=("generated", "prompt"),
    ),
    Field("tokens/sequence", "<i4", ("token",), "index", "sequence of the batch that the token belongs to"),
    Field("tokens/position", "<i4", ("token",), "token", "position in its sequence"),
    Field("tokens/pass", "<i4", ("token",), "index", "pass that read or generated the token, -1: none", refers="pass"),
    Field("tokens/cycles", "<i8", ("token",), "cycle", "from the token before it to this one, 0 in a prompt"),
    Field("tokens/wall_s", "<f8", ("token",), "s", "time that the emulator needed, 0 in a prompt"),
    Field(
        "tokens/text_end",
        "<i8",
        ("token",),
        "B",
        "end of its bytes in `tokens/text`; they start at the end of the previous token",
    ),
    Field(
        "tokens/text",
        "u1",
        ("text_byte",),
        "byte",
        "UTF-8 bytes of all tokens; the bytes of a single token may be a part of a character",
    ),
    # traffic
    Field(
        "crossings/pass",
        "<i4",
        ("crossing",),
        "index",
        "pass that the transfer belongs to, -1: loading of the model",
        refers="pass",
    ),
    Field("crossings/src_wafer", "<i4", ("crossing",), "index", "wafer that sends, -1: the host", refers="wafer"),
    Field(
        "crossings/dst_wafer",
        "<i4",
        ("crossing",),
        "index",
        "wafer that receives, -1: the host",
        refers="wafer",
    ),
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
    Field("links/layers/wafer", "<i4", ("placed_layer",), "index", "wafer of the layer", refers="wafer"),
    Field("links/layers/row", "<i4", ("placed_layer",), "PE", "row of the pattern's row 0"),
    Field("links/layers/col", "<i4", ("placed_layer",), "PE", "column of the pattern's column 0"),
    Field(
        "links/layers/pattern", "<i4", ("placed_layer",), "index", "pattern with its words on links", refers="pattern"
    ),
    Field("pe/busy_cycles", "<i8", ("wafer", "row", "col"), "cycle", "cycles in which the PE computes, over the run"),
    # optional
    Field("attention/stage", "<i4", ("attention",), "index", "stage that contains attention", refers="stage"),
    Field("attention/col", "<i4", ("attention",), "PE", "first column of its rectangle that attention uses"),
    Field("attention/cols", "<i4", ("attention",), "PE", "number of these columns; sums along rows run over them"),
    Field("experts/layer", "<i4", ("expert_load",), "layer", "layer of the experts"),
    Field("experts/expert", "<i4", ("expert_load",), "index", "expert within the layer"),
    Field("experts/tokens", "<i8", ("expert_load",), "token", "tokens that were routed to the expert, over the run"),
    Field("routed/pass", "<i4", ("routed",), "index", "pass whose tokens were routed", refers="pass"),
    Field("routed/layer", "<i4", ("routed",), "layer", "layer of the experts"),
    Field("routed/expert", "<i4", ("routed",), "index", "expert within the layer that got any tokens"),
    Field("routed/tokens", "<i4", ("routed",), "token", "tokens of the pass that were routed to the expert"),
    Field("tensors/pass", "<i4", ("tensor",), "index", "pass in which the tensor was produced", refers="pass"),
    Field("tensors/op", "<i4", ("tensor",), "index", "op that produced the tensor", refers="op"),
    Field("tensors/dtype", TEXT, ("tensor",), "text", "type of the elements, little-endian"),
    Field("tensors/shape", "<i8", ("tensor", "dim"), "1", "shape, padded with leading ones"),
    Field(
        "tensors/end",
        "<i8",
        ("tensor",),
        "B",
        "end of its bytes in `tensors/bytes`; they start at the end of the previous tensor",
    ),
    Field("tensors/bytes", "u1", ("tensor_byte",), "byte", "elements of all tensors, row-major"),
    Field("contents/pass", "<i4", ("content",), "index", "pass in which the bytes were read", refers="pass"),
    Field("contents/buffer", "<i4", ("content",), "index", "buffer that contains the bytes", refers="buffer"),
    Field("contents/wafer", "<i4", ("content",), "index", "wafer of the PE", refers="wafer"),
    Field("contents/row", "<i4", ("content",), "PE", "row of the PE"),
    Field("contents/col", "<i4", ("content",), "PE", "column of the PE"),
    Field(
        "contents/end",
        "<i8",
        ("content",),
        "B",
        "end of its bytes in `contents/bytes`; they start at the end of the previous row",
    ),
    Field("contents/bytes", "u1", ("content_byte",), "byte", "bytes of all contents, as stored in SRAM"),
    Field("wavelets/pass", "<i4", ("wavelet",), "index", "pass that was simulated", refers="pass"),
    Field("wavelets/step", "<i8", ("wavelet",), "index", "step, counted from the first step of the schedule"),
    Field(
        "wavelets/cycle", "<i8", ("wavelet",), "cycle", "cycle in which the wavelet leaves, from the start of the pass"
    ),
    Field("wavelets/wafer", "<i4", ("wavelet",), "index", "wafer of the router", refers="wafer"),
    Field("wavelets/row", "<i4", ("wavelet",), "PE", "row of the PE whose router the wavelet leaves"),
    Field("wavelets/col", "<i4", ("wavelet",), "PE", "column of the PE whose router the wavelet leaves"),
    Field("wavelets/colour", "u1", ("wavelet",), "colour", "colour, counted from the first colour of the step"),
    Field("wavelets/direction", "u1", ("wavelet",), "code", "direction of the move; `ramp`: into the PE", labels=MOVES),
    Field(
        "wavelets/source",
        "u1",
        ("wavelet_source",),
        "code",
        "side from which the wavelet of each row of table `wavelet` came; `ramp`: from the PE",
        labels=MOVES,
    ),
)

TABLES: Final[Mapping[str, tuple[Field, ...]]] = {
    table: tuple(f for f in FIELDS if f.table == table) for table in dict.fromkeys(f.table for f in FIELDS)
}
BY_PATH: Final[Mapping[str, Field]] = {f.path: f for f in FIELDS}

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
    """Return the shape of one row of a dataset: the lengths of all its axes except the first.

    Args:
        item: Field of the dataset.
        header: Header of the trace, which has the size of the mesh.
    """
    lengths = {**FIXED_AXES, "row": header.rows, "col": header.cols}
    return tuple(lengths[axis] for axis in item.axes[1:])


def chunk_of(item: Field, header: RunHeader) -> tuple[int, ...]:
    """Return the shape of the chunks of a dataset.

    A chunk of a plane has at most 256 x 256 PEs of one wafer and one direction or use. Other
    datasets have a fixed number of rows per chunk.

    Args:
        item: Field of the dataset.
        header: Header of the trace, which has the size of the mesh.
    """
    lengths = shape_of(item, header)
    if "row" in item.axes:
        return (
            1,
            *(1 if n in FIXED_AXES else min(k, 256) for n, k in zip(item.axes[1:], lengths, strict=True)),
        )
    return (65536 if item.dtype == "u1" and item.table.endswith("_byte") else 4096, *lengths)

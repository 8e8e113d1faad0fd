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
        labels: Names of the codes 0, 1, ...; empty if the values are no codes.
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
    Field("run/summary", "u1", ("summary_byte",), "byte", "UTF-8 of a JSON object: the report of the run"),
    # strings
    Field("strings/names", TEXT, ("name",), "text", "names of kernels and patterns"),
    # graph
    Field("graph/ops/name", TEXT, ("op",), "text", "name of the op, unique"),
    Field("graph/ops/kind", TEXT, ("op",), "text", "what the op does"),
    Field("graph/ops/layer", "<i4", ("op",), "layer", "layer of the model, -1 outside of the layers"),
    Field("graph/ops/stage", "<i4", ("op",), "index", "stage that runs it, -1: the host", refers="stage"),
    Field("graph/edges/src", "<i4", ("edge",), "index", "op that produces", refers="op"),
    Field("graph/edges/dst", "<i4", ("edge",), "index", "op that consumes", refers="op"),
    # placement
    Field("placement/stages/wafer", "<i4", ("stage",), "index", "wafer of the stage", refers="wafer"),
    Field("placement/stages/row", "<i4", ("stage",), "PE", "first row of its rectangle"),
    Field("placement/stages/col", "<i4", ("stage",), "PE", "first column of its rectangle"),
    Field("placement/stages/rows", "<i4", ("stage",), "PE", "rows of its rectangle"),
    Field("placement/stages/cols", "<i4", ("stage",), "PE", "columns of its rectangle"),
    Field("placement/stages/first_layer", "<i4", ("stage",), "layer", "first layer it holds, -1: none"),
    Field("placement/stages/last_layer", "<i4", ("stage",), "layer", "last layer it holds, -1: none"),
    # sram
    Field(
        "sram/stage_bytes",
        "<i8",
        ("stage", "use"),
        "B/PE",
        "SRAM by use on the fullest PE of the stage; all uses with `free` add up to the SRAM of a PE, "
        "`free` is below 0 where an estimate is of what does not fit",
        signed=True,
    ),
    Field("sram/bytes_per_pe", "<i4", ("wafer", "use", "row", "col"), "B", "SRAM by use on every PE", signed=True),
    Field("sram/buffers/stage", "<i4", ("buffer",), "index", "stage whose fullest PE it is in", refers="stage"),
    Field("sram/buffers/name", TEXT, ("buffer",), "text", "name of the buffer"),
    Field("sram/buffers/use", "u1", ("buffer",), "code", "what it is for", labels=USES),
    Field("sram/buffers/address", "<i4", ("buffer",), "B", "first byte in the SRAM of the PE"),
    Field("sram/buffers/bytes", "<i4", ("buffer",), "B", "size"),
    Field("sram/buffers/dtype", TEXT, ("buffer",), "text", "type of its elements"),
    Field("sram/buffers/live_from", "<i4", ("buffer",), "index", "first op that needs it, -1: always", refers="op"),
    Field("sram/buffers/live_to", "<i4", ("buffer",), "index", "last op that needs it, -1: always", refers="op"),
    Field("lives/buffer", "<i4", ("live",), "index", "buffer that steps need", refers="buffer"),
    Field("lives/phase", "u1", ("live",), "code", "what they serve; of prompts, the first chunk", labels=PHASES),
    Field("lives/first_step", "<i4", ("live",), "index", "first of them, counted from the first of a schedule"),
    Field("lives/last_step", "<i4", ("live",), "index", "last of them"),
    # routes
    Field("routes/stage", "<i4", ("route",), "index", "stage that uses it, -1: between stages", refers="stage"),
    Field("routes/colour", "<i4", ("route",), "colour", "one of the statically configured routes of a router"),
    Field("routes/pattern", "<i4", ("route",), "index", "name of the pattern", refers="name"),
    Field("routes/axis", "u1", ("route",), "code", "lines of PEs that it runs along", labels=LINES),
    Field("routes/wafer", "<i4", ("route",), "index", "wafer of its rectangle", refers="wafer"),
    Field("routes/row", "<i4", ("route",), "PE", "first row of the PEs that set the colour"),
    Field("routes/col", "<i4", ("route",), "PE", "first column of the PEs that set the colour"),
    Field("routes/rows", "<i4", ("route",), "PE", "rows of the PEs that set the colour"),
    Field("routes/cols", "<i4", ("route",), "PE", "columns of the PEs that set the colour"),
    # schedules and their steps
    Field("schedules/phase", "u1", ("schedule",), "code", "what the schedule serves", labels=PHASES),
    Field(
        "schedules/kv_slots", "<i4", ("schedule",), "token", "KV cache slots in use on the fullest mesh row of a region"
    ),
    Field("schedules/first_step", "<i8", ("schedule",), "index", "its first row in the table of steps"),
    Field("schedules/steps", "<i8", ("schedule",), "1", "its number of rows there, consecutive"),
    Field("schedules/cycles", "<i8", ("schedule",), "cycle", "from its start to the end of its last step"),
    Field("steps/op", "<i4", ("step",), "index", "op that the step belongs to, -1: none", refers="op"),
    Field("steps/stage", "<i4", ("step",), "index", "stage that it runs in, -1: none", refers="stage"),
    Field("steps/layer", "<i4", ("step",), "layer", "layer of the model, -1 outside of the layers"),
    Field("steps/wafer", "<i4", ("step",), "index", "wafer that it runs on, -1: the host", refers="wafer"),
    Field("steps/kind", "u1", ("step",), "code", "kind of step", labels=KINDS),
    Field("steps/name", "<i4", ("step",), "index", "kernel or pattern, -1: none", refers="name"),
    Field("steps/start_cycle", "<i8", ("step",), "cycle", "start, counted from the start of the schedule"),
    Field("steps/cycles", "<i8", ("step",), "cycle", "from its start to its end"),
    Field("steps/cycles_by", "<i8", ("step", "cause"), "cycle", "the cycles by cause; they add up to `cycles`"),
    Field("steps/words", "<i8", ("step",), "word", "32-bit words sent in every pass, each once; `shifts` has others"),
    Field("steps/hops", "<i8", ("step",), "wavelet-hop", "links that wavelets of these cross, summed over wavelets"),
    Field("steps/row", "<i4", ("step",), "PE", "first row of its rectangle"),
    Field("steps/col", "<i4", ("step",), "PE", "first column of its rectangle"),
    Field("steps/rows", "<i4", ("step",), "PE", "rows of its rectangle"),
    Field("steps/cols", "<i4", ("step",), "PE", "columns of its rectangle"),
    # what was executed
    Field("passes/schedule", "<i4", ("pass",), "index", "schedule that was executed", refers="schedule"),
    Field("passes/start_cycle", "<i8", ("pass",), "cycle", "start, counted from the start of the run"),
    Field("passes/wall_s", "<f8", ("pass",), "s", "time that the emulator took"),
    Field("shifts/pass", "<i4", ("shift",), "index", "pass whose cache shift it is", refers="pass"),
    Field("shifts/step", "<i8", ("shift",), "index", "step, counted from the first of the pass's schedule"),
    Field("shifts/words", "<i8", ("shift",), "word", "words that it sends in this pass besides those of the schedule"),
    Field("shifts/hops", "<i8", ("shift",), "wavelet-hop", "links that the wavelets of these cross"),
    Field("tokens/id", "<i4", ("token",), "id", "id in the vocabulary, -1: not known"),
    Field("tokens/is_prompt", "u1", ("token",), "code", "read or generated", labels=("generated", "prompt")),
    Field("tokens/sequence", "<i4", ("token",), "index", "sequence of the batch that it belongs to"),
    Field("tokens/position", "<i4", ("token",), "token", "position in its sequence"),
    Field("tokens/pass", "<i4", ("token",), "index", "pass that read or generated it, -1: none", refers="pass"),
    Field("tokens/cycles", "<i8", ("token",), "cycle", "from the token before it to this one, 0 in a prompt"),
    Field("tokens/wall_s", "<f8", ("token",), "s", "time that the emulator took, 0 in a prompt"),
    Field(
        "tokens/text_end",
        "<i8",
        ("token",),
        "B",
        "end of its bytes in `tokens/text`; they start at the end before",
    ),
    Field("tokens/text", "u1", ("text_byte",), "byte", "bytes of all tokens; whole, but not each alone, UTF-8"),
    # traffic
    Field("crossings/pass", "<i4", ("crossing",), "index", "pass that it belongs to, -1: loading", refers="pass"),
    Field("crossings/src_wafer", "<i4", ("crossing",), "index", "wafer that sends, -1: the host", refers="wafer"),
    Field(
        "crossings/dst_wafer",
        "<i4",
        ("crossing",),
        "index",
        "wafer that receives, -1: the host",
        refers="wafer",
    ),
    Field("crossings/bytes", "<i8", ("crossing",), "B", "bytes that cross"),
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
        "as `links/words` for one layer; row and col count from the layer's rectangle",
    ),
    Field("links/patterns/rows", "<i4", ("pattern",), "PE", "rows of the rectangle, what lies beyond is 0"),
    Field("links/patterns/cols", "<i4", ("pattern",), "PE", "columns of the rectangle, what lies beyond is 0"),
    Field("links/layers/layer", "<i4", ("placed_layer",), "layer", "layer, -1: what belongs to none"),
    Field("links/layers/wafer", "<i4", ("placed_layer",), "index", "wafer that it is on", refers="wafer"),
    Field("links/layers/row", "<i4", ("placed_layer",), "PE", "row of the pattern's row 0"),
    Field("links/layers/col", "<i4", ("placed_layer",), "PE", "column of the pattern's column 0"),
    Field("links/layers/pattern", "<i4", ("placed_layer",), "index", "its words on links", refers="pattern"),
    Field("pe/busy_cycles", "<i8", ("wafer", "row", "col"), "cycle", "cycles that the PE computes, over the run"),
    # optional
    Field("attention/stage", "<i4", ("attention",), "index", "stage with attention of layers", refers="stage"),
    Field("attention/col", "<i4", ("attention",), "PE", "first column of its rectangle that attention works on"),
    Field("attention/cols", "<i4", ("attention",), "PE", "columns from there on; sums along rows go over these"),
    Field("experts/layer", "<i4", ("expert_load",), "layer", "layer of the experts"),
    Field("experts/expert", "<i4", ("expert_load",), "index", "expert within the layer"),
    Field("experts/tokens", "<i8", ("expert_load",), "token", "tokens that were routed to it, over the run"),
    Field("routed/pass", "<i4", ("routed",), "index", "pass whose tokens were routed", refers="pass"),
    Field("routed/layer", "<i4", ("routed",), "layer", "layer of the experts"),
    Field("routed/expert", "<i4", ("routed",), "index", "expert within the layer that got any"),
    Field("routed/tokens", "<i4", ("routed",), "token", "tokens of the pass that were routed to it"),
    Field("tensors/pass", "<i4", ("tensor",), "index", "pass that made it", refers="pass"),
    Field("tensors/op", "<i4", ("tensor",), "index", "op that made it", refers="op"),
    Field("tensors/dtype", TEXT, ("tensor",), "text", "type of its elements, little-endian"),
    Field("tensors/shape", "<i8", ("tensor", "dim"), "1", "shape, padded with 1 in front"),
    Field(
        "tensors/end",
        "<i8",
        ("tensor",),
        "B",
        "end of its bytes in `tensors/bytes`; they start at the end before",
    ),
    Field("tensors/bytes", "u1", ("tensor_byte",), "byte", "elements of all tensors, row-major"),
    Field("contents/pass", "<i4", ("content",), "index", "pass in which it was read", refers="pass"),
    Field("contents/buffer", "<i4", ("content",), "index", "buffer whose bytes these are", refers="buffer"),
    Field("contents/wafer", "<i4", ("content",), "index", "wafer of the PE", refers="wafer"),
    Field("contents/row", "<i4", ("content",), "PE", "row of the PE"),
    Field("contents/col", "<i4", ("content",), "PE", "column of the PE"),
    Field(
        "contents/end",
        "<i8",
        ("content",),
        "B",
        "end of its bytes in `contents/bytes`; they start at the end before",
    ),
    Field("contents/bytes", "u1", ("content_byte",), "byte", "bytes of all of them, as they lay in SRAM"),
    Field("wavelets/pass", "<i4", ("wavelet",), "index", "pass that it was carried out for", refers="pass"),
    Field("wavelets/step", "<i8", ("wavelet",), "index", "step, counted from the first of the pass's schedule"),
    Field("wavelets/cycle", "<i8", ("wavelet",), "cycle", "cycle in which it leaves, from the start of the pass"),
    Field("wavelets/wafer", "<i4", ("wavelet",), "index", "wafer that it is on", refers="wafer"),
    Field("wavelets/row", "<i4", ("wavelet",), "PE", "row of the PE whose router it leaves"),
    Field("wavelets/col", "<i4", ("wavelet",), "PE", "column of the PE whose router it leaves"),
    Field("wavelets/colour", "u1", ("wavelet",), "colour", "colour, counted from the first of its step"),
    Field("wavelets/direction", "u1", ("wavelet",), "code", "where to; `ramp`: into the PE", labels=MOVES),
    Field(
        "wavelets/source",
        "u1",
        ("wavelet_source",),
        "code",
        "where each row of the table `wavelet` came from; `ramp`: from the PE",
        labels=MOVES,
    ),
)

TABLES: Final[Mapping[str, tuple[Field, ...]]] = {
    table: tuple(f for f in FIELDS if f.table == table) for table in dict.fromkeys(f.table for f in FIELDS)
}
BY_PATH: Final[Mapping[str, Field]] = {f.path: f for f in FIELDS}

# Rows of each table that are safely in the file, in the order of its attribute `labels`.
ROWS: Final = Field(
    "run/rows",
    "<i8",
    ("table",),
    "row",
    "rows of each table that are whole; `labels` names the tables, a reader takes no row beyond",
    labels=tuple(TABLES),
)

# Where one table slices another: (table, ends column, sliced table).
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

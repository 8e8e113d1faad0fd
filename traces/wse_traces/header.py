"""Header of a trace: attributes of the root group and of ``run``, known before the first step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

INTERRUPTED: Final = "interrupted"
"""Value of ``ending`` for a run that was stopped by Ctrl-C."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """Facts about a run that are known before its first step.

    Attributes:
        created_by: Program and version that write the trace.
        model: Name of the model.
        wafer: Name of the wafer.
        mapping: Name of the mapping, the rule by which layers are distributed across PEs.
        seed: Seed of random weights and of sampling.
        program_digest: Hexadecimal digest of the compiled Program.
        wafers: Number of wafers.
        rows: Number of PE rows on each wafer.
        cols: Number of PE columns on each wafer.
        clock_hz: Clock frequency of the wafer.
        options: Options of the run, stored as JSON.
        versions: Software versions, stored as JSON.
    """

    created_by: str
    model: str
    wafer: str
    mapping: str
    seed: int
    program_digest: str
    wafers: int
    rows: int
    cols: int
    clock_hz: float
    options: Mapping[str, object] = field(default_factory=dict)
    versions: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attribute:
    """Description of an attribute of a group in a trace file.

    Attributes:
        name: Name of the attribute.
        kind: Python type of the value.
        doc: Description of the value.
        path: Group that has the attribute.
        room_bytes: Bytes reserved for a string that is known only at the end of a run.
    """

    name: str
    kind: type[object]
    doc: str
    path: str = "/"
    room_bytes: int = 0


ATTRIBUTES: Final = (
    Attribute("format", str, "always `wse-trace`"),
    Attribute("version", int, "version of the schema that the file follows"),
    Attribute(
        "format_doc",
        str,
        "command that prints this page if the Python package `wse` is installed; the page is `traces/FORMAT.md` "
        "in its sources",
    ),
    Attribute("complete", bool, "false while the run is in progress, and after a run that was stopped"),
    Attribute(
        "ending",
        str,
        f"why the run ended before it was complete: its error, or `{INTERRUPTED}`; empty while the run is in "
        "progress, after a kill, and in a complete file",
        room_bytes=1024,
    ),
    Attribute("created_by", str, "program and version that wrote the file"),
    Attribute("model", str, "name of the model"),
    Attribute("wafer", str, "name of the wafer"),
    Attribute("mapping", str, "name of the mapping"),
    Attribute("seed", int, "seed of random weights and of sampling"),
    Attribute("program_digest", str, "hexadecimal digest of the compiled Program"),
    Attribute("wafers", int, "number of wafers"),
    Attribute("rows", int, "rows of PEs on each wafer"),
    Attribute("cols", int, "columns of PEs on each wafer"),
    Attribute("clock_hz", float, "cycles per second of the wafer"),
    Attribute("options", str, "JSON object: the options of the run", "run"),
    Attribute("versions", str, "JSON object: the versions of the software that wrote the file", "run"),
)

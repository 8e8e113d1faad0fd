"""The header of a trace: attributes of the root and of ``run``, known before the first step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

INTERRUPTED: Final = "interrupted"
"""The ending of a run that Ctrl-C stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """The facts of a run before its first step: root attributes, and the JSON attributes of the ``run`` group."""

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
    """An attribute of the root, or of the group at ``path``.

    A text that is known at the end alone has ``room_bytes`` from the start.
    """

    name: str
    kind: type[object]
    doc: str
    path: str = "/"
    room_bytes: int = 0


ATTRIBUTES: Final = (
    Attribute("format", str, "always `wse-trace`"),
    Attribute("version", int, "of the schema that the file follows"),
    Attribute(
        "format_doc",
        str,
        "command that prints this page wherever the Python package `wse` is installed; in its sources the page is "
        "`traces/FORMAT.md`",
    ),
    Attribute("complete", bool, "false while the run goes on and for ever after a run that was stopped"),
    Attribute(
        "ending",
        str,
        f"why the run ended before it was complete: its error, or `{INTERRUPTED}`; empty while it goes on, "
        "after a kill, and in a complete file",
        room_bytes=1024,
    ),
    Attribute("created_by", str, "program and version that wrote the file"),
    Attribute("model", str, "name of the model"),
    Attribute("wafer", str, "name of the wafer"),
    Attribute("mapping", str, "name of the mapping"),
    Attribute("seed", int, "of weights that are drawn and of sampling"),
    Attribute("program_digest", str, "hexadecimal digest of the compiled Program"),
    Attribute("wafers", int, "number of wafers"),
    Attribute("rows", int, "rows of PEs on each wafer"),
    Attribute("cols", int, "columns of PEs on each wafer"),
    Attribute("clock_hz", float, "cycles per second of the wafer"),
    Attribute("options", str, "JSON object: the options of the run", "run"),
    Attribute("versions", str, "JSON object: the versions of what made it", "run"),
)

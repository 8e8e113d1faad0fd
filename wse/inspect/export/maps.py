"""What pictures of a wafer show: a number for each PE, and the regions that stages were placed on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from wse.errors import BadTrace, UnknownName
from wse.inspect.query.pe import busy_cycles, link_words, sram_bytes
from wse.inspect.query.stages import Stage, read_stages
from wse_traces.read import Array, Trace
from wse_traces.schema import DIRECTIONS, USES

KINDS: Final = ("sram", "busy", "links", *DIRECTIONS)
_PLANES: Final = {"sram": "sram/bytes_per_pe", "busy": "pe/busy_cycles"}
_LINKS: Final = "links/words"


@dataclass(frozen=True, slots=True, eq=False)
class WaferMap:
    """A number for each PE of a wafer.

    Attributes:
        kind: One of ``KINDS``.
        wafer: The wafer.
        title: What the numbers are.
        unit: What they are counted in.
        values: int64 ``[row, col]``.
        most: The largest value that can be; 0 where nothing limits it.
        outlines: The stages on the wafer by index; none on maps of links where PEs are dead, since links are then in
            rows and columns of the wafer, and stages, as all else, in those of the mesh that programs see.
    """

    kind: str
    wafer: int
    title: str
    unit: str
    values: Array
    most: int
    outlines: Mapping[int, Stage]


def check_maps(kinds: tuple[str, ...]) -> None:
    """Raise UnknownName for a kind of picture that there is not."""
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownName("picture", kind, KINDS, where="--what")


def map_kinds(trace: Trace, kinds: tuple[str, ...]) -> list[str]:
    """The kinds of maps to draw: these, or without any all that were recorded.

    Raises:
        BadTrace: what a map shows was not recorded: links and busy times are known when a run is complete.
    """
    wanted: list[str] = [kind for kind in KINDS if kind in kinds] or [
        kind for kind in KINDS if trace.rows(_plane_of(kind))
    ]
    missing = [kind for kind in wanted if not trace.rows(_plane_of(kind))]
    if missing or not wanted:
        what, state = ", ".join(missing) or "nothing to draw", "" if trace.complete else ", whose run was not completed"
        held = f"--what {what}: not recorded" if missing else what
        message = f"{held} in {trace.path}{state}; choose another, or run again to the end"
        raise BadTrace(message)
    return wanted


def wafer_maps(trace: Trace, kinds: list[str]) -> Iterator[WaferMap]:
    """The maps of these kinds of each wafer; ``links`` are those of all directions together.

    Raises:
        TraceError: the trace is damaged.
    """
    stages = read_stages(trace)
    for wafer in range(trace.header.wafers):
        outlines = {index: stage for index, stage in enumerate(stages) if stage.wafer == wafer}
        for kind in kinds:
            if wafer < trace.rows(_plane_of(kind)):
                on_fabric = kind not in _PLANES and "defects" in trace.header.options
                yield WaferMap(kind, wafer, *_values(trace, kind, wafer), {} if on_fabric else outlines)


def _plane_of(kind: str) -> str:
    return _PLANES.get(kind, _LINKS)


def _values(trace: Trace, kind: str, wafer: int) -> tuple[str, str, Array, int]:
    """Title, unit, values and their limit of a kind of map that was recorded."""
    if kind == "sram":
        uses = np.stack(list(sram_bytes(trace, wafer).values())).astype(np.int64)
        size, free = int(uses.sum(axis=0).max(initial=0)), uses[USES.index("free")]
        return f"SRAM in use, of {size:,} bytes in a PE", "bytes", uses.sum(axis=0) - free, size
    if kind == "busy":
        busy = busy_cycles(trace, wafer)
        assert busy is not None
        return "busy cycles over the run", "cycles", busy, 0
    words = link_words(trace, wafer)
    if kind == "links":
        total = np.sum(list(words.values()), axis=0)
        return "words that leave on all four links, over the run (wavelet-hops)", "words", total, 0
    return f"words that leave to the {kind}, over the run", "words", words[kind], 0

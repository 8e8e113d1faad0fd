"""A strict reader of the text trace of the vendor's simulator, by the grammar in ``docs/formats.md``."""

from __future__ import annotations

import re
from dataclasses import dataclass

SIZE = re.compile(r"@(\d+) dimX=(\d+), dimY=(\d+)")
WAVELET = re.compile(
    r"@(\d+) P(\d+)\.(\d+) \(hwtile\) wavelet C(\d+) ctrl=([01]), idx=[0-9a-f]+, data=[0-9a-f]+ "
    r"\([^()]*\([^()]*\)\), half=\d, ident=([0-9a-f]{16}) landing=([NESWR-]) "
    r"departing=/([E ])([N ])([W ])([S ])([R ])/(, to_ce_from_(?:q|router))?, step=(\d+)"
)
STEP = {"N": (0, -1), "E": (1, 0), "S": (0, 1), "W": (-1, 0)}
OPPOSITE = {"N": "S", "S": "N", "E": "W", "W": "E"}


@dataclass(frozen=True)
class Event:
    """What a wavelet does at a router."""

    cycle: int
    x: int
    y: int
    colour: int
    ident: str
    landing: str
    departing: str
    delivered: str
    step: int


def read_simulator_trace(text: str) -> tuple[tuple[int, int], list[Event]]:
    """Columns and rows of the mesh, and the events. Every line must be one of the two that are known here."""
    lines = text.splitlines()
    size = SIZE.fullmatch(lines[0])
    assert size, lines[0]
    cols, rows = int(size[2]), int(size[3])
    events = []
    for line in lines[1:]:
        found = WAVELET.fullmatch(line)
        assert found, line
        cycle, x, y, colour = (int(found[i]) for i in range(1, 5))
        departing = "".join(found[i] for i in range(8, 13)).replace(" ", "")
        event = Event(cycle, x, y, colour, found[6], found[7], departing, found[13] or "", int(found[14]))
        assert ("R" in departing) == bool(event.delivered), line
        assert x < cols, line
        assert y < rows, line
        assert event.landing != "-" or departing, line
        events.append(event)
    assert [event.cycle for event in events] == sorted(event.cycle for event in events)
    return (cols, rows), events

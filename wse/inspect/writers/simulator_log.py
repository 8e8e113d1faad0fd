"""Wavelets as lines of the text trace that the vendor's simulator writes and the viewer wse-viz reads.

The grammar is in ``docs/formats.md``. It was learnt from that viewer's parser (github.com/davidz-cerebras/wse-viz,
``trace-parser.js`` and ``wavelet.js``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Final

from wse.inspect.export.wavelet_log import RouterEvents
from wse_traces.schema import MOVES

SIDES: Final = ("east", "north", "west", "south", "ramp")
"""The order of sides in ``departing=/ENWSR/``."""
_LETTERS: Final = {"north": "N", "east": "E", "south": "S", "west": "W", "ramp": "R"}
_LANDING: Final = (*(_LETTERS[move] for move in MOVES), "-")  # the last is that of -1: it landed before
_DEPARTING: Final = tuple(
    "".join(_LETTERS[side] if mask >> MOVES.index(side) & 1 else " " for side in SIDES) for mask in range(32)
)
_TO_PE: Final = 1 << MOVES.index("ramp")
_AT_ONCE: Final = 65_536


def write_simulator_log(
    events: RouterEvents, rows: int, cols: int, file: IO[bytes], heard: Callable[[int, int, str], None]
) -> None:
    """Write a line for the size of the mesh, then one for each event."""
    columns = [
        getattr(events, name) for name in ("cycle", "col", "row", "colour", "landing", "leaves", "wavelet", "step")
    ]
    total = len(events.cycle)
    file.write(f"@{events.cycle[0]} dimX={cols}, dimY={rows}\n".encode())
    for start in range(0, total, _AT_ONCE):
        heard(start, total, "wavelets")
        part = zip(*(column[start : start + _AT_ONCE].tolist() for column in columns), strict=True)
        file.write("".join(_line(*event) for event in part).encode())


def _line(cycle: int, x: int, y: int, colour: int, landing: int, leaves: int, wavelet: int, step: int) -> str:
    """What one wavelet does at a router. Control bits and payloads are not logged and stand as 0."""
    delivered = "" if not leaves & _TO_PE else ", to_ce_from_q" if landing < 0 else ", to_ce_from_router"
    return (
        f"@{cycle} P{x}.{y} (hwtile) wavelet C{colour} ctrl=0, idx=0000, data=00000000 (0 (0)), half=0, "
        f"ident={wavelet:016x} landing={_LANDING[landing]} departing=/{_DEPARTING[leaves]}/{delivered}, step={step}\n"
    )

"""Write logs of wavelets in the text format of the vendor's simulator.

The grammar of the format is in ``docs/formats.md``. It was derived from the parser of the viewer
(github.com/davidz-cerebras/wse-viz, ``trace-parser.js`` and ``wavelet.js``).

The format has a number for each wavelet, but our log has none. The numbers come from
`wse.tracing.export.router_events`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Final

from wse.tracing.export.router_events import RouterEvents
from wse_traces.schema import MOVES

SIDES: Final = ("east", "north", "west", "south", "ramp")
"""The order of sides in ``departing=/ENWSR/``."""
_LETTERS: Final = {"north": "N", "east": "E", "south": "S", "west": "W", "ramp": "R"}
_LANDING: Final = (*(_LETTERS[move] for move in MOVES), "-")  # index -1: arrived in an earlier cycle
_DEPARTING: Final = tuple(
    "".join(_LETTERS[side] if mask >> MOVES.index(side) & 1 else " " for side in SIDES) for mask in range(32)
)
_TO_PE: Final = 1 << MOVES.index("ramp")
_EVENTS_AT_ONCE: Final = 65_536


def write_simulator_log(
    events: RouterEvents, rows: int, cols: int, file: IO[bytes], on_progress: Callable[[int, int, str], None]
) -> None:
    """Write router events as a log in the format of the vendor's simulator.

    The first line states the size of the mesh. It is followed by one line for each event.

    Args:
        events: Events of one wafer, in order of their cycle; at least one.
        rows: Rows of PEs on the wafer.
        cols: Columns of PEs on the wafer.
        file: Output file.
        on_progress: Called with the number of events written, their total, and "wavelets".
    """
    columns = [
        getattr(events, name) for name in ("cycle", "col", "row", "colour", "landing", "leaves", "wavelet", "step")
    ]
    total = len(events.cycle)
    file.write(f"@{events.cycle[0]} dimX={cols}, dimY={rows}\n".encode())
    for start in range(0, total, _EVENTS_AT_ONCE):
        on_progress(start, total, "wavelets")
        part = zip(*(column[start : start + _EVENTS_AT_ONCE].tolist() for column in columns), strict=True)
        file.write("".join(_line(*event) for event in part).encode())


def _line(cycle: int, x: int, y: int, colour: int, landing: int, leaves: int, wavelet: int, step: int) -> str:
    """Return the log line of one router event, in the format of the vendor's simulator.

    Control bits and payloads are not logged by wse. They are written as 0.

    Args:
        cycle: Cycle of the event.
        x: Column of the PE.
        y: Row of the PE.
        colour: Colour of the wavelet (a 32-bit word in the fabric).
        landing: Side on which the wavelet arrives, an index in ``_LANDING``.
        leaves: Bit mask of the directions in which the wavelet leaves.
        wavelet: Number that identifies the wavelet within the pass.
        step: Index of the step that sent the wavelet, counted from the first step of the pass.
    """
    delivered = "" if not leaves & _TO_PE else ", to_ce_from_q" if landing < 0 else ", to_ce_from_router"
    return (
        f"@{cycle} P{x}.{y} (hwtile) wavelet C{colour} ctrl=0, idx=0000, data=00000000 (0 (0)), half=0, "
        f"ident={wavelet:016x} landing={_LANDING[landing]} departing=/{_DEPARTING[leaves]}/{delivered}, step={step}\n"
    )

"""The log of wavelets as the text trace that the vendor's simulator writes and the viewer wse-viz reads.

The grammar is in ``docs/formats.md``. It was learnt from that viewer's parser (github.com/davidz-cerebras/wse-viz,
``trace-parser.js`` and ``wavelet.js``). It names each wavelet, so moves are ordered by cycle and given to wavelets:

The log says in which cycle something left which router, by which side and having come by which. Queues of routers are
first in, first out: the n-th that leaves a queue is the n-th that came over the link before it. So each move is
followed back, from router to router, to the PE that sent the wavelet, and all moves of one wavelet have one number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Final

import numpy as np

from wse.errors import BadInput, BadTrace
from wse_traces import schema
from wse_traces.read import Array, Columns, Trace
from wse_traces.replay import wavelet_passes
from wse_traces.schema import MOVES

MOST_MOVES: Final = 2_000_000  # some 300 MB of text
RAMP: Final = MOVES.index("ramp")
WAITED: Final = -1
_DOWN: Final = np.array([-1, 0, 1, 0])  # rows and columns to the neighbour in each direction
_RIGHT: Final = np.array([0, 1, 0, -1])
_PLACE: Final = ("step", "row", "col", "colour")
_READ: Final = ("pass", "wafer", "cycle", "direction", *_PLACE)

SIDES: Final = ("east", "north", "west", "south", "ramp")
"""The order of sides in ``departing=/ENWSR/``."""
_LETTERS: Final = {"north": "N", "east": "E", "south": "S", "west": "W", "ramp": "R"}
_LANDING: Final = (*(_LETTERS[move] for move in MOVES), "-")  # the last is that of -1: it landed before
_DEPARTING: Final = tuple(
    "".join(_LETTERS[side] if mask >> MOVES.index(side) & 1 else " " for side in SIDES) for mask in range(32)
)
_TO_PE: Final = 1 << MOVES.index("ramp")
_AT_ONCE: Final = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class RouterEvents:
    """Moves in the routers of one wafer during a pass, by cycle.

    All arrays are int64 ``[event]``.

    A wavelet that leaves in the cycle in which it came is one event, one that waits two.

    Attributes:
        cycle: Counted from the start of the pass. A wavelet comes in the cycle after that in which it left.
        row: Row of the PE whose router it is.
        col: Its column.
        colour: Counted from the first colour of the step.
        step: Counted from the first of the pass's schedule.
        landing: The side by which it comes, a code of ``MOVES``; ``WAITED`` where it came before.
        leaves: A bit for each of ``MOVES``, by which it leaves; 0: it waits.
        wavelet: Its number, from 1.
    """

    cycle: Array
    row: Array
    col: Array
    colour: Array
    step: Array
    landing: Array
    leaves: Array
    wavelet: Array


def router_events(trace: Trace, wafer: int, cycles: tuple[int, int] | None) -> RouterEvents:
    """Return the events of the last logged pass, all or those in a range of cycles.

    Raises:
        BadTrace: the trace has no log, or none that says where wavelets came from.
        BadInput: there is no such wafer, or nothing moved on it in these cycles, or more than ``MOST_MOVES``.
        TraceError: the log is damaged.
    """
    moves = _moves_of(trace, wafer)
    first = np.ones(len(moves["cycle"]), bool)
    for name in ("cycle", "source", *_PLACE):
        first[1:] &= moves[name][1:] == moves[name][:-1]
    first[1:], first[:1] = ~first[1:], True
    begins, group = np.flatnonzero(first), np.cumsum(first) - 1
    leaves = np.bitwise_or.reduceat(1 << moves["direction"], begins)
    departing = {name: moves[name][begins] for name in ("cycle", "source", *_PLACE)}
    over = np.flatnonzero(moves["direction"] != RAMP)
    side = moves["direction"][over]
    arriving = {name: moves[name][over] for name in ("cycle", *_PLACE)}
    arriving["row"], arriving["col"] = arriving["row"] + _DOWN[side], arriving["col"] + _RIGHT[side]
    arriving["source"] = (side + 2) % 4
    arrival = _match_arrivals(arriving, departing)
    wavelet = _roots(np.where(arrival >= 0, group[over][arrival], WAITED))
    waited = (arrival >= 0) & (departing["cycle"] > arriving["cycle"][arrival] + 1) if len(over) else arrival >= 0
    departures = {
        **departing,
        "landing": np.where(waited, WAITED, departing["source"]),
        "leaves": leaves,
        "wavelet": wavelet,
    }
    alone = np.ones(len(over), bool)
    alone[arrival[(arrival >= 0) & ~waited]] = False
    alone &= (arriving["row"] >= 0) & (arriving["row"] < trace.header.rows)
    alone &= (arriving["col"] >= 0) & (arriving["col"] < trace.header.cols)
    arrivals = {
        **{name: arriving[name][alone] for name in _PLACE},
        "cycle": arriving["cycle"][alone] + 1,
        "landing": arriving["source"][alone],
        "leaves": np.zeros(int(alone.sum()), np.int64),
        "wavelet": wavelet[group[over][alone]],
    }
    names = RouterEvents.__dataclass_fields__
    events = {name: np.concatenate([arrivals[name], departures[name]]) for name in names}
    shown = np.ones(len(events["cycle"]), bool)
    if cycles is not None:
        shown = (events["cycle"] >= cycles[0]) & (events["cycle"] <= cycles[1])
    _check_count(trace, wafer, cycles, events["cycle"], int(shown.sum()))
    order = np.flatnonzero(shown)[np.argsort(events["cycle"][shown], kind="stable")]
    return RouterEvents(**{name: events[name][order] for name in names})


def write_simulator_log(
    events: RouterEvents, rows: int, cols: int, file: IO[bytes], on_progress: Callable[[int, int, str], None]
) -> None:
    """Write a line with the size of the mesh, then one line per event."""
    columns = [
        getattr(events, name) for name in ("cycle", "col", "row", "colour", "landing", "leaves", "wavelet", "step")
    ]
    total = len(events.cycle)
    file.write(f"@{events.cycle[0]} dimX={cols}, dimY={rows}\n".encode())
    for start in range(0, total, _AT_ONCE):
        on_progress(start, total, "wavelets")
        part = zip(*(column[start : start + _AT_ONCE].tolist() for column in columns), strict=True)
        file.write("".join(_line(*event) for event in part).encode())


def _moves_of(trace: Trace, wafer: int) -> Columns:
    """Return the moves of the last logged pass on a wafer, in the logged order."""
    passes, rows = wavelet_passes(trace), trace.rows("wavelet")
    if not passes:
        message = f"{trace.path}: has no log of wavelets; make one: wse run --wavelets --trace FILE"
        raise BadTrace(message)
    if trace.rows("wavelet_source") < rows:
        message = f"{trace.path}: wavelets/source: does not say where all wavelets came from; make the trace again"
        raise BadTrace(message)
    if not 0 <= wafer < trace.header.wafers:
        message = (
            f"--wafer-index {wafer}: {trace.path} has the wafers 0 to {trace.header.wafers - 1}; give one of those"
        )
        raise BadInput(message)
    trace.check_size("wavelets", schema.TABLES["wavelet"], rows)
    moves = {name: trace.column(f"wavelets/{name}").astype(np.int64) for name in _READ}
    moves["source"] = trace.column("wavelets/source")[:rows].astype(np.int64)
    chosen = (moves["pass"] == passes[-1]) & (moves["wafer"] == wafer)
    moves = {name: column[chosen] for name, column in moves.items()}
    limits = {"row": trace.header.rows, "col": trace.header.cols, "direction": len(MOVES), "source": len(MOVES)}
    for name, limit in {**limits, "cycle": 1 << 53, "step": 1 << 31}.items():
        wrong = (moves[name] < 0) | (moves[name] >= limit)
        if wrong.any():
            value = moves[name][wrong][0]
            message = f"{trace.path}: wavelets/{name}: {value}, needed: 0 to {limit - 1}; make the trace again"
            raise BadTrace(message)
    return moves


def _match_arrivals(arriving: Columns, departing: Columns) -> Array:
    """Match each departure from a queue with an arrival in it, int64 ``[departing]``; -1 where there is none before."""
    names = ("source", *_PLACE)
    keys = np.stack([np.concatenate([arriving[name], departing[name]]) for name in names], axis=1)
    queue = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
    size = len(arriving["cycle"])
    arrived, departed = (_queue_numbers(part) for part in (queue[:size], queue[size:]))
    order = np.lexsort((arrived, queue[:size]))
    place = np.stack([queue[:size][order], arrived[order]], axis=1)
    at = _search(place, np.stack([queue[size:], departed], axis=1))
    match = np.full(len(departed), WAITED)
    inside = at < size
    match[inside] = order[at[inside]]
    matches = inside.copy()
    matches[inside] &= (queue[:size][match[inside]] == queue[size:][inside]) & (
        arrived[match[inside]] == departed[inside]
    )
    matches[matches] &= arriving["cycle"][match[matches]] < departing["cycle"][matches]
    return np.where(matches, match, WAITED)


def _queue_numbers(queue: Array) -> Array:
    """Return the index of each member in its queue, in order, int64 ``[n]``."""
    order = np.argsort(queue, kind="stable")
    ordered = queue[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    number = np.empty(len(queue), np.int64)
    number[order] = np.arange(len(queue)) - np.repeat(begins, np.diff(begins, append=len(queue)))
    return number


def _search(pairs: Array, searched_pairs: Array) -> Array:
    """Return the position of each pair in sorted pairs, whether present or not, int64 ``[searched_pairs]``."""
    width = int(max(pairs[:, 1].max(initial=0), searched_pairs[:, 1].max(initial=0))) + 1
    at: Array = np.searchsorted(pairs @ np.array([width, 1]), searched_pairs @ np.array([width, 1]))
    return at


def _roots(parent: Array) -> Array:
    """Return a number from 1 for each item without a parent, and that of its ancestor for each other item."""
    root = np.where(parent >= 0, parent, np.arange(len(parent)))
    for _ in range(len(parent).bit_length()):
        root = root[root]
    return np.unique(root, return_inverse=True)[1].ravel() + 1


def _check_count(trace: Trace, wafer: int, cycles: tuple[int, int] | None, times: Array, shown: int) -> None:
    """Raise BadInput where nothing would be shown, or too much."""
    option = f"--wafer-index {wafer}" if cycles is None else f"--cycles {cycles[0]}-{cycles[1]}"
    if not shown:
        has = f"nothing moved on wafer {wafer}" if not len(times) else f"cycles {times.min()} to {times.max()}"
        message = f"{option}: the log of {trace.path} has {has}; give another"
        raise BadInput(message)
    if shown > MOST_MOVES:
        message = f"--to simulator-log: {shown:,} events, at most {MOST_MOVES:,} are written; choose with --cycles"
        raise BadInput(message)


def _line(cycle: int, x: int, y: int, colour: int, landing: int, leaves: int, wavelet: int, step: int) -> str:
    """Return the line of one wavelet at a router. Control bits and payloads are not logged and are written as 0."""
    delivered = "" if not leaves & _TO_PE else ", to_ce_from_q" if landing < 0 else ", to_ce_from_router"
    return (
        f"@{cycle} P{x}.{y} (hwtile) wavelet C{colour} ctrl=0, idx=0000, data=00000000 (0 (0)), half=0, "
        f"ident={wavelet:016x} landing={_LANDING[landing]} departing=/{_DEPARTING[leaves]}/{delivered}, step={step}\n"
    )

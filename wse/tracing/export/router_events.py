"""Events in routers, reconstructed from the wavelet log of a trace, with a number for each wavelet.

The log does not name wavelets. It only says in which cycle a wavelet left which router, in which
direction, and from which side it had come. Queues of routers are first in, first out: the n-th
wavelet that leaves a queue is the n-th that arrived over the link. Each move is therefore followed
back, from router to router, to the PE that sent the wavelet. All moves of one wavelet get the same
number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from wse.errors import BadInput, BadTrace
from wse_traces import schema
from wse_traces.reader.read import Array, Columns, Trace
from wse_traces.reader.replay import wavelet_passes
from wse_traces.schema import MOVES

MAX_MOVES: Final = 2_000_000  # maximum number of events: about 300 MB of text
RAMP: Final = MOVES.index("ramp")
WAITED: Final = -1
_DOWN: Final = np.array([-1, 0, 1, 0])  # change of row, and below of column, to the neighbour in each direction
_RIGHT: Final = np.array([0, 1, 0, -1])
_PLACE: Final = ("step", "row", "col", "colour")
_READ: Final = ("pass", "wafer", "cycle", "direction", *_PLACE)


@dataclass(frozen=True, slots=True, eq=False)
class RouterEvents:
    """Events in the routers of one wafer during a pass, in order of their cycle.

    A wavelet (32-bit word) that leaves a router in the cycle in which it arrives makes one event. A
    wavelet that waits in the router makes two: arrival and departure. All arrays are int64
    ``[event]``.

    Attributes:
        cycle: Cycle of the event, counted from the start of the pass. A wavelet arrives one cycle
            after it left the previous router.
        row: Row of the router's PE.
        col: Column of the router's PE.
        colour: Colour of the wavelet, counted from the first colour of the step.
        step: Step that the wavelet belongs to, counted from the first step of the pass.
        landing: Side on which the wavelet arrives, a code of ``MOVES``, or ``WAITED`` if it arrived
            in an earlier cycle.
        leaves: Bit mask of the directions in which the wavelet leaves, one bit for each of
            ``MOVES``. 0 means that the wavelet waits.
        wavelet: Number of the wavelet, from 1.
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
    """Reconstruct all router events on one wafer during the last pass whose wavelets were logged.

    The function works in five phases:

    1. Combine the moves by which one wavelet leaves a router in several directions into one
       departure.
    2. List the arrivals: each move over a link arrives at the neighbouring router.
    3. Match each departure with the arrival of the same wavelet, and number the wavelets.
    4. Create the events: all departures, and the arrivals of wavelets that wait or never leave.
    5. Keep the events in the requested range of cycles, in order of time.

    Args:
        trace: Trace with a wavelet log.
        wafer: Index of the wafer.
        cycles: First and last cycle to return, or None for all.

    Raises:
        BadTrace: The trace has no wavelet log, or the log does not record where wavelets came from.
        BadInput: The wafer does not exist, nothing moved on it in these cycles, or there are more
            than ``MAX_MOVES`` events.
        TraceError: The log is damaged.
    """
    moves = _moves_of(trace, wafer)
    departing, departure_of_move = _departures(moves)  # 1
    link_moves, arriving = _arrivals(moves)  # 2
    # 3
    arrival = _match_arrivals(arriving, departing)
    wavelet = _roots(np.where(arrival >= 0, departure_of_move[link_moves][arrival], WAITED))
    # 4
    has_waited = arrival >= 0
    if len(link_moves):
        has_waited &= departing["cycle"] > arriving["cycle"][arrival] + 1
    landing = np.where(has_waited, WAITED, departing["source"])
    departures = {**departing, "landing": landing, "wavelet": wavelet}
    is_separate = np.ones(len(link_moves), bool)
    is_separate[arrival[(arrival >= 0) & ~has_waited]] = False
    is_separate &= (arriving["row"] >= 0) & (arriving["row"] < trace.header.rows)
    is_separate &= (arriving["col"] >= 0) & (arriving["col"] < trace.header.cols)
    arrivals = {
        **{name: arriving[name][is_separate] for name in _PLACE},
        "cycle": arriving["cycle"][is_separate] + 1,
        "landing": arriving["source"][is_separate],
        "leaves": np.zeros(int(is_separate.sum()), np.int64),
        "wavelet": wavelet[departure_of_move[link_moves][is_separate]],
    }
    names = RouterEvents.__dataclass_fields__
    events = {name: np.concatenate([arrivals[name], departures[name]]) for name in names}
    # 5
    is_shown = np.ones(len(events["cycle"]), bool)
    if cycles is not None:
        is_shown = (events["cycle"] >= cycles[0]) & (events["cycle"] <= cycles[1])
    _check_count(trace, wafer, cycles, events["cycle"], int(is_shown.sum()))
    order = np.flatnonzero(is_shown)[np.argsort(events["cycle"][is_shown], kind="stable")]
    return RouterEvents(**{name: events[name][order] for name in names})


def _departures(moves: Columns) -> tuple[Columns, Array]:
    """Convert logged moves to departures of wavelets (32-bit words in the fabric) from routers.

    A wavelet can leave a router in several directions in the same cycle. The log has a move for
    each direction; this function combines them into one departure.

    Args:
        moves: Moves in logged order. The moves of one departure are next to each other.

    Returns:
        The columns of the departures, with the bit mask ``leaves`` of their directions. Also int64
        ``[move]``, the index of each move's departure.
    """
    names = ("cycle", "source", *_PLACE)
    is_first = np.ones(len(moves["cycle"]), bool)
    for name in names:
        is_first[1:] &= moves[name][1:] == moves[name][:-1]
    is_first[1:], is_first[:1] = ~is_first[1:], True
    begins = np.flatnonzero(is_first)
    leaves = np.bitwise_or.reduceat(1 << moves["direction"], begins)
    return {**{name: moves[name][begins] for name in names}, "leaves": leaves}, np.cumsum(is_first) - 1


def _arrivals(moves: Columns) -> tuple[Array, Columns]:
    """Convert moves of wavelets (32-bit words) over links to arrivals at the neighbouring routers.

    The ``cycle`` of an arrival is the cycle in which the wavelet left the previous router. Its row
    or column may be outside the wafer.

    Returns:
        Indices of the moves over links (not into a PE), and the columns of their arrivals.
    """
    link_moves = np.flatnonzero(moves["direction"] != RAMP)
    side = moves["direction"][link_moves]
    arriving = {name: moves[name][link_moves] for name in ("cycle", *_PLACE)}
    arriving["row"], arriving["col"] = arriving["row"] + _DOWN[side], arriving["col"] + _RIGHT[side]
    arriving["source"] = (side + 2) % 4  # a wavelet that leaves eastwards arrives on the west side, and so on
    return link_moves, arriving


def _moves_of(trace: Trace, wafer: int) -> Columns:
    """Return the wavelet moves of the last logged pass on a wafer, in logged order.

    Raises:
        BadTrace: The trace has no complete wavelet log, or a value in it is out of range.
        BadInput: The wafer does not exist.
    """
    passes, rows = wavelet_passes(trace), trace.rows("wavelet")
    if not passes:
        raise BadTrace(f"{trace.path}: has no log of wavelets; make one: wse run --wavelets --trace FILE")
    if trace.rows("wavelet_source") < rows:
        raise BadTrace(
            f"{trace.path}: wavelets/source: does not say where all wavelets came from; make the trace again"
        )
    if not 0 <= wafer < trace.header.wafers:
        raise BadInput(
            f"--wafer-index {wafer}: {trace.path} has the wafers 0 to {trace.header.wafers - 1}; give one of those"
        )
    trace.check_size("wavelets", schema.TABLES["wavelet"], rows)
    moves = {name: trace.column(f"wavelets/{name}").astype(np.int64) for name in _READ}
    moves["source"] = trace.column("wavelets/source")[:rows].astype(np.int64)
    is_chosen = (moves["pass"] == passes[-1]) & (moves["wafer"] == wafer)
    moves = {name: column[is_chosen] for name, column in moves.items()}
    limits = {"row": trace.header.rows, "col": trace.header.cols, "direction": len(MOVES), "source": len(MOVES)}
    for name, limit in {**limits, "cycle": 1 << 53, "step": 1 << 31}.items():
        is_invalid = (moves[name] < 0) | (moves[name] >= limit)
        if is_invalid.any():
            value = moves[name][is_invalid][0]
            raise BadTrace(f"{trace.path}: wavelets/{name}: {value}, needed: 0 to {limit - 1}; make the trace again")
    return moves


def _match_arrivals(arriving: Columns, departing: Columns) -> Array:
    """Find the arrival of each wavelet (32-bit word) that leaves a router.

    A wavelet waits in a queue between its arrival and its departure. Each PE has a queue for each
    side, colour and step. Queues are first in, first out, so the n-th departure from a queue
    belongs to the n-th arrival.

    Args:
        arriving: Columns of the arrivals, each with one value per wavelet: ``cycle``, ``source``
            (side of the router), ``step``, ``row``, ``col`` and ``colour``.
        departing: The same columns of the departures.

    Returns:
        int64 ``[departing]``: index of the arrival of each departing wavelet, or -1 (``WAITED``) if
        it did not arrive before it departed.
    """
    names = ("source", *_PLACE)
    keys = np.stack([np.concatenate([arriving[name], departing[name]]) for name in names], axis=1)
    queue = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
    arrival_queue, departure_queue = np.split(queue, [len(arriving["cycle"])])
    order = np.argsort(arrival_queue, kind="stable")
    begins, ends = (np.searchsorted(arrival_queue[order], departure_queue, side) for side in ("left", "right"))
    at = begins + _queue_numbers(departure_queue)
    match = np.full(len(at), WAITED)
    match[at < ends] = order[at[at < ends]]
    arrives_before = match >= 0
    arrives_before[match >= 0] = arriving["cycle"][match[match >= 0]] < departing["cycle"][match >= 0]
    return np.where(arrives_before, match, WAITED)


def _queue_numbers(queue: Array) -> Array:
    """Number the items of each queue from 0, and return the number of each item.

    Args:
        queue: int64 ``[n]``: queue of each item. Items are in order of time.

    Returns:
        int64 ``[n]``.

    >>> _queue_numbers(np.array([7, 2, 7, 7, 2])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(queue, kind="stable")
    ordered = queue[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    number = np.empty(len(queue), np.int64)
    number[order] = np.arange(len(queue)) - np.repeat(begins, np.diff(begins, append=len(queue)))
    return number


def _roots(parent: Array) -> Array:
    """Number the trees of a forest from 1, and return the number of each item's tree.

    The items are departures of wavelets (32-bit words) from routers. All departures of one wavelet
    form a tree, because the wavelet is copied when it leaves a router in several directions.

    Args:
        parent: int64 ``[n]``: index of the previous departure of the wavelet, negative if none.

    Returns:
        int64 ``[n]``: number of the tree that contains the item.
    """
    root = np.where(parent >= 0, parent, np.arange(len(parent)))
    # Each iteration doubles the number of generations that `root` skips.
    for _ in range(len(parent).bit_length()):
        root = root[root]
    return np.unique(root, return_inverse=True)[1].ravel() + 1


def _check_count(trace: Trace, wafer: int, cycles: tuple[int, int] | None, times: Array, event_count: int) -> None:
    """Raise BadInput if the log would contain no event, or more than ``MAX_MOVES``.

    Args:
        trace: Trace with the log.
        wafer: Index of the wafer.
        cycles: Requested range of cycles, or None.
        times: Times of all events on the wafer, in cycles.
        event_count: Number of events in the requested range.
    """
    option = f"--wafer-index {wafer}" if cycles is None else f"--cycles {cycles[0]}-{cycles[1]}"
    if not event_count:
        log_range = (
            f"no words that moved on wafer {wafer}" if not len(times) else f"cycles {times.min()} to {times.max()}"
        )
        raise BadInput(f"{option}: the log of {trace.path} has {log_range}; give another")
    if event_count > MAX_MOVES:
        raise BadInput(
            f"--to simulator-log: {event_count:,} events, at most {MAX_MOVES:,} are written; choose with --cycles"
        )

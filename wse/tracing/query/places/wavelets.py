"""View of the wavelet log of a trace: a summary of all moves, and the moves of some cycles."""

from __future__ import annotations

from typing import Annotated, Any, Final

import numpy as np

from wse.errors import BadInput, BadTrace
from wse.reports.result import Doc, Result
from wse.tracing.query.costs.steps import phase_of_pass
from wse.tracing.query.view import View
from wse_traces.reader.read import Array, Trace
from wse_traces.reader.replay import wavelet_activity, wavelet_cycles, wavelet_passes, wavelet_words
from wse_traces.schema import DIRECTIONS, MOVES

MAX_MOVES: Final = 500_000  # maximum replayed at once; about 100 bytes each as JSON
_MOVE: Final = ("cycle", "wafer", "row", "col", "direction", "colour", "step")


class BusiestPlace(Result):
    """Link or PE through which the most words moved in a logged pass.

    ``direction`` is None for a PE.
    """

    wafer: Annotated[int, Doc("wafer of the PE")]
    row: Annotated[int, Doc("row of the PE")]
    col: Annotated[int, Doc("column of the PE")]
    direction: Annotated[str | None, Doc("of a link: direction in which it leaves the PE")] = None
    words: Annotated[int, Doc("number of words over the link, or through the router of the PE", "words")]


class Move(Result):
    """Move of a wavelet (32-bit word in the fabric) out of a router.

    The wavelet leaves over a link to a neighbouring PE, or over the ramp into the PE of the router.
    """

    cycle: Annotated[int, Doc("cycle in which the wavelet leaves, from the start of the pass")]
    wafer: Annotated[int, Doc("index of the wafer")]
    row: Annotated[int, Doc("row of the PE whose router the wavelet leaves")]
    col: Annotated[int, Doc("column of that PE")]
    direction: Annotated[str, Doc("direction of the move; `ramp`: into the PE")]
    colour: Annotated[int, Doc("colour, counted from the first colour of the step")]
    step: Annotated[int, Doc("step, counted from the first step of the pass")]


class Wavelets(Result):
    """Summary of the wavelet moves in the last pass that was simulated word by word.

    A wavelet is a 32-bit word in the fabric. ``replayed`` contains the moves in the requested
    cycles.
    """

    pass_: Annotated[int, Doc("index of the pass")]
    phase: Annotated[str, Doc("phase of the pass")]
    passes: Annotated[tuple[int, ...], Doc("all passes that were logged")]
    moves: Annotated[int, Doc("total number of moves")]
    first_cycle: Annotated[int, Doc("first cycle with a move")]
    last_cycle: Annotated[int, Doc("last cycle with a move")]
    moving_cycles: Annotated[int, Doc("number of cycles with a move", "cycles")]
    moving_fraction: Annotated[
        float, Doc("`moving_cycles` as a fraction of the cycles from the first to the last move")
    ]
    wavelet_hops: Annotated[int, Doc("moves over links", "wavelet-hops")]
    busiest_link: Annotated[BusiestPlace | None, Doc("link with the most words")] = None
    busiest_pe: Annotated[BusiestPlace, Doc("PE with the most words through its router")]
    replayed_cycles: Annotated[tuple[int, int] | None, Doc("first and last cycle that were requested")] = None
    replayed: Annotated[tuple[Move, ...] | None, Doc("moves of these cycles, in order of time and place")] = None


class CyclesView(View):
    """View of the wavelet (32-bit word) moves in some cycles.

    It includes a summary of all logged moves.
    """

    wavelets: Annotated[Wavelets, Doc("log of wavelets, with the moves")]

    def table_rows(self) -> list[dict[str, Any]]:
        """Return a row for each move, for output as CSV."""
        return [move.to_dict() for move in self.wavelets.replayed or ()]


def read_wavelets(trace: Trace, cycles: tuple[int, int] | None) -> Wavelets | None:
    """Return a summary of the last logged pass, with the moves in some cycles.

    Args:
        trace: An open trace.
        cycles: First and last cycle whose moves are returned, counted from the start of the pass.
            None returns no moves.

    Returns:
        The summary, or None if the trace has no log and no cycles are requested.

    Raises:
        BadTrace: Cycles are requested, but the trace has no log.
        BadInput: The log has no cycles in the requested range, or too many moves.
        TraceError: The log is damaged.
    """
    passes = wavelet_passes(trace)
    if not passes:
        if cycles is None:
            return None
        raise BadTrace(f"{trace.path}: has no log of wavelets for --cycles; make one: wse run --wavelets --trace FILE")
    moving, moves = wavelet_activity(trace, pass_index=passes[-1])
    first, last = int(moving[0]), int(moving[-1])
    return Wavelets(
        pass_=passes[-1],
        phase=phase_of_pass(trace, passes[-1]),
        passes=tuple(passes),
        moves=int(moves.sum()),
        first_cycle=first,
        last_cycle=last,
        moving_cycles=len(moving),
        moving_fraction=len(moving) / (last - first + 1),
        **_busiest_places(wavelet_words(trace, pass_index=passes[-1])),
        replayed_cycles=cycles,
        replayed=None if cycles is None else _replay(trace, passes[-1], cycles, moving, moves),
    )


def _busiest_places(words: Array) -> dict[str, Any]:
    """Return the total wavelet hops and the busiest link and PE, keyed by ``Wavelets`` field name.

    Args:
        words: int64 ``[wafer, move, row, col]``: number of words that leave each router. The axis
            ``move`` has the directions of the links; its last index is the move into the PE.
    """
    links, routers = words[:, : len(DIRECTIONS)], words.sum(axis=1)
    wafer, direction, row, col = (int(i) for i in np.unravel_index(links.argmax(), links.shape))
    link = BusiestPlace(wafer=wafer, row=row, col=col, direction=DIRECTIONS[direction], words=int(links.max()))
    wafer, row, col = (int(i) for i in np.unravel_index(routers.argmax(), routers.shape))
    return {
        "wavelet_hops": int(links.sum()),
        "busiest_link": link if link.words else None,
        "busiest_pe": BusiestPlace(wafer=wafer, row=row, col=col, words=int(routers.max())),
    }


def _replay(trace: Trace, pass_index: int, cycles: tuple[int, int], moving: Array, moves: Array) -> tuple[Move, ...]:
    """Return the moves in the requested cycles, sorted by time and then by place.

    Args:
        trace: An open trace.
        pass_index: Index of the pass.
        cycles: First and last requested cycle.
        moving: int64 ``[n]``: cycles in which any wavelet moves.
        moves: int64 ``[n]``: number of moves in each of these cycles.

    Raises:
        BadInput: The log has no cycles in the range, or there are more than ``MAX_MOVES`` moves.
    """
    first, last = cycles
    if last < moving[0] or first > moving[-1]:
        log_range = f"the log of {trace.path} has cycles {moving[0]} to {moving[-1]}"
        raise BadInput(f"--cycles {first}-{last}: {log_range}; give some of those")
    move_count = int(moves[(moving >= first) & (moving <= last)].sum())
    if move_count > MAX_MOVES:
        limit = f"at most {MAX_MOVES:,} are replayed at once"
        raise BadInput(f"--cycles {first}-{last}: {move_count:,} moves, {limit}; give fewer cycles")
    replayed = []
    for _, rows in wavelet_cycles(trace, pass_index=pass_index, first=first, last=last):
        for cycle, wafer, row, col, code, colour, step in sorted(zip(*(rows[n].tolist() for n in _MOVE), strict=True)):
            place = {"wafer": wafer, "row": row, "col": col, "direction": MOVES[code]}
            replayed.append(Move(cycle=cycle, **place, colour=colour, step=step))
    return tuple(replayed)

"""The log of wavelets in a trace: where and when words moved, and the moves of some cycles one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np

from wse.errors import BadInput, BadTrace
from wse.reports.result import Doc, Result
from wse.tracing.query.costs.passes import phase_of_pass
from wse.tracing.query.view import View
from wse_traces.read import Array, Trace
from wse_traces.replay import wavelet_activity, wavelet_cycles, wavelet_passes, wavelet_words
from wse_traces.schema import DIRECTIONS, MOVES

MOST_MOVES: Final = 500_000  # replayed at once: as JSON some 100 bytes each
_MOVE: Final = ("cycle", "wafer", "row", "col", "direction", "colour", "step")


@dataclass(frozen=True, kw_only=True)
class BusiestPlace(Result):
    """The link or the PE with the most words."""

    wafer: Annotated[int, Doc("wafer of the PE")]
    row: Annotated[int, Doc("row of the PE")]
    col: Annotated[int, Doc("column of the PE")]
    direction: Annotated[str | None, Doc("side on which the link leaves; of a link")] = None
    words: Annotated[int, Doc("moves over the link; of a PE, out of its router over links and into the PE", "words")]


@dataclass(frozen=True, kw_only=True)
class Move(Result):
    """A wavelet that leaves a router."""

    cycle: Annotated[int, Doc("cycle in which it leaves, from the start of the pass")]
    wafer: Annotated[int, Doc("wafer that it is on")]
    row: Annotated[int, Doc("row of the PE whose router it leaves")]
    col: Annotated[int, Doc("column of that PE")]
    direction: Annotated[str, Doc("where to; `ramp`: into the PE")]
    colour: Annotated[int, Doc("colour, counted from the first of its step")]
    step: Annotated[int, Doc("step, counted from the first of the pass")]


@dataclass(frozen=True, kw_only=True)
class Wavelets(Result):
    """The log of the last pass that was simulated wavelet by wavelet."""

    pass_: Annotated[int, Doc("index of the pass")]
    phase: Annotated[str, Doc("its phase")]
    passes: Annotated[tuple[int, ...], Doc("all passes that were logged")]
    moves: Annotated[int, Doc("moves in all")]
    first_cycle: Annotated[int, Doc("first cycle with a move")]
    last_cycle: Annotated[int, Doc("last cycle with a move")]
    moving_cycles: Annotated[int, Doc("cycles with a move", "cycles")]
    moving_fraction: Annotated[float, Doc("their share of the cycles from the first to the last")]
    wavelet_hops: Annotated[int, Doc("moves over links", "wavelet-hops")]
    busiest_link: Annotated[BusiestPlace | None, Doc("link with the most words")] = None
    busiest_pe: Annotated[BusiestPlace, Doc("PE with the most words through its router")]
    replayed_cycles: Annotated[tuple[int, int] | None, Doc("first and last cycle that were asked for")] = None
    replayed: Annotated[tuple[Move, ...] | None, Doc("moves of these cycles, in order of time and place")] = None


@dataclass(frozen=True, kw_only=True)
class CyclesView(View):
    """Moves of wavelets in some cycles."""

    wavelets: Annotated[Wavelets, Doc("log of wavelets, with the moves")]

    def table_rows(self) -> list[dict[str, Any]]:
        """Return a row for each move."""
        return [move.to_dict() for move in self.wavelets.replayed or ()]


def read_wavelets(trace: Trace, cycles: tuple[int, int] | None) -> Wavelets | None:
    """Return the log of the last logged pass with its moves in some cycles; None without a log.

    Args:
        trace: An open trace.
        cycles: The first and the last cycle to replay, counted from the start of the pass; None replays none.

    Raises:
        BadTrace: cycles are wanted of a trace without a log.
        BadInput: the log ends before the cycles or begins after them, or too much moves in them.
        TraceError: the log is damaged.
    """
    passes = wavelet_passes(trace)
    if not passes:
        if cycles is None:
            return None
        message = f"{trace.path}: has no log of wavelets for --cycles; make one: wse run --wavelets --trace FILE"
        raise BadTrace(message)
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
    """Return the fields with the places of most of ``words``, int64 ``[wafer, move, row, col]``."""
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
    """Return the moves of the cycles, in order of time and place."""
    first, last = cycles
    if last < moving[0] or first > moving[-1]:
        has = f"the log of {trace.path} has cycles {moving[0]} to {moving[-1]}"
        message = f"--cycles {first}-{last}: {has}; give some of those"
        raise BadInput(message)
    move_count = int(moves[(moving >= first) & (moving <= last)].sum())
    if move_count > MOST_MOVES:
        most = f"at most {MOST_MOVES:,} are replayed at once"
        message = f"--cycles {first}-{last}: {move_count:,} moves, {most}; give fewer cycles"
        raise BadInput(message)
    replayed = []
    for _, rows in wavelet_cycles(trace, pass_index=pass_index, first=first, last=last):
        for cycle, wafer, row, col, code, colour, step in sorted(zip(*(rows[n].tolist() for n in _MOVE), strict=True)):
            place = {"wafer": wafer, "row": row, "col": col, "direction": MOVES[code]}
            replayed.append(Move(cycle=cycle, **place, colour=colour, step=step))
    return tuple(replayed)

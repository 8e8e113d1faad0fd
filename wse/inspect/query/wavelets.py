"""What is in a trace's log of wavelets: where and when words moved, and the moves of some cycles one by one."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.errors import BadInput, BadTrace
from wse.inspect.query.number_range import number_range
from wse.inspect.query.opened import Facts
from wse_traces.read import Array, Trace
from wse_traces.replay import wavelet_activity, wavelet_cycles, wavelet_passes, wavelet_words
from wse_traces.schema import DIRECTIONS, MOVES, PHASES

MOST_MOVES: Final = 500_000  # replayed at once: as JSON some 100 bytes each
_SHOWN: Final = ("cycle", "wafer", "row", "col", "direction", "colour", "step")


def cycle_range(text: str) -> tuple[int, int]:
    """The first and the last cycle that ``--cycles FROM-TO`` names. Raises: BadInput if it is no range."""
    return number_range("--cycles", text, what="cycle", example="100-120")


def wavelet_facts(trace: Trace, cycles: tuple[int, int] | None) -> Facts:
    """``wavelets``, where a pass was logged: the last one's moves in all and, with ``cycles``, those in them.

    Words of a link are moves over it; words of a PE are moves out of its router, over links and into the PE.

    Args:
        trace: An open trace.
        cycles: The first and the last cycle to replay, counted from the start of the pass.

    Raises:
        BadTrace: cycles are wanted of a trace without a log.
        BadInput: the log ends before the cycles or begins after them, or too much moves in them.
        TraceError: the log is damaged.
    """
    passes = wavelet_passes(trace)
    if not passes:
        if cycles is None:
            return {}
        message = f"{trace.path}: has no log of wavelets for --cycles; make one: wse run --wavelets --trace FILE"
        raise BadTrace(message)
    moving, moves = wavelet_activity(trace, pass_index=passes[-1])
    first, last = int(moving[0]), int(moving[-1])
    words = wavelet_words(trace, pass_index=passes[-1])
    facts: Facts = {
        "pass": passes[-1],
        "phase": _phase(trace, passes[-1]),
        "passes": passes,
        "moves": int(moves.sum()),
        "first_cycle": first,
        "last_cycle": last,
        "moving_cycles": len(moving),
        "moving_fraction": len(moving) / (last - first + 1),
        **_busiest(words),
    }
    if cycles is not None:
        facts["replayed_cycles"] = list(cycles)
        facts["replayed"] = _replayed(trace, passes[-1], cycles, moving, moves)
    return {"wavelets": facts}


def _phase(trace: Trace, pass_index: int) -> str:
    """The phase of a pass, empty where the trace does not tell."""
    code = pass_index
    for column in ("passes/schedule", "schedules/phase"):
        values = trace.column(column)
        if not 0 <= code < len(values):
            return ""
        code = int(values[code])
    return PHASES[code] if code < len(PHASES) else ""


def _busiest(words: Array) -> Facts:
    """The link and the PE with the most words of ``[wafer, move, row, col]``, and the words on all links."""
    links, routers = words[:, : len(DIRECTIONS)], words.sum(axis=1)
    facts: Facts = {"wavelet_hops": int(links.sum())}
    if facts["wavelet_hops"]:
        wafer, direction, row, col = (int(i) for i in np.unravel_index(links.argmax(), links.shape))
        place = {"wafer": wafer, "row": row, "col": col, "direction": DIRECTIONS[direction]}
        facts["busiest_link"] = {**place, "words": int(links.max())}
    wafer, row, col = (int(i) for i in np.unravel_index(routers.argmax(), routers.shape))
    return {**facts, "busiest_pe": {"wafer": wafer, "row": row, "col": col, "words": int(routers.max())}}


def _replayed(trace: Trace, pass_index: int, cycles: tuple[int, int], moving: Array, moves: Array) -> list[Facts]:
    """The moves of the cycles, in order of time and place."""
    first, last = cycles
    if last < moving[0] or first > moving[-1]:
        has = f"the log of {trace.path} has cycles {moving[0]} to {moving[-1]}"
        message = f"--cycles {first}-{last}: {has}; give some of those"
        raise BadInput(message)
    wanted = int(moves[(moving >= first) & (moving <= last)].sum())
    if wanted > MOST_MOVES:
        most = f"at most {MOST_MOVES:,} are replayed at once"
        message = f"--cycles {first}-{last}: {wanted:,} moves, {most}; give fewer cycles"
        raise BadInput(message)
    found: list[Facts] = []
    for _, rows in wavelet_cycles(trace, pass_index=pass_index, first=first, last=last):
        for move in sorted(zip(*(rows[name].tolist() for name in _SHOWN), strict=True)):
            each = dict(zip(_SHOWN, move, strict=True))
            found.append({**each, "direction": MOVES[each["direction"]]})
    return found

"""A race on a terminal: the answer grows in a panel for each machine, at the machine's pace."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from wse.comparison.race.result import LaneResult, RaceResult
from wse.report.terminal import printable, seconds

FRAMES_PER_S: Final = 20
LINES: Final = 5
"""Lines of an answer that a panel shows: the last of it."""


def show(
    result: RaceResult,
    pieces: Sequence[str],
    console: Console,
    speed: float,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show the answer as it comes, ``speed`` times as fast as it would; until all are through."""
    start = clock()
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while (now := (clock() - start) * speed) < result.duration_s:
            live.update(frame(result, pieces, now, console.width), refresh=True)
            sleep(1 / FRAMES_PER_S)
    console.print(frame(result, pieces, result.duration_s, console.width))


def frame(result: RaceResult, pieces: Sequence[str], now: float, width: int) -> Group:
    """What is there so many seconds behind the request."""
    return Group(*(_panel(lane, pieces, now, width) for lane in result.lanes))


def _panel(lane: LaneResult, pieces: Sequence[str], now: float, width: int) -> Panel:
    pace = lane.pace
    tokens = min(pace.tokens_at(now), len(pieces))
    text = printable("".join(pieces[:tokens]))
    room = (width - 4) * LINES
    if tokens == len(pieces):
        state = f"{tokens:,} tokens in {seconds(lane.done_s)}"
    elif tokens:
        state = f"{tokens:,} tokens, {lane.tokens_per_s:,.0f} a second"
    else:
        state = "in the queue" if now < pace.queue_s else "on the way, and the prompt is read"
    shown = text if len(text) <= room else "…" + text[1 - room :]
    style = "green" if tokens == len(pieces) else "white" if tokens else "bright_black"
    return Panel(
        Text(shown),
        title=Text(printable(pace.name)),
        subtitle=Text(state),
        title_align="left",
        style=style,
        height=LINES + 2,
    )

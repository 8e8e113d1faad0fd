"""Result fields ``fabric`` and ``crossing``: words on links and inter-wafer bytes per token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.run_totals import PhaseTotals
from wse.program.program import Program
from wse.program.steps import HOST
from wse.reports.result import Doc, Result

Side = Literal["north", "east", "south", "west"]
TOWARDS: tuple[Side, ...] = ("north", "east", "south", "west")
"""Sides of a PE, in the order of the link planes of a wafer."""
MAX_LINKS = 4
"""Maximum number of reported links."""


@dataclass(frozen=True, kw_only=True)
class BusyLink(Result):
    """One of the links between two PEs that carry the most words."""

    wafer: Annotated[int, Doc("index of its wafer")]
    row: Annotated[int, Doc("row of the PE that sends")]
    col: Annotated[int, Doc("column of the PE that sends")]
    to: Annotated[Side, Doc("side of that PE where the link is")]
    words_per_token: Annotated[float, Doc("32-bit words on the link", "words")]


@dataclass(frozen=True, kw_only=True)
class FabricResult(Result):
    """Link traffic per decoded token, averaged over all users, and the number of colours in use.

    A colour is a route for which routers are configured. The traffic fields are absent if no token
    is decoded.
    """

    colours_used: Annotated[int, Doc("colours used by the stage that uses the most colours")]
    words_per_token: Annotated[float | None, Doc("words of all messages", "words")] = None
    wavelet_hops_per_token: Annotated[float | None, Doc("hops of these words over links", "hops")] = None
    busiest_link_words_per_token: Annotated[float | None, Doc("words on the busiest link", "words")] = None
    busiest_links: Annotated[tuple[BusyLink, ...] | None, Doc("the busiest links, the busiest first")] = None


@dataclass(frozen=True, kw_only=True)
class CutResult(Result):
    """Bytes that one wafer sends to another wafer per decoded token."""

    from_wafer: Annotated[int, Doc("index of the wafer that sends")]
    to_wafer: Annotated[int, Doc("index of the wafer that receives")]
    bytes_per_token: Annotated[float, Doc("bytes for a decoded token", "B")]


@dataclass(frozen=True, kw_only=True)
class CrossingResult(Result):
    """Bytes sent between wafers and to and from the host per decoded token, averaged over users."""

    bytes_per_token: Annotated[float, Doc("bytes between all pairs of wafers", "B")]
    host_bytes_per_token: Annotated[float, Doc("bytes to and from the host", "B")]
    s_per_token: Annotated[float, Doc("time that crossings add to a token", "s")]
    cuts: Annotated[tuple[CutResult, ...], Doc("pairs of a sending and a receiving wafer")]


def fabric_result(program: Program, totals: PhaseTotals) -> FabricResult:
    """Return the link traffic of the mean decode pass, and the number of colours in use."""
    if not totals.runs:
        return FabricResult(colours_used=colours_used(program))
    busiest = totals.busiest_links()
    return FabricResult(
        colours_used=colours_used(program),
        words_per_token=totals.words / totals.runs,
        wavelet_hops_per_token=totals.hops / totals.runs,
        busiest_link_words_per_token=(busiest[0].words if busiest else 0) / totals.runs,
        busiest_links=tuple(
            BusyLink(
                wafer=link.plane // len(TOWARDS),
                row=link.row,
                col=link.col,
                to=TOWARDS[link.plane % len(TOWARDS)],
                words_per_token=link.words / totals.runs,
            )
            for link in busiest[:MAX_LINKS]
        ),
    )


def colours_used(program: Program) -> int:
    """Return the number of colours in the stage that uses the most colours.

    A colour is a route for which routers are configured.
    """
    colours_by_stage: dict[int, set[int]] = {}
    for use in program.colour_uses:
        colours_by_stage.setdefault(use.stage, set()).update(range(use.first, use.first + use.colours))
    return max((len(colours) for colours in colours_by_stage.values()), default=0)


def crossing_result(totals: PhaseTotals, clock_hz: float) -> CrossingResult:
    """Return the bytes and time of inter-wafer transfers, averaged over decoded tokens.

    Bytes to and from the host are counted separately.

    Args:
        totals: Bytes and cycles, summed over all decoded tokens.
        clock_hz: Clock frequency of the wafer.
    """
    crossing = float(totals.by_cause[CAUSES.index("crossing")])
    cuts = tuple(
        CutResult(from_wafer=source, to_wafer=target, bytes_per_token=total_bytes / totals.runs)
        for (source, target), total_bytes in sorted(totals.crossed.items())
        if HOST not in (source, target)
    )
    host_bytes = sum(total_bytes for ends, total_bytes in totals.crossed.items() if HOST in ends)
    return CrossingResult(
        bytes_per_token=sum(cut.bytes_per_token for cut in cuts),
        host_bytes_per_token=host_bytes / totals.runs,
        s_per_token=crossing / totals.runs / clock_hz,
        cuts=cuts,
    )

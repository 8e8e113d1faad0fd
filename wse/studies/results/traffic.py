"""``fabric`` and ``crossing`` of a result: words of a decoded token over links, and bytes between wafers."""

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
MOST_LINKS = 4


@dataclass(frozen=True, kw_only=True)
class BusyLink(Result):
    """A link that is among the busiest."""

    wafer: Annotated[int, Doc("index of its wafer")]
    row: Annotated[int, Doc("row of the PE that sends")]
    col: Annotated[int, Doc("column of the PE that sends")]
    to: Annotated[Side, Doc("side of that PE where the link is")]
    words_per_token: Annotated[float, Doc("words of 32 bits over it", "words")]


@dataclass(frozen=True, kw_only=True)
class FabricResult(Result):
    """Colours in use, and the words that a mean decoded token of all users sends; absent where nothing is decoded."""

    colours_used: Annotated[int, Doc("colours that the stage with the most of them uses")]
    words_per_token: Annotated[float | None, Doc("words that messages carry", "words")] = None
    wavelet_hops_per_token: Annotated[float | None, Doc("links that these words go over", "hops")] = None
    busiest_link_words_per_token: Annotated[float | None, Doc("words over the busiest link", "words")] = None
    busiest_links: Annotated[tuple[BusyLink, ...] | None, Doc("the busiest links, the busiest first")] = None


@dataclass(frozen=True, kw_only=True)
class CutResult(Result):
    """Bytes from one wafer to another."""

    from_wafer: Annotated[int, Doc("index of the wafer that sends")]
    to_wafer: Annotated[int, Doc("index of the wafer that receives")]
    bytes_per_token: Annotated[float, Doc("bytes for a decoded token", "B")]


@dataclass(frozen=True, kw_only=True)
class CrossingResult(Result):
    """Bytes that a mean decoded token of all users sends between wafers, and to and from the host."""

    bytes_per_token: Annotated[float, Doc("bytes between wafers, of all cuts", "B")]
    host_bytes_per_token: Annotated[float, Doc("bytes to and from the host", "B")]
    s_per_token: Annotated[float, Doc("time in which nothing else happens", "s")]
    cuts: Annotated[tuple[CutResult, ...], Doc("each pair of wafers that send to each other")]


def fabric_result(program: Program, totals: PhaseTotals) -> FabricResult:
    """Wavelet hops and the busiest links of a mean token of all users, and colours of the stage with the most."""
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
            for link in busiest[:MOST_LINKS]
        ),
    )


def colours_used(program: Program) -> int:
    """Colours that the stage with the most of them occupies."""
    colours_by_stage: dict[int, set[int]] = {}
    for use in program.colour_uses:
        colours_by_stage.setdefault(use.stage, set()).update(range(use.first, use.first + use.colours))
    return max((len(colours) for colours in colours_by_stage.values()), default=0)


def crossing_result(totals: PhaseTotals, clock_hz: float) -> CrossingResult:
    """Bytes between wafers of a mean decoded token and their time, in all and cut by cut, and the host's bytes."""
    crossing = float(totals.by_cause[CAUSES.index("crossing")])
    cuts = tuple(
        CutResult(from_wafer=source, to_wafer=target, bytes_per_token=carried / totals.runs)
        for (source, target), carried in sorted(totals.crossed.items())
        if HOST not in (source, target)
    )
    host = sum(carried for ends, carried in totals.crossed.items() if HOST in ends)
    return CrossingResult(
        bytes_per_token=sum(cut.bytes_per_token for cut in cuts),
        host_bytes_per_token=host / totals.runs,
        s_per_token=crossing / totals.runs / clock_hz,
        cuts=cuts,
    )

"""Result fields ``prefill``, ``decode``, ``fabric`` and ``crossing``: cycles, rates and traffic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from wse.arrays import F64
from wse.backends.fabric.causes import CAUSES
from wse.program.steps import HOST
from wse.reports.colours import CAUSES as COLOURS
from wse.reports.result import Doc, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from wse.backends.fabric.model import Fabric
    from wse.backends.fabric.run_totals import PhaseTotals
    from wse.compiler.placeable import Placeable
    from wse.program.program import Program


def mean_token_cycles(fabric: Fabric, placeable: Placeable) -> float:
    """Return the cycles of a decode pass, averaged over all decode passes of a request.

    Later passes take longer, because more tokens are in the KV caches. If each user gets only one
    new token, which prefill already yields, the result is the cycle count of the pass that would
    follow.

    Args:
        fabric: Timing model of the compiled request.
        placeable: The request, with its prompt lengths and its number of new tokens.
    """
    passes = max(1, placeable.new_tokens - 1)
    classes = fabric.decode_costs(placeable.options.prompt_tokens, passes)
    return sum(token_class.cost.cycles * token_class.tokens for token_class in classes) / passes


Cause = Literal["hops", "relays", "compute", "launch", "crossing", "host"]
"""Causes of cycles, in JSON key order (`wse.backends.fabric.causes`)."""
CyclesBy = Mapping[Cause, float]


class PrefillResult(Result):
    """Cycles and duration of prefill, in which the prompts of all users are processed."""

    cycles: Annotated[float, Doc("cycles of all chunks of all prompts, one at a time", "cycles")]
    s: Annotated[float, Doc("time of these cycles", "s")]
    ttft_s: Annotated[float, Doc("time to first token (TTFT) of the last user, chunks pipelined through stages", "s")]
    tokens_per_s: Annotated[float, Doc("tokens of all prompts, divided by TTFT", "tokens/s")]
    cycles_by: Annotated[CyclesBy, Doc("the cycles by cause", "cycles")]


class DecodeResult(Result):
    """Cycles and speed of decoding, averaged over all decode passes.

    A decode pass generates one token per user in the batch.
    """

    cycles_per_token: Annotated[float, Doc("cycles of a token of each user", "cycles")]
    cycles_per_layer: Annotated[float, Doc("cycles of a layer of such a token", "cycles")]
    tokens_per_s_per_user: Annotated[float, Doc("tokens that each user gets", "tokens/s")]
    tokens_per_s: Annotated[float, Doc("tokens that all users of the batch get", "tokens/s")]
    cycles_by: Annotated[CyclesBy, Doc("the cycles of a token by cause; adds up to `cycles_per_token`", "cycles")]
    routing: Annotated[
        str | None, Doc("how experts are assumed to be chosen: `even`, or as `--routing` says; of compile")
    ] = None


def prefill_result(totals: PhaseTotals, prompt_tokens: int, clock_hz: float, ttft_s: float) -> PrefillResult:
    """Return the cycles, time and rate of prefill, in which the prompts of all users are processed.

    Args:
        totals: Cycles summed over all chunks of all prompts.
        prompt_tokens: Total number of prompt tokens that are processed.
        clock_hz: Clock frequency of the wafer.
        ttft_s: Time to first token for the last user, in seconds.
    """
    return PrefillResult(
        cycles=totals.cycles,
        s=totals.cycles / clock_hz,
        ttft_s=ttft_s,
        tokens_per_s=prompt_tokens / ttft_s,
        cycles_by=cycles_by_cause(totals.by_cause),
    )


def decode_result(
    totals: PhaseTotals,
    layers: int,
    clock_hz: float,
    batch: int,
    *,
    routing: str | None = None,
) -> DecodeResult:
    """Return the cycles and speed of decoding, averaged over all decode passes.

    Args:
        totals: Cycles summed over all decode passes.
        layers: Number of model layers.
        clock_hz: Clock frequency of the wafer.
        batch: Number of users decoded in one pass.
        routing: How tokens are assumed to select experts. It is only stored in the result; None
            leaves it out.
    """
    cycles_by = cycles_by_cause(totals.by_cause / totals.runs)
    cycles = sum(cycles_by.values())
    return DecodeResult(
        cycles_per_token=cycles,
        cycles_per_layer=totals.layer_cycles / totals.runs / layers,
        tokens_per_s_per_user=clock_hz / cycles,
        tokens_per_s=batch * clock_hz / cycles,
        cycles_by=cycles_by,
        routing=routing,
    )


def cycles_by_cause(values: F64) -> CyclesBy:
    """Convert an array with the cycles of each cause, such as hops, to a dict keyed by cause."""
    return {cause: float(value) for cause, value in zip(CAUSES, values, strict=True)}  # type: ignore[misc]


def causes_figure(rows: Mapping[str, CyclesBy], title: str) -> Figure:
    """Draw one stacked bar of cycles per row, with a colour for each cause, such as hops.

    Args:
        rows: Cycles per cause, keyed by the label of the bar.
        title: Title of the figure.
    """
    from wse.reports.figure import NotebookFigure

    figure = NotebookFigure(figsize=(7, 1.2 + 0.28 * len(rows)), layout="constrained")
    axes: Any = figure.subplots()
    starts = [0.0] * len(rows)
    for cause in get_args(Cause):
        widths = [by.get(cause, 0.0) for by in rows.values()]
        if any(widths):
            axes.barh(list(rows), widths, left=starts, color=COLOURS[cause].light, label=cause)
            starts = [start + width for start, width in zip(starts, widths, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("cycles")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.set_title(title)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


Side = Literal["north", "east", "south", "west"]
TOWARDS: tuple[Side, ...] = ("north", "east", "south", "west")
"""Sides of a PE, in the order of the link planes of a wafer."""
MAX_LINKS = 4
"""Maximum number of reported links."""


class BusyLink(Result):
    """A link between neighbouring PEs that carries more words than most other links."""

    wafer: Annotated[int, Doc("index of its wafer")]
    row: Annotated[int, Doc("row of the PE that sends")]
    col: Annotated[int, Doc("column of the PE that sends")]
    to: Annotated[Side, Doc("side of that PE where the link is")]
    words_per_token: Annotated[float, Doc("32-bit words on the link, for a token of each user", "words")]


class FabricResult(Result):
    """Mean link traffic of a decode pass, and the number of colours in use.

    A decode pass generates one token per user in the batch. A colour is a number that selects a route in
    each router. The traffic fields are absent if no token is decoded.
    """

    colours_used: Annotated[int, Doc("colours used by the stage that uses the most colours")]
    words_per_token: Annotated[float | None, Doc("words of all messages, for a token of each user", "words")] = None
    wavelet_hops_per_token: Annotated[float | None, Doc("hops of these words over links", "hops")] = None
    busiest_link_words_per_token: Annotated[
        float | None, Doc("words on the busiest link, for a token of each user", "words")
    ] = None
    busiest_links: Annotated[tuple[BusyLink, ...] | None, Doc("the busiest links, the busiest first")] = None


class CutResult(Result):
    """Bytes that one wafer sends to another wafer in a mean decode pass (one token per user)."""

    from_wafer: Annotated[int, Doc("index of the wafer that sends")]
    to_wafer: Annotated[int, Doc("index of the wafer that receives")]
    bytes_per_token: Annotated[float, Doc("bytes for a token of each user", "B")]


class CrossingResult(Result):
    """Bytes sent between wafers, and to and from the host, in a mean decode pass.

    A decode pass generates one token per user in the batch.
    """

    bytes_per_token: Annotated[float, Doc("bytes between all pairs of wafers, for a token of each user", "B")]
    host_bytes_per_token: Annotated[float, Doc("bytes to and from the host, for a token of each user", "B")]
    s_per_token: Annotated[float, Doc("time that crossings add to a token of each user", "s")]
    cuts: Annotated[tuple[CutResult, ...], Doc("pairs of a sending and a receiving wafer")]


def fabric_result(program: Program, totals: PhaseTotals) -> FabricResult:
    """Return the mean link traffic per decode pass, and the number of colours in use.

    A colour is a number that selects a route in each router.

    Args:
        program: The compiled model.
        totals: Words and hops, summed over all decode passes. Without decode passes, the result
            contains only the number of colours.
    """
    if not totals.runs:
        return FabricResult(colours_used=colours_used(program))
    busiest = totals.busiest_links()
    return FabricResult(
        colours_used=colours_used(program),
        words_per_token=totals.words / totals.runs,
        wavelet_hops_per_token=totals.hops / totals.runs,
        busiest_link_words_per_token=(busiest[0].words if busiest else 0) / totals.runs,
        busiest_links=tuple(
            BusyLink.from_parts(
                link,
                wafer=link.plane // len(TOWARDS),
                to=TOWARDS[link.plane % len(TOWARDS)],
                words_per_token=link.words / totals.runs,
            )
            for link in busiest[:MAX_LINKS]
        ),
    )


def colours_used(program: Program) -> int:
    """Return the maximum number of colours that any stage uses.

    A colour is a number that selects a route in each router. A stage is a part of the model, stored
    on one region of PEs.
    """
    colours_by_stage: dict[int, set[int]] = {}
    for use in program.colour_uses:
        colours_by_stage.setdefault(use.stage, set()).update(range(use.first, use.first + use.colours))
    return max((len(colours) for colours in colours_by_stage.values()), default=0)


def crossing_result(totals: PhaseTotals, clock_hz: float) -> CrossingResult:
    """Return the mean bytes and time of inter-wafer transfers per decode pass.

    A decode pass generates one token per user. Bytes to and from the host are counted separately.

    Args:
        totals: Bytes and cycles, summed over all decode passes.
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

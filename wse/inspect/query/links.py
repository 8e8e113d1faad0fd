"""The links with the most words over the run, and the layers whose words they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, NamedTuple

import numpy as np

from wse.errors import BadInput
from wse.inspect.query.stages import covers
from wse.inspect.query.view import View
from wse.report.result import Doc, Result
from wse_traces.planes import pieces
from wse_traces.read import Array, Trace
from wse_traces.schema import DIRECTIONS

MOST_LINKS: Final = 1000
"""Links at once: each is looked up in the pattern of every layer at its place."""


@dataclass(frozen=True, kw_only=True)
class LayerWords(Result):
    """The words of one layer on a link."""

    layer: Annotated[int, Doc("layer of the model, -1: none")]
    words: Annotated[int, Doc("words over the run", "words")]


@dataclass(frozen=True, kw_only=True)
class Link(Result):
    """A link out of a PE."""

    wafer: Annotated[int, Doc("wafer of the PE")]
    row: Annotated[int, Doc("row of the PE")]
    col: Annotated[int, Doc("column of the PE")]
    direction: Annotated[str, Doc("side on which the link leaves")]
    words: Annotated[int, Doc("words over the run", "words")]
    layers: Annotated[tuple[LayerWords, ...], Doc("layers with words on it, the most first")]


@dataclass(frozen=True, kw_only=True)
class LayerLinks(Result):
    """The words of a layer on the links of a wafer."""

    layer: Annotated[int, Doc("layer of the model, -1: none")]
    wafer: Annotated[int, Doc("wafer that it is on")]
    busiest_link_words: Annotated[int, Doc("words on its busiest link", "words")]
    wavelet_hops: Annotated[int, Doc("words on all links", "wavelet-hops")]


@dataclass(frozen=True, kw_only=True)
class LinksView(View):
    """Words on links."""

    TABLE: ClassVar[str] = "links"

    links: Annotated[tuple[Link, ...], Doc("busiest links")]
    layer_links: Annotated[tuple[LayerLinks, ...], Doc("words of each layer on links")]


class _Place(NamedTuple):
    """A link with the words on it."""

    words: int
    wafer: int
    row: int
    col: int
    direction: int


def check_links(top: int) -> None:
    """Raise BadInput for more links than are looked up at once."""
    if top > MOST_LINKS:
        message = f"--top {top}: at most {MOST_LINKS:,} links are told at once; give fewer"
        raise BadInput(message)


def busiest_links(trace: Trace, top: int) -> list[Link]:
    """The ``top`` links with the most words, largest first; none of a run that goes on, which counts them at its end.

    Raises:
        TraceError: the trace is damaged.
    """
    places = _busiest_places(trace, top)
    return [
        Link(
            wafer=place.wafer,
            row=place.row,
            col=place.col,
            direction=DIRECTIONS[place.direction],
            words=place.words,
            layers=tuple(layers),
        )
        for place, layers in zip(places, _layers_on(trace, places), strict=True)
    ]


def layer_links(trace: Trace) -> list[LayerLinks]:
    """Read the words of each layer on the links of each wafer, the layer with the busiest link first."""
    places = trace.table("placed_layer")
    sums: dict[int, tuple[int, int]] = {}
    for pattern in np.unique(places["pattern"]).tolist():
        parts = pieces(trace, "links/patterns/words", pattern) if 0 <= pattern < trace.rows("pattern") else ()
        amounts = [(int(words.max(initial=0)), int(words.sum())) for *_, words in parts]
        sums[pattern] = max((most for most, _ in amounts), default=0), sum(hops for _, hops in amounts)
    rows = zip(*(places[name].tolist() for name in ("layer", "wafer", "pattern")), strict=True)
    links = [
        LayerLinks(layer=layer, wafer=wafer, busiest_link_words=sums[pattern][0], wavelet_hops=sums[pattern][1])
        for layer, wafer, pattern in rows
    ]
    return sorted(links, key=lambda link: -link.busiest_link_words)


def _busiest_places(trace: Trace, top: int) -> list[_Place]:
    """The planes are gone through a chunk at a time, with the best so far kept."""
    best: list[_Place] = []
    for wafer in range(trace.rows("links/words") if top else 0):
        for direction, first_row, first_col, words in pieces(trace, "links/words", wafer):
            least = best[-1].words if len(best) == top else 0
            if words.max(initial=0) <= least:
                continue
            flat = words.ravel()
            largest = np.argpartition(-flat, min(top, flat.size - 1))[:top]
            for at in largest[flat[largest] > least].tolist():
                row, col = divmod(at, words.shape[1])
                best.append(_Place(int(flat[at]), wafer, first_row + row, first_col + col, direction))
            best = sorted(best, key=lambda place: (-place.words, *place[1:]))[:top]
    return best


def _layers_on(trace: Trace, links: list[_Place]) -> list[list[LayerWords]]:
    """The layers with words on each link, those with the most words first."""
    layers: list[list[LayerWords]] = [[] for _ in links]
    if not links or not trace.rows("placed_layer"):
        return layers
    places = {name: column.astype(np.int64) for name, column in trace.table("placed_layer").items()}
    known = (places["pattern"] >= 0) & (places["pattern"] < trace.rows("pattern"))
    pattern_row = np.clip(places["pattern"], 0, max(0, trace.rows("pattern") - 1))
    for name in ("rows", "cols"):
        places[name] = trace.column(f"links/patterns/{name}").astype(np.int64)[pattern_row]
    patterns = _Patterns(trace)
    for link, on_link in zip(links, layers, strict=True):
        inside = known & (places["wafer"] == link.wafer) & covers(places, link.row, link.col)
        for place in np.flatnonzero(inside).tolist():
            row, col = link.row - int(places["row"][place]), link.col - int(places["col"][place])
            words = patterns.words(int(places["pattern"][place]), link.direction, row, col)
            if words:
                on_link.append(LayerWords(layer=int(places["layer"][place]), words=words))
        on_link.sort(key=lambda layer: (-layer.words, layer.layer))
    return layers


class _Patterns:
    """Words on single links of patterns, with the rows of PEs that were read kept."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._bands: dict[tuple[int, int, int], Array] = {}

    def words(self, pattern: int, direction: int, row: int, col: int) -> int:
        if row >= self._trace.header.rows or col >= self._trace.header.cols:
            return 0
        key = pattern, direction, row
        if key not in self._bands:
            self._bands[key] = self._trace["links/patterns/words"][key]
        return int(self._bands[key][col])

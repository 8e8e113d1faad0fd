"""View of the links with the most words over the run, and of the layers that send these words.

Links of one wafer and direction that have the same number of words are handled together, as a
*tie*.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, NamedTuple

import numpy as np

from wse.errors import BadInput
from wse.reports.result import Doc, Result
from wse.tracing.query.view import View
from wse_traces.reader.groups import distinct_rows
from wse_traces.reader.read import Array, Trace
from wse_traces.schema import DIRECTIONS

MAX_LINKS: Final = 1000
"""Maximum number of links to report. Each is looked up in the patterns of all layers."""


class LayerWords(Result):
    """Number of words that one layer sends over a link, summed over the run."""

    layer: Annotated[int, Doc("layer of the model, -1: none")]
    words: Annotated[int, Doc("words over the run", "words")]


class Link(Result):
    """A link from a PE to a neighbour, or several links with the same words from every layer.

    If several links are combined, ``row`` and ``col`` give the position of the first link, and
    ``words`` is the number of words on each link.
    """

    wafer: Annotated[int, Doc("wafer of the PE")]
    row: Annotated[int, Doc("row of the PE")]
    col: Annotated[int, Doc("column of the PE")]
    direction: Annotated[str, Doc("direction in which the link leaves the PE")]
    words: Annotated[int, Doc("words over the run, on each of the links", "words")]
    count: Annotated[int, Doc("number of links that are combined; 1 with `--each-layer`")]
    rows: Annotated[tuple[int, int], Doc("first and last row of their PEs")]
    cols: Annotated[
        tuple[int, int], Doc("first and last column of their PEs; not all PEs in this range need to have such a link")
    ]
    layers: Annotated[tuple[LayerWords, ...], Doc("layers with words on the link, the most words first")]


class LayerLinks(Result):
    """Words that a layer sends over the links of a wafer during the run.

    The fields state the words on its busiest link, and on all links together.
    """

    layer: Annotated[int, Doc("layer of the model, -1: none")]
    wafer: Annotated[int, Doc("index of the wafer")]
    busiest_link_words: Annotated[int, Doc("words on its busiest link", "words")]
    wavelet_hops: Annotated[int, Doc("words on all links", "wavelet-hops")]


class LinksView(View):
    """View of the busiest links between PEs, and of the words that each layer sends over links.

    Words are 32 bits wide and are summed over the run.
    """

    TABLE: ClassVar[str] = "links"

    links: Annotated[tuple[Link, ...], Doc("busiest links")]
    layer_links: Annotated[tuple[LayerLinks, ...], Doc("words of each layer on links")]


class LinkTie(NamedTuple):
    """Links with the same direction and number of words on one wafer.

    Attributes:
        words: Number of words on each of these links over the run.
        wafer: Index of the wafer.
        direction: Code of the direction.
        rows: int64 ``[link]``: row of the PE that each link leaves.
        cols: int64 ``[link]``: column of the PE that each link leaves.
    """

    words: int
    wafer: int
    direction: int
    rows: Array
    cols: Array

    def first(self, count: int) -> LinkTie:
        """Return a copy that contains only the first ``count`` links."""
        return self._replace(rows=self.rows[:count], cols=self.cols[:count])


def busiest_ties(trace: Trace, top: int) -> list[LinkTie]:
    """Return the ``top`` sets of links with the most words.

    The links of a set (a tie) have the same wafer, direction and number of words. Links without
    words are ignored. Sets with equal words are sorted by wafer and direction. The word maps of all
    wafers are too large to be kept in memory, so the function reads them in two rounds, one wafer
    and direction at a time:

    1. Read all maps, and keep the largest word counts.
    2. Read the maps in which they occur again, and find the positions of the links.

    Raises:
        TraceError: The trace is damaged.
    """
    column = trace["links/words"]
    # 1. Numbers of words
    keys: list[tuple[int, int, int]] = []  # negative number of words, wafer, direction
    for wafer, direction in np.ndindex(column.shape[:2]) if top else ():
        min_words = -keys[-1][0] if len(keys) == top else 1
        words = column[wafer, direction]
        amounts = np.unique(words[words >= min_words])[-top:].tolist()
        keys = sorted({*keys, *((-amount, wafer, direction) for amount in amounts)})[:top]
    # 2. Positions
    places: dict[tuple[int, int, int], tuple[Array, ...]] = {}
    for wafer, direction in {key[1:] for key in keys}:
        words = column[wafer, direction]
        places |= {key: np.nonzero(words == -key[0]) for key in keys if key[1:] == (wafer, direction)}
    return [LinkTie(-key[0], *key[1:], *places[key]) for key in keys]


class PlacedLayers:
    """Lookup of the words that each layer sends over links.

    A trace stores the words as maps of the links in a rectangle of PEs. Layers that send the same
    words share a map. Each layer refers to its map and to the position of its rectangle.
    """

    def __init__(self, trace: Trace) -> None:
        """Read where each layer is on a wafer, and which map of words it refers to.

        Raises:
            TraceError: The trace is damaged.
        """
        self._trace = trace
        self._places = {name: column.astype(np.int64) for name, column in trace.table("placed_layer").items()}
        patterns = trace.rows("pattern")
        self._has_pattern = (self._places["pattern"] >= 0) & (self._places["pattern"] < patterns)
        at = np.clip(self._places["pattern"], 0, max(0, patterns - 1))
        for name, limit in (("rows", trace.header.rows), ("cols", trace.header.cols)):
            sizes = trace.column(f"links/patterns/{name}").astype(np.int64)
            self._places[name] = np.minimum(sizes[at], limit) if patterns else 0 * at
        self._boxes: dict[tuple[int, ...], Array] = {}

    def words(self, tie: LinkTie) -> list[tuple[int, Array]]:
        """Return the layers that send words over a set of links.

        Args:
            tie: Links of one wafer with the same direction and total number of words.

        Returns:
            Pairs of a layer and int64 ``[link]``, the number of words that the layer sends over
            each of these links.
        """
        words_by_layer = []
        for place in np.flatnonzero(self._has_pattern & (self._places["wafer"] == tie.wafer)).tolist():
            layer, row, col, pattern, height, width = (
                int(self._places[name][place]) for name in ("layer", "row", "col", "pattern", "rows", "cols")
            )
            rows, cols = tie.rows - row, tie.cols - col
            is_inside = (rows >= 0) & (rows < height) & (cols >= 0) & (cols < width)
            if is_inside.any():
                words = np.zeros(len(rows), np.int64)
                words[is_inside] = self._pattern_words(pattern, tie.direction, rows[is_inside], cols[is_inside])
                if words.any():
                    words_by_layer.append((layer, words))
        return words_by_layer

    def _pattern_words(self, pattern: int, direction: int, rows: Array, cols: Array) -> Array:
        """Return the number of words on some links from a map of the words on all links of a region.

        Several layers can share a map, so the part that was read last is cached.

        Args:
            pattern: Index of the map.
            direction: Direction of the links.
            rows: Row of each link within the map.
            cols: Column of each link within the map.
        """
        box = (pattern, direction, int(rows.min()), int(rows.max()), int(cols.min()), int(cols.max()))
        if box not in self._boxes:
            first_row, last_row, first_col, last_col = box[2:]
            area = slice(first_row, last_row + 1), slice(first_col, last_col + 1)
            self._boxes = {box: self._trace["links/patterns/words"][pattern, direction, *area]}
        words: Array = self._boxes[box][rows - box[2], cols - box[4]]
        return words


def check_links(top: int) -> None:
    """Raise BadInput if more than ``MAX_LINKS`` links are requested."""
    if top > MAX_LINKS:
        raise BadInput(f"--top {top}: at most {MAX_LINKS:,} links are reported; give a smaller number")


def busiest_links(trace: Trace, top: int, *, each_link: bool = False) -> list[Link]:
    """Return the ``top`` links with the most words, busiest first.

    The result is empty if the run is not complete. Links with equal words are ordered by wafer,
    direction (north, east, south, west), row and column.

    Args:
        trace: An open trace.
        top: Maximum number of links.
        each_link: True to return every link separately. False to combine the links of a wafer that
            have the same direction and the same number of words from every layer.

    Raises:
        TraceError: The trace is damaged.
    """
    layers, links = PlacedLayers(trace), list[Link]()
    for tie in busiest_ties(trace, top):
        missing = top - len(links)
        links += _links_of(tie.first(missing) if each_link else tie, layers, each_link=each_link)[:missing]
    return links


def _links_of(tie: LinkTie, layers: PlacedLayers, *, each_link: bool) -> list[Link]:
    """Convert a tie (links with the same number of words) to `Link` results.

    The results are ordered by row and column of their first links.

    Args:
        tie: Links with the same wafer, direction and number of words.
        layers: Lookup of the words that each layer sends over links.
        each_link: True to return every link separately. False to combine links that have the same
            number of words from every layer.
    """
    words = layers.words(tie)
    code = np.arange(len(tie.rows)) if each_link else np.zeros(len(tie.rows), np.int64)
    for _, layer_words in () if each_link else words:
        if layer_words.min() != layer_words.max():
            code = distinct_rows([code, layer_words])[1]
    _, first, number = np.unique(code, return_index=True, return_inverse=True)
    return [_link(tie, np.flatnonzero(number == number[at]), words) for at in sorted(first.tolist())]


def _link(tie: LinkTie, members: Array, words: list[tuple[int, Array]]) -> Link:
    """Combine links over which each layer sends the same number of words into one result.

    Args:
        tie: Links with the same total number of words.
        members: Indices of the combined links within ``tie``, in ascending order.
        words: For each layer, int64 ``[link]``: the number of words that the layer sends over each
            link of ``tie``.
    """
    rows, cols, first = tie.rows[members], tie.cols[members], int(members[0])
    on_link = [
        LayerWords(layer=layer, words=int(layer_words[first])) for layer, layer_words in words if layer_words[first]
    ]
    return Link(
        wafer=tie.wafer,
        row=int(rows[0]),
        col=int(cols[0]),
        direction=DIRECTIONS[tie.direction],
        words=tie.words,
        count=len(members),
        rows=(int(rows.min()), int(rows.max())),
        cols=(int(cols.min()), int(cols.max())),
        layers=tuple(sorted(on_link, key=lambda layer: (-layer.words, layer.layer))),
    )


def layer_links(trace: Trace) -> list[LayerLinks]:
    """Return the words that each layer sends over the links of each wafer.

    The layer with the highest load on a single link comes first.
    """
    places = trace.table("placed_layer")
    sums: dict[int, tuple[int, int]] = {}
    for pattern in np.unique(places["pattern"]).tolist():
        is_recorded = 0 <= pattern < trace.rows("pattern")
        words = trace["links/patterns/words"][pattern] if is_recorded else np.zeros(0, np.int64)
        sums[pattern] = int(words.max(initial=0)), int(words.sum())
    rows = zip(*(places[name].tolist() for name in ("layer", "wafer", "pattern")), strict=True)
    links = [
        LayerLinks(layer=layer, wafer=wafer, busiest_link_words=sums[pattern][0], wavelet_hops=sums[pattern][1])
        for layer, wafer, pattern in rows
    ]
    return sorted(links, key=lambda link: -link.busiest_link_words)

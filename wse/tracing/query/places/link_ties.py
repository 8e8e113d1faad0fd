"""Search for the links with the most words in a trace, and the words of each layer on these links.

Links of one wafer and direction that have the same number of words are handled together, as a
*tie*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wse_traces.reader.planes import plane_chunks
from wse_traces.reader.read import Array, Trace


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


class _Chunk(NamedTuple):
    """A rectangle of a map of words on links, remembered while the busiest links are searched.

    The map is too large to be stored, so the rectangle is read again to find the positions.

    Attributes:
        wafer: Wafer of the map.
        direction: Direction of the links in the map.
        row: First row of the rectangle.
        col: First column of the rectangle.
        shape: Numbers of rows and columns in the rectangle.
        amounts: Word counts in the rectangle that were among the largest found so far.
    """

    wafer: int
    direction: int
    row: int
    col: int
    shape: tuple[int, int]
    amounts: list[int]


def busiest_ties(trace: Trace, top: int) -> list[LinkTie]:
    """Return the ``top`` sets of links with the most words.

    The links of a set (a tie) have the same wafer, direction and number of words. Links without
    words are ignored. Sets with equal words are sorted by wafer and direction. The word maps are
    too large to be read at once, so the function reads them in two rounds:

    1. Read the maps in rectangular chunks. Keep the largest word counts, and remember the chunks in
       which they occur.
    2. Read these chunks again to find the positions of the links.

    Raises:
        TraceError: The trace is damaged.
    """
    # 1. Numbers of words
    keys: list[tuple[int, int, int]] = []  # negative number of words, wafer, direction
    chunks: list[_Chunk] = []
    for wafer in range(trace.rows("links/words") if top else 0):
        for direction, row, col, words in plane_chunks(trace, "links/words", wafer):
            min_words = -keys[-1][0] if len(keys) == top else 1
            if words.max(initial=0) < min_words:
                continue
            amounts = np.unique(words[words >= min_words])[-top:].tolist()
            chunks.append(_Chunk(wafer, direction, row, col, words.shape, amounts))
            keys = sorted({*keys, *((-amount, wafer, direction) for amount in amounts)})[:top]
    # 2. Positions
    places: dict[tuple[int, int, int], list[tuple[Array, Array]]] = {key: [] for key in keys}
    for chunk in chunks:
        chunk_keys = [key for key in ((-words, *chunk[:2]) for words in chunk.amounts) if key in places]
        if chunk_keys:
            rows, cols = (slice(at, at + size) for at, size in zip(chunk[2:4], chunk.shape, strict=True))
            words = trace["links/words"][chunk.wafer, chunk.direction, rows, cols]
            for key in chunk_keys:
                in_row, in_col = np.nonzero(words == -key[0])
                places[key].append((in_row + chunk.row, in_col + chunk.col))
    ties = []
    for key in keys:
        all_rows, all_cols = (np.concatenate(parts) for parts in zip(*places[key], strict=True))
        order = np.lexsort((all_cols, all_rows))
        ties.append(LinkTie(-key[0], *key[1:], all_rows[order], all_cols[order]))
    return ties


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
        found = []
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
                    found.append((layer, words))
        return found

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

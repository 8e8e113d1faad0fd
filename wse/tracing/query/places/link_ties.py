"""The links of a trace that have the most words, those with as many together, and the words of each layer on them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wse_traces.planes import pieces
from wse_traces.read import Array, Trace


class LinkTie(NamedTuple):
    """Links of one wafer and direction with the same number of words: their rows and columns, int64."""

    words: int
    wafer: int
    direction: int
    rows: Array
    cols: Array

    def first(self, most: int) -> LinkTie:
        """Return the first links of the tie, at most ``most``."""
        return self._replace(rows=self.rows[:most], cols=self.cols[:most])


class _Key(NamedTuple):
    """A wafer, a direction, and a number of words that some of its links have."""

    words: int
    wafer: int
    direction: int

    @property
    def order(self) -> tuple[int, int, int]:
        """The sort key: most words first, then wafer and direction."""
        return -self.words, self.wafer, self.direction


class _Piece(NamedTuple):
    """A piece of a plane of words, and its amounts that were among the largest so far."""

    wafer: int
    direction: int
    row: int
    col: int
    shape: tuple[int, int]
    amounts: list[int]


def busiest_ties(trace: Trace, top: int) -> list[LinkTie]:
    """Return the ``top`` ties with the most words, then by wafer and direction; links without words are in none.

    1. The planes are gone through a chunk at a time, with the largest amounts so far kept, and where there are some.
    2. The chunks that hold the amounts that are left are read once more for their places.

    Raises:
        TraceError: the trace is damaged.
    """
    keys: list[_Key] = []
    seen: list[_Piece] = []
    for wafer in range(trace.rows("links/words") if top else 0):
        for direction, row, col, words in pieces(trace, "links/words", wafer):
            least = keys[-1].words if len(keys) == top else 1
            if words.max(initial=0) < least:
                continue
            amounts = np.unique(words[words >= least])[-top:].tolist()
            seen.append(_Piece(wafer, direction, row, col, words.shape, amounts))
            keys = sorted({*keys, *(_Key(amount, wafer, direction) for amount in amounts)}, key=lambda key: key.order)
            keys = keys[:top]
    places: dict[_Key, list[tuple[Array, Array]]] = {key: [] for key in keys}
    for piece in seen:
        wanted = [key for key in (_Key(words, *piece[:2]) for words in piece.amounts) if key in places]
        if wanted:
            rows, cols = (slice(at, at + size) for at, size in zip(piece[2:4], piece.shape, strict=True))
            words = trace["links/words"][piece.wafer, piece.direction, rows, cols]
            for key in wanted:
                in_row, in_col = np.nonzero(words == key.words)
                places[key].append((in_row + piece.row, in_col + piece.col))
    return [_tie(key, places[key]) for key in keys]


def _tie(key: _Key, places: list[tuple[Array, Array]]) -> LinkTie:
    rows, cols = (np.concatenate(parts) for parts in zip(*places, strict=True))
    order = np.lexsort((cols, rows))
    return LinkTie(*key, rows[order], cols[order])


class PlacedLayers:
    """The patterns of words on links of the layers of a trace, each in its place."""

    def __init__(self, trace: Trace) -> None:
        """Raises: TraceError if the trace is damaged."""
        self._trace = trace
        self._places = {name: column.astype(np.int64) for name, column in trace.table("placed_layer").items()}
        patterns = trace.rows("pattern")
        self._known = (self._places["pattern"] >= 0) & (self._places["pattern"] < patterns)
        at = np.clip(self._places["pattern"], 0, max(0, patterns - 1))
        for name, most in (("rows", trace.header.rows), ("cols", trace.header.cols)):
            sizes = trace.column(f"links/patterns/{name}").astype(np.int64)
            self._places[name] = np.minimum(sizes[at], most) if patterns else 0 * at
        self._boxes: dict[tuple[int, ...], Array] = {}

    def words(self, tie: LinkTie) -> list[tuple[int, Array]]:
        """Return the layers with words on the links of a tie, one by one, with these words, int64."""
        found = []
        for place in np.flatnonzero(self._known & (self._places["wafer"] == tie.wafer)).tolist():
            layer, row, col, pattern, high, wide = (
                int(self._places[name][place]) for name in ("layer", "row", "col", "pattern", "rows", "cols")
            )
            rows, cols = tie.rows - row, tie.cols - col
            inside = (rows >= 0) & (rows < high) & (cols >= 0) & (cols < wide)
            if inside.any():
                words = np.zeros(len(rows), np.int64)
                words[inside] = self._pattern_words(pattern, tie.direction, rows[inside], cols[inside])
                if words.any():
                    found.append((layer, words))
        return found

    def _pattern_words(self, pattern: int, direction: int, rows: Array, cols: Array) -> Array:
        """Return the words of a pattern at some places.

        What was read last is kept, as layers of a region share patterns.
        """
        box = (pattern, direction, int(rows.min()), int(rows.max()), int(cols.min()), int(cols.max()))
        if box not in self._boxes:
            first_row, last_row, first_col, last_col = box[2:]
            area = slice(first_row, last_row + 1), slice(first_col, last_col + 1)
            self._boxes = {box: self._trace["links/patterns/words"][pattern, direction, *area]}
        words: Array = self._boxes[box][rows - box[2], cols - box[4]]
        return words

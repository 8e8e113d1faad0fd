"""The links with the most words over the run, and the layers whose words they are."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.errors import BadInput
from wse.inspect.query.opened import Facts
from wse_traces.planes import pieces
from wse_traces.read import Array, Trace
from wse_traces.schema import DIRECTIONS

MOST_LINKS: Final = 1000
"""That are told at once: each is looked up in the pattern of every layer that is there."""

Link = tuple[int, int, int, int, int]  # words, wafer, row, column, direction


def check_links(top: int) -> None:
    """Raise BadInput for more links than are told at once."""
    if top > MOST_LINKS:
        message = f"--top {top}: at most {MOST_LINKS:,} links are told at once; give fewer"
        raise BadInput(message)


def busiest_links(trace: Trace, top: int) -> list[Facts]:
    """The ``top`` links with the most words, largest first; none of a run that goes on, which counts them at its end.

    ``layers`` of a link are those whose words went over it, where the trace tells, with the words of each.

    Raises:
        TraceError: the trace is damaged.
    """
    links = _busiest(trace, top)
    layers = _layers_of(trace, links)
    return [
        {"wafer": wafer, "row": row, "col": col, "direction": DIRECTIONS[direction], "words": words, "layers": of}
        for (words, wafer, row, col, direction), of in zip(links, layers, strict=True)
    ]


def layer_links(trace: Trace) -> list[Facts]:
    """For each layer and wafer its words on links: those on its busiest link, and hops; most words first."""
    places = trace.table("placed_layer")
    sums: dict[int, tuple[int, int]] = {}
    for pattern in np.unique(places["pattern"]).tolist():
        found = pieces(trace, "links/patterns/words", pattern) if 0 <= pattern < trace.rows("pattern") else ()
        parts = [(int(part.max(initial=0)), int(part.sum())) for *_, part in found]
        sums[pattern] = max((most for most, _ in parts), default=0), sum(hops for _, hops in parts)
    rows: list[Facts] = []
    for layer, wafer, pattern in zip(*(places[name].tolist() for name in ("layer", "wafer", "pattern")), strict=True):
        most, hops = sums[pattern]
        rows.append({"layer": layer, "wafer": wafer, "busiest_link_words": most, "wavelet_hops": hops})
    return sorted(rows, key=lambda each: -int(each["busiest_link_words"]))


def _busiest(trace: Trace, top: int) -> list[Link]:
    """The planes are gone through a chunk at a time, with the best so far kept."""
    best: list[Link] = []
    for wafer in range(trace.rows("links/words") if top else 0):
        for direction, first_row, first_col, words in pieces(trace, "links/words", wafer):
            least = best[-1][0] if len(best) == top else 0
            if words.max(initial=0) <= least:
                continue
            flat = words.ravel()
            found = np.argpartition(-flat, min(top, flat.size - 1))[:top]
            for at in found[flat[found] > least].tolist():
                row, col = divmod(at, words.shape[1])
                best.append((int(flat[at]), wafer, first_row + row, first_col + col, direction))
            best = sorted(best, key=lambda link: (-link[0], *link[1:]))[:top]
    return best


def _layers_of(trace: Trace, links: list[Link]) -> list[list[dict[str, int]]]:
    """For each link the layers with words on it, those with the most first."""
    found: list[list[dict[str, int]]] = [[] for _ in links]
    if not links or not trace.rows("placed_layer"):
        return found
    places = {name: column.astype(np.int64) for name, column in trace.table("placed_layer").items()}
    at = np.clip(places["pattern"], 0, max(0, trace.rows("pattern") - 1))
    rows, cols = (trace.column(f"links/patterns/{name}").astype(np.int64)[at] for name in ("rows", "cols"))
    known = (places["pattern"] >= 0) & (places["pattern"] < trace.rows("pattern"))
    patterns = _Patterns(trace)
    for of, (_, wafer, row, col, direction) in zip(found, links, strict=True):
        inside = known & (places["wafer"] == wafer)
        inside &= (places["row"] <= row) & (row - places["row"] < rows)
        inside &= (places["col"] <= col) & (col - places["col"] < cols)
        for place in np.flatnonzero(inside).tolist():
            there = row - int(places["row"][place]), col - int(places["col"][place])
            words = patterns.words(int(places["pattern"][place]), direction, *there)
            if words:
                of.append({"layer": int(places["layer"][place]), "words": words})
        of.sort(key=lambda each: (-each["words"], each["layer"]))
    return found


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

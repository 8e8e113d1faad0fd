"""Output of ``wse inspect --links`` and ``--cycles``: busiest links, and the log of wavelets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.console import Console

from wse.reports.number_text import count, index_range, percent, plural
from wse.reports.table import Column, Table, number
from wse.reports.terminal import bar, heading, lines
from wse.reports.terminal_table import print_table
from wse.tracing.query.costs.folds import layers_text
from wse.tracing.query.places.links import LayerLinks, Link, LinksView
from wse.tracing.query.places.wavelets import BusiestPlace, CyclesView, Wavelets

MAX_LAYERS: Final = 3


class _Layers(NamedTuple):
    """Consecutive layers that each send the same number of words over a link between PEs.

    Attributes:
        first: First layer.
        last: Last layer.
        words: Number of words that each of these layers sends over the link.
    """

    first: int
    last: int
    words: int


def print_links(console: Console, view: LinksView) -> None:
    """Print a table of the busiest links, and the layer that sends the most words over one link.

    The table lists the layers that send words over each link. If links were not counted, because
    the run has not ended, a line says so.
    """
    print_table(console, _table(view.links, 10 if console.width < 90 else 20))
    if not view.links:
        lines(console, [("none", "links are counted at the end of a run")])
    in_layers = [layer for layer in view.layer_links if layer.layer >= 0]
    if in_layers:
        lines(console, [("", ""), ("most of one layer on one link", _busiest_layers(in_layers))])


def _table(links: Sequence[Link], width: int) -> Table:
    """Return a table with a row for each link between PEs or each group of equivalent links.

    Args:
        links: Links, with the busiest first.
        width: Width of the bars in characters.
    """
    max_words = max((link.words for link in links), default=0) or 1
    folded = any(link.count > 1 for link in links)
    return Table(
        title="Busiest links",
        note="words that leave a PE in a direction, over the whole run" + "; equal links together" * folded,
        columns=(
            Column(key="wafer", title="wafer", numeric=True),
            Column(key="rows", title="rows", cell=lambda link: index_range(*link.rows), numeric=True),
            Column(key="cols", title="cols", cell=lambda link: index_range(*link.cols), numeric=True),
            Column(key="direction", title="to"),
            *([number("count", "links", priority=1)] if folded else []),
            Column(key="bar", cell=lambda link: bar(link.words / max_words, width, "hops"), priority=3),
            number("words", "words"),
            Column(key="layers", title="sent by", cell=_layers, wraps=True, priority=2),
        ),
        rows=links,
    )


def link_line(link: Link) -> str:
    """Describe a link in one line: its position, its words, and the layers that send them.

    The line also states how many other links carry the same number of words.
    """
    place = f"wafer {link.wafer}, row {link.row}, col {link.col} to the {link.direction}"
    layers, other_links = _layers(link), link.count - 1
    equal_text = f", the same number as on {plural(other_links, 'other link')}" if other_links else ""
    return f"{place}: {count(link.words)} words{equal_text}{f'; sent by {layers}' if layers else ''}"


def _layers(link: Link) -> str:
    """Return a phrase with the layers that send the most words over a link, and their percentages.

    Consecutive layers that send the same number of words are combined.
    """
    layer_runs: list[_Layers] = []
    for layer in link.layers:
        last = layer_runs[-1] if layer_runs else None
        if last is not None and last.words == layer.words and 0 <= last.last == layer.layer - 1:
            layer_runs[-1] = last._replace(last=layer.layer)
        else:
            layer_runs.append(_Layers(layer.layer, layer.layer, layer.words))
    texts = [_layers_text(layers, link.words) for layers in layer_runs[:MAX_LAYERS]]
    return ", ".join(texts) + (" ..." if len(layer_runs) > MAX_LAYERS else "")


def _layers_text(layers: _Layers, words: int) -> str:
    """Return a phrase such as "layers 0–3: 25 % each": layers, and each layer's percentage of words.

    Args:
        layers: Layers that send the same number of words over a link.
        words: Number of words that all layers send over the link.
    """
    percentage = percent(layers.words / words)
    if layers.first < 0:
        return f"ops outside the layers: {percentage}"
    if layers.first == layers.last:
        return f"layer {layers.first}: {percentage}"
    return f"{layers_text(((layers.first, layers.last),))}: {percentage} each"


def _busiest_layers(links: Sequence[LayerLinks]) -> str:
    """Return a phrase with the largest number of words that any layer sends over one link.

    The phrase names a layer that sends this number, and counts the other layers that send it too.

    Args:
        links: Number of words of each layer, with the largest first. There must be at least one
            layer.
    """
    max_words = links[0].busiest_link_words
    layers = sorted({link.layer for link in links if link.busiest_link_words == max_words})
    other_layers = f" and {count(len(layers) - 1)} more" if len(layers) > 1 else ""
    return f"{count(max_words)} words, layer {layers[0]}{other_layers}"


MAX_LINES: Final = 300
EXAMPLE_CYCLES: Final = 10


def print_wavelets(console: Console, wavelets: Wavelets) -> None:
    """Print a summary of the pass whose wavelet moves were logged.

    The summary contains the number of moves, the number of cycles, and the busiest link and PE.
    """
    logged = len(wavelets.passes)
    total_text = f", the last of {count(logged)} that were logged" if logged > 1 else ""
    heading(console, "Wavelets", f"every move of {_pass(wavelets)}{total_text}")
    first, last, hops = wavelets.first_cycle, wavelets.last_cycle, wavelets.wavelet_hops
    moving = f"something moves in {percent(wavelets.moving_fraction)} of them"
    rows = [
        ("moves", f"{count(wavelets.moves)}: {count(hops)} over links, {count(wavelets.moves - hops)} into PEs"),
        ("cycles", f"{count(first)} to {count(last)}; {moving}"),
    ]
    link, pe = wavelets.busiest_link, wavelets.busiest_pe
    if link is not None:
        rows.append(("busiest link", f"{_place(link)}, {link.direction}: {count(link.words)} words"))
    rows.append(("busiest PE", f"{_place(pe)}: {count(pe.words)} words through its router"))
    end_cycle = min(first + EXAMPLE_CYCLES - 1, last)
    rows.append(("replay", f"--cycles {first}-{end_cycle}: the moves of those cycles"))
    lines(console, rows)


def print_moves(console: Console, view: CyclesView) -> None:
    """Print the wavelet moves in the requested cycles, one per line, up to ``MAX_LINES`` lines."""
    moves, (first, last) = view.wavelets.replayed or (), view.wavelets.replayed_cycles or (0, 0)
    columns = (
        number("cycle", "cycle"),
        *(Column(key=name, title=name, numeric=True) for name in ("wafer", "row", "col")),
        Column(key="direction", title="direction"),
        Column(key="colour", title="colour", numeric=True),
    )
    note = f"cycles {count(first)} to {count(last)} of {_pass(view.wavelets)}"
    print_table(console, Table(title="Moves", note=note, columns=columns, rows=moves[:MAX_LINES]))
    if not moves:
        lines(console, [("nothing moves in them", "")])
    if len(moves) > MAX_LINES:
        lines(console, [(f"and {count(len(moves) - MAX_LINES)} more", "--json: all of them")])


def _pass(wavelets: Wavelets) -> str:
    """Format the index and the phase of the logged pass."""
    phase = f", {wavelets.phase}" if wavelets.phase else ""
    return f"pass {wavelets.pass_}{phase}"


def _place(busiest: BusiestPlace) -> str:
    """Format the wafer, row and column of a PE or link."""
    return f"wafer {busiest.wafer}, row {busiest.row}, col {busiest.col}"

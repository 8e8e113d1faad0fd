"""Print-out of ``wse inspect --links``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.console import Console

from wse.reports.table import Column, Table, number
from wse.reports.terminal import bar, count, lines, percent
from wse.reports.terminal_table import print_table
from wse.tracing.print.folds import layers_text, range_text
from wse.tracing.query.places.links import LayerLinks, Link, LinksView

MOST_LAYERS: Final = 3


class _Layers(NamedTuple):
    """Consecutive layers with the same number of words each on a link."""

    first: int
    last: int
    words: int


def print_links(console: Console, view: LinksView) -> None:
    """Print the busiest links, each with the layers whose words they are, and the layer that loads a link most."""
    print_table(console, _table(view.links, 10 if console.width < 90 else 20))
    if not view.links:
        lines(console, [("none", "links are counted at the end of a run")])
    in_layers = [layer for layer in view.layer_links if layer.layer >= 0]
    if in_layers:
        lines(console, [("", ""), ("most of one layer on one link", _busiest_layers(in_layers))])


def _table(links: Sequence[Link], width: int) -> Table:
    """Return a row per link; bars are ``width`` characters wide."""
    most = max((link.words for link in links), default=0) or 1
    folded = any(link.count > 1 for link in links)
    return Table(
        title="Busiest links",
        note="words that leave a PE in a direction, over the whole run" + "; equal links together" * folded,
        columns=(
            Column(key="wafer", title="wafer", numeric=True),
            Column(key="rows", title="rows", cell=lambda link: range_text(*link.rows), numeric=True),
            Column(key="cols", title="cols", cell=lambda link: range_text(*link.cols), numeric=True),
            Column(key="direction", title="to"),
            *([number("count", "links", priority=1)] if folded else []),
            Column(key="bar", cell=lambda link: bar(link.words / most, width, "hops"), priority=3),
            number("words", "words"),
            Column(key="layers", title="of", cell=_layers, wraps=True, priority=2),
        ),
        rows=links,
    )


def link_line(link: Link) -> str:
    """Return a link as a sentence, with the number of equal links."""
    place = f"wafer {link.wafer}, row {link.row}, col {link.col}, {link.direction}"
    layers, others = _layers(link), link.count - 1
    equal = f", as on {count(others)} more" if others else ""
    return f"{place}: {count(link.words)} words{equal}{f', {layers}' if layers else ''}"


def _layers(link: Link) -> str:
    """Return the layers with the most words on a link, each with its fraction.

    Equal ones that follow each other as one.
    """
    stretches: list[_Layers] = []
    for layer in link.layers:
        last = stretches[-1] if stretches else None
        if last is not None and last.words == layer.words and 0 <= last.last == layer.layer - 1:
            stretches[-1] = last._replace(last=layer.layer)
        else:
            stretches.append(_Layers(layer.layer, layer.layer, layer.words))
    texts = [_layers_text(layers, link.words) for layers in stretches[:MOST_LAYERS]]
    return ", ".join(texts) + (" ..." if len(stretches) > MOST_LAYERS else "")


def _layers_text(layers: _Layers, words: int) -> str:
    """Return layers with their fraction of the words of a link as text."""
    share = percent(layers.words / words)
    if layers.first < 0:
        return f"no layer {share}"
    if layers.first == layers.last:
        return f"layer {layers.first} {share}"
    return f"{layers_text(((layers.first, layers.last),))} {share} each"


def _busiest_layers(links: Sequence[LayerLinks]) -> str:
    """Return the words of the layers that load one link most."""
    most = links[0].busiest_link_words
    layers = sorted({link.layer for link in links if link.busiest_link_words == most})
    others = f" and {count(len(layers) - 1)} more" if len(layers) > 1 else ""
    return f"{count(most)} words, layer {layers[0]}{others}"

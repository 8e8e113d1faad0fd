"""What ``wse inspect --links`` prints."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Console

from wse.report.terminal import bar, count, heading, lines, percent, plain_table, show

MOST_LAYERS: Final = 3


def print_links(console: Console, facts: dict[str, Any]) -> None:
    """Print the busiest links, each with the layers whose words they are, and the layer that loads a link the most."""
    heading(console, "Busiest links", "words that leave a PE in a direction, over the whole run")
    if facts["links"]:
        _print_rows(console, facts["links"])
    else:
        lines(console, [("none", "links are counted at the end of a run")])
    in_layers = [each for each in facts["layer_links"] if each["layer"] >= 0]
    if in_layers:
        lines(console, [("", ""), ("most of one layer on one link", _hottest(in_layers))])


def _print_rows(console: Console, links: list[dict[str, Any]]) -> None:
    """A row a link."""
    most = max((link["words"] for link in links), default=0) or 1
    table = plain_table(header=True)
    for name in ("wafer", "row", "col", "direction", "", "words", "of"):
        right = name in ("wafer", "row", "col", "words")
        table.add_column(name, justify="right" if right else "left", no_wrap=name != "of")
    width = 10 if console.width < 90 else 20
    for link in links:
        place = (str(link[name]) for name in ("wafer", "row", "col"))
        share = bar(link["words"] / most, width, "hops")
        table.add_row(*place, link["direction"], share, count(link["words"]), _layers(link))
    show(console, table)


def link_line(link: dict[str, Any]) -> str:
    """One link in a sentence."""
    place = f"wafer {link['wafer']}, row {link['row']}, col {link['col']}, {link['direction']}"
    layers = _layers(link)
    return f"{place}: {count(link['words'])} words{f', {layers}' if layers else ''}"


def _layers(link: dict[str, Any]) -> str:
    """The layers with the most words on a link, each with its share; equal ones that follow each other as one."""
    runs: list[list[int]] = []  # first layer, last layer, words of each
    for each in link["layers"]:
        if runs and runs[-1][2] == each["words"] and 0 <= runs[-1][1] == each["layer"] - 1:
            runs[-1][1] = each["layer"]
        else:
            runs.append([each["layer"], each["layer"], each["words"]])
    told = [_run(*run, of=link["words"]) for run in runs[:MOST_LAYERS]]
    return ", ".join(told) + (" ..." if len(runs) > MOST_LAYERS else "")


def _run(first: int, last: int, words: int, *, of: int) -> str:
    if first < 0:
        return f"no layer {percent(words / of)}"
    if first == last:
        return f"layer {first} {percent(words / of)}"
    return f"layers {first} to {last} {percent(words / of)} each"


def _hottest(found: list[dict[str, Any]]) -> str:
    """The words of the layers that load one link the most."""
    most = found[0]["busiest_link_words"]
    layers = sorted({each["layer"] for each in found if each["busiest_link_words"] == most})
    others = f" and {count(len(layers) - 1)} more" if len(layers) > 1 else ""
    return f"{count(most)} words, layer {layers[0]}{others}"

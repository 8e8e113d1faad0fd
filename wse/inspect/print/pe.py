"""What ``wse inspect --pe`` prints: one PE's SRAM map, colours, busy time and links."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Console
from rich.table import Table

from wse.report.placement_lines import print_sram
from wse.report.terminal import COLOURS, count, heading, lines, percent, plain_table, several, show, shown

FOR: Final = {"kv": "KV cache"}
ALONG: Final = {"row": "its row", "col": "its column", "both": "row and column"}
LEAST_GAP: Final = 16
"""Bytes between buffers that are told as free; fewer only let the next one begin at a whole word."""


def print_pe(console: Console, facts: dict[str, Any]) -> None:
    """Print what a trace says of one PE."""
    pe = facts["pe"]
    heading(console, f"PE at row {pe['row']}, column {pe['col']}", f"wafer {pe['wafer']} of {shown(facts['trace'])}")
    lines(console, [("stage", _stage(pe)), *_busy(pe), *_no_links(pe)])
    if "links" in pe:
        _print_links(console, pe["links"])
    if "sram" in pe:
        sram = pe["sram"]
        heading(console, "SRAM", f"{count(sum(sram['bytes'].values()))} B")
        print_sram(console, sram["bytes"])
        if sram["buffers"]:
            note = "" if sram["is_fullest"] else "of the fullest PE of its stage; this PE has less"
            heading(console, "SRAM map", note)
            _print_map(console, sram["buffers"], sum(sram["bytes"].values()))
    if pe["routes"]:
        heading(console, "Routes", f"{several(len({r['colour'] for r in pe['routes']}), 'colour')} of its router")
        _print_routes(console, pe["routes"])


def _stage(pe: dict[str, Any]) -> str:
    if "stage" not in pe:
        return "none: no region holds it"
    stage = pe["stage"]
    first, last = stage["first_layer"], stage["last_layer"]
    layers = "no layer" if first < 0 else f"layer {first}" if first == last else f"layers {first} to {last}"
    rows = f"rows {stage['row']} to {stage['row'] + stage['rows'] - 1}"
    cols = f"columns {stage['col']} to {stage['col'] + stage['cols'] - 1}"
    return f"{stage['index']}: {layers}, {rows}, {cols}"


def _busy(pe: dict[str, Any]) -> list[tuple[str, str]]:
    if "busy_cycles" not in pe:
        return [("busy", "not told: it is counted at the end of a run")]
    share = f", {percent(pe['busy_fraction'])} of the run" if "busy_fraction" in pe else ""
    return [("busy", f"computes in {count(pe['busy_cycles'])} of {count(pe['run_cycles'])} cycles{share}")]


def _no_links(pe: dict[str, Any]) -> list[tuple[str, str]]:
    """Why there are none; busy times are recorded when links are."""
    if "links" in pe or "busy_cycles" not in pe:
        return []
    return [("links", "not told: PEs are dead, and links are those of the fabric; --links has them")]


def _print_links(console: Console, links: dict[str, Any]) -> None:
    heading(console, "Links", "words over the whole run")
    table = plain_table(header=True)
    for name in ("", "out", "in"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for direction, words in links.items():
        table.add_row(direction, count(words["out_words"]), count(words["in_words"]))
    show(console, table)


def _print_map(console: Console, buffers: list[dict[str, Any]], size: int) -> None:
    """Buffers by address, with what is free between; those that share bytes live at different times."""
    table = plain_table(header=True)
    for name in ("address", "bytes", "for", "buffer", "type", "while"):
        right = name in ("address", "bytes")
        words = name in ("buffer", "while")
        table.add_column(name, justify="right" if right else "left", no_wrap=not words, overflow="fold")
    end = 0
    for buffer in buffers:
        if buffer["address"] - end >= LEAST_GAP:
            _free(table, end, buffer["address"])
        table.add_row(
            f"{buffer['address']:#06x}",
            count(buffer["bytes"]),
            FOR.get(buffer["use"], buffer["use"]),
            _together(shown(buffer["name"])),
            shown(buffer["dtype"]),
            _while(buffer),
            style=COLOURS.get(buffer["use"], ""),
        )
        end = max(end, buffer["address"] + buffer["bytes"])
    if end < size:
        _free(table, end, size)
    show(console, table)


def _free(table: Table, start: int, stop: int) -> None:
    table.add_row(f"{start:#06x}", count(stop - start), "free", "", "", "", style=COLOURS["free"])


def _together(name: str) -> str:
    """The name of a buffer that several tensors share, with what their names begin with told once."""
    first, *rest = name.split("+")
    stem = first[: first.rfind(".") + 1]
    return "+".join([first, *(other.removeprefix(stem) for other in rest)])


def _while(buffer: dict[str, Any]) -> str:
    """The ops while which a buffer is needed; of one op in several layers, the layers."""
    first, last = shown(buffer["live_from"]), shown(buffer["live_to"])
    if not first and not last:
        return "always"
    if first == last:
        return first
    (_, of_first, op), (_, of_last, other) = (_parts(name) for name in (first, last))
    if not op or not other:
        return f"{first} to {last}"
    layers = f"layer {of_first}" if of_first == of_last else f"layers {of_first} to {of_last}"
    return f"{op if op == other else f'{op} to {other}'} of {layers}"


def _parts(name: str) -> tuple[str, str, str]:
    """``layers``, the number and the op of a name such as ``layers.3.qkv``; empty texts for another."""
    found = name.split(".", 2)
    return (found[0], found[1], found[2]) if len(found) == 3 and found[1].isdigit() else ("", "", "")


def _print_routes(console: Console, routes: list[dict[str, Any]]) -> None:
    """Patterns that share a colour, one after another in time, in one cell; colours with the same as one row."""
    told: list[tuple[int, int, tuple[str, str, str]]] = []
    for colour in dict.fromkeys(route["colour"] for route in routes):
        mine = [route for route in routes if route["colour"] == colour]
        axes = dict.fromkeys(ALONG.get(route["axis"], "") for route in mine)
        patterns = dict.fromkeys(shown(route["pattern"]) for route in mine)
        stages = dict.fromkeys(str(route["stage"]) if route["stage"] >= 0 else "between stages" for route in mine)
        cells = " and ".join(axes), ", ".join(patterns), ", ".join(stages)
        if told and told[-1][1:] == (colour - 1, cells):
            told[-1] = told[-1][0], colour, cells
        else:
            told.append((colour, colour, cells))
    table = plain_table(header=True)
    for name in ("colours", "along", "pattern", "stage"):
        table.add_column(name, justify="right" if name == "colours" else "left", no_wrap=name != "pattern")
    for first, last, cells in told:
        table.add_row(str(first) if first == last else f"{first} to {last}", *cells)
    show(console, table)

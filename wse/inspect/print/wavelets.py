"""What ``wse inspect`` prints of a trace's log of wavelets."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Console

from wse.report.terminal import count, heading, lines, percent, plain_table, show

MOST_LINES: Final = 300
EXAMPLE_CYCLES: Final = 10


def print_wavelets(console: Console, wavelets: dict[str, Any]) -> None:
    """Print when and where the words of the logged pass moved."""
    logged = len(wavelets["passes"])
    others = f", the last of {count(logged)} that were logged" if logged > 1 else ""
    heading(console, "Wavelets", f"every move of {_pass(wavelets)}{others}")
    first, last, hops = wavelets["first_cycle"], wavelets["last_cycle"], wavelets["wavelet_hops"]
    into = wavelets["moves"] - hops
    moving = f"something moves in {percent(wavelets['moving_fraction'])} of them"
    rows = [
        ("moves", f"{count(wavelets['moves'])}: {count(hops)} over links, {count(into)} into PEs"),
        ("cycles", f"{count(first)} to {count(last)}; {moving}"),
    ]
    if "busiest_link" in wavelets:
        link = wavelets["busiest_link"]
        rows.append(("busiest link", f"{_place(link)}, {link['direction']}: {count(link['words'])} words"))
    pe = wavelets["busiest_pe"]
    rows.append(("busiest PE", f"{_place(pe)}: {count(pe['words'])} words through its router"))
    until = min(first + EXAMPLE_CYCLES - 1, last)
    rows.append(("replay", f"--cycles {first}-{until}: the moves of those cycles"))
    lines(console, rows)


def print_moves(console: Console, wavelets: dict[str, Any]) -> None:
    """Print the moves of the cycles that were asked for, one a line."""
    first, last = wavelets["replayed_cycles"]
    heading(console, "Moves", f"cycles {count(first)} to {count(last)} of {_pass(wavelets)}")
    moves = wavelets["replayed"]
    if not moves:
        lines(console, [("nothing moves in them", "")])
        return
    table = plain_table(header=True)
    for name in ("cycle", "wafer", "row", "col", "direction", "colour"):
        table.add_column(name, justify="left" if name == "direction" else "right", no_wrap=True)
    for move in moves[:MOST_LINES]:
        place = (str(move[name]) for name in ("wafer", "row", "col"))
        table.add_row(count(move["cycle"]), *place, move["direction"], str(move["colour"]))
    show(console, table)
    if len(moves) > MOST_LINES:
        lines(console, [(f"and {count(len(moves) - MOST_LINES)} more", "--json: all of them")])


def _pass(wavelets: dict[str, Any]) -> str:
    phase = f", {wavelets['phase']}" if wavelets["phase"] else ""
    return f"pass {wavelets['pass']}{phase}"


def _place(found: dict[str, Any]) -> str:
    return f"wafer {found['wafer']}, row {found['row']}, col {found['col']}"

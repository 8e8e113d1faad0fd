"""Print-outs of a trace's log of wavelets."""

from __future__ import annotations

from typing import Final

from rich.console import Console

from wse.reports.table import Column, Table, number
from wse.reports.terminal import count, heading, lines, percent
from wse.reports.terminal_table import print_table
from wse.tracing.query.places.wavelets import BusiestPlace, CyclesView, Wavelets

MAX_LINES: Final = 300
EXAMPLE_CYCLES: Final = 10


def print_wavelets(console: Console, wavelets: Wavelets) -> None:
    """Print a summary of the pass whose wavelet moves were logged.

    The summary contains the number of moves, the cycles, and the busiest link and PE.
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
    """Return the index and the phase of the logged pass as text."""
    phase = f", {wavelets.phase}" if wavelets.phase else ""
    return f"pass {wavelets.pass_}{phase}"


def _place(busiest: BusiestPlace) -> str:
    """Return the wafer, row and column of a PE or link as text."""
    return f"wafer {busiest.wafer}, row {busiest.row}, col {busiest.col}"

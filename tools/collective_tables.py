"""Write the tables of docs/collectives.md about patterns for collectives such as reduce.

The first table compares published closed forms with the cycles of the fabric model (the timing
model that all commands use). The second one compares reduces with the published lower bound.

Example:
    python tools/collective_tables.py docs/collectives.md
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from wse.backends.fabric.line.closed_forms import Grouping, closed_form, distance_to_bound, level_cycles
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pattern_times import LinePattern, PatternTimes
from wse.hardware.load import load_software, load_wafer
from wse.program.steps import ROWS
from wse.reports.table import markdown_table
from wse_mappings.patterns.auto import cheapest_pattern
from wse_mappings.patterns.auto_gen import auto_gen, best_depth
from wse_mappings.patterns.binary_tree import binary_tree
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.k_tree import k_tree, root_of
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.star import star
from wse_mappings.patterns.two_phase import two_phase
from wse_mappings.schedule import Arrival, LineSchedule

BEGIN, END = "<!-- tables: python tools/collective_tables.py docs/collectives.md -->", "<!-- end of tables -->"
WAFER = load_wafer("wse2")
COSTS = LineCosts.of(WAFER, load_software("tuned", WAFER.generation).reduce_gap_cycles)
SIZES = [(length, words) for length in (64, 256) for words in (1, 64, 1024)]
ADD = Arrival.ADD
Pattern = Callable[[int, int], LineSchedule]
"""A function from (PEs, words) to the schedule of a pattern on one line of PEs."""


def search_schedule(length: int, words: int) -> LineSchedule:
    """Return the Auto-gen reduce tree with the depth that is fastest by its closed form."""
    return auto_gen(length, 1, ADD, best_depth(length, words, level_cycles(WAFER)))


REDUCES_TO_THE_END: dict[str, Pattern] = {
    "star": lambda length, _: star(length, 1, ADD),
    "chain": lambda length, _: chain(length, 1, ADD),
    "binary_tree": lambda length, _: binary_tree(length, 1, ADD),
    "two_phase": lambda length, _: two_phase(length, 1, ADD),
    "auto_gen": search_schedule,
}


def cycles(words: int, pattern: LineSchedule) -> float:
    """Return the cycles of a pattern on one line by the fabric model.

    Args:
        words: 32-bit words per PE.
        pattern: Schedule of the messages.
    """
    return PatternTimes(COSTS).time([LinePattern(pattern, 0, words, ROWS)]).cycles.total


def forms() -> list[str]:
    """Return the Markdown table that compares closed forms with the fabric model.

    Closed forms are shown as published and with each way to group their terms (``Grouping``).
    """
    rows = []
    shown: list[tuple[str, str, Pattern]] = [("broadcast", "flooding", lambda length, _: multicast(length, 1, 0))]
    shown += [("reduce", name, pattern) for name, pattern in REDUCES_TO_THE_END.items()]
    for collective, name, pattern in shown:
        for length, words in SIZES:
            form = partial(closed_form, collective, name, 1, length, words, WAFER)
            fast, published = cycles(words, pattern(length, words)), form()
            sums = [f"{form(grouping=grouping):,.0f}" for grouping in Grouping]
            off = f"{100 * (published - fast) / fast:+.1f} %"
            rows.append([name, str(length), str(words), f"{published:,.0f}", *sums, f"{fast:,.0f}", off])
    head = ("algorithm", "PEs", "words", "published", "additive", "overlapped", "fabric model", "error of published")
    return markdown_table(head, rows)


def distances() -> list[str]:
    """Return the Markdown table of the cycles of reduces, divided by their lower bound."""
    rows = []
    for length, words in SIZES:
        cost = partial(cycles, words)
        row = [
            distance_to_bound(cost(pattern(length, words)), length, words, WAFER)
            for pattern in REDUCES_TO_THE_END.values()
        ]
        tree = k_tree(length, 1, ADD, broadcast=False)
        row.append(distance_to_bound(cost(tree), length, words, WAFER, root=root_of(length)))
        best = cheapest_pattern("reduce", length, 1, ADD, words=words, level_cycles=level_cycles(WAFER), cost=cost)
        row.append(distance_to_bound(best.cost, length, words, WAFER, root=best.root))
        rows.append(
            [str(length), str(words), *(f"{value:.2f}" for value in row), f"{best.label}: {best.cost:,.0f} cycles"]
        )
    head = ("PEs", "words", *REDUCES_TO_THE_END, "k_tree, 2 levels", "auto", "pattern of auto")
    return markdown_table(head, rows)


def tables() -> str:
    """Return both tables with their headings, between the markers ``BEGIN`` and ``END``."""
    lines = [BEGIN, "", "### Closed forms and the fabric model", "", *forms()]
    lines += ["", "### Distance of reduces to the lower bound", "", *distances(), "", END]
    return "\n".join(lines)


def main() -> None:
    """Replace the tables in the page that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    page = parser.parse_args().page
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    page.write_text(before + tables() + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()

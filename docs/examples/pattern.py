"""Compare the cycle counts of two reduces from the fabric model with their closed forms and the lower bound.

Example:
    python docs/examples/pattern.py
"""

from __future__ import annotations

import sys

from wse.backends.fabric.line.closed_forms import closed_form, reduce_bound
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pattern_times import LinePattern, PatternTimes
from wse.hardware.load import load_software, load_wafer
from wse.program.steps import ROWS
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.two_phase import two_phase
from wse_mappings.schedule import Arrival

LENGTH, WORDS = 64, 16
WAFER = load_wafer("wse2")
SOFTWARE = load_software("tuned", WAFER.generation)
TIMES = PatternTimes(LineCosts.of(WAFER, SOFTWARE.reduce_gap_cycles, SOFTWARE.relay_cycles))

for reduce in (chain, two_phase):
    schedule = reduce(LENGTH, 1, Arrival.ADD)
    cycles = TIMES.time([LinePattern(schedule, 0, WORDS, ROWS)]).cycles.total
    form = closed_form("reduce", schedule.name, 1, LENGTH, WORDS, WAFER)
    sys.stdout.write(f"{schedule.name:10} {cycles:6.0f} cycles, {form:6.0f} by its closed form\n")
sys.stdout.write(f"no reduce takes less than {reduce_bound(LENGTH, WORDS, WAFER):.0f}\n")

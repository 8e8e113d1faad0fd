"""Reduces, broadcasts and all-reduces, timed by the fast model on the patterns that the compiler uses.

A row names an algorithm, a grid and the words on each PE. The window that its source timed adds a constant
(`windows.py`), the version of its code decides the gap between vector operations (`versions.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from wse.fabric.line_time import LineCosts, line_cycles
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.studies.validation.measurements import Measurement
from wse.studies.validation.platforms import wafer_of, words_per_cycle
from wse.studies.validation.prediction import Prediction, because
from wse.studies.validation.units import is_cycles
from wse.studies.validation.versions import collective_software
from wse.studies.validation.windows import clock_starts_apart, program_window
from wse_mappings.patterns.binary_tree import binary_tree
from wse_mappings.patterns.chain import chain
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.star import star
from wse_mappings.patterns.two_phase import two_phase
from wse_mappings.schedule import Arrival, LineSchedule

KERNELS: Final = {
    "reduce": "reduce",
    "2dreduce": "reduce",
    "broadcast": "broadcast",
    "2dbroadcast": "broadcast",
    "multicast": "broadcast",
    "allreduce": "allreduce",
}
MOST_PES: Final = 300_000
"""On one line that is timed message by message: a second or two."""

STAR_BATCH_WORDS: Final = 4
"""Words that a star's root takes in one operation where every PE sends one (github.com/pr0f3ss/SpMM_Cerebras)."""

Reduce = Callable[[int, int, Arrival], LineSchedule]
_REDUCES: Final[tuple[tuple[re.Pattern[str], Reduce], ...]] = (
    (re.compile(r"two[- ]phase"), two_phase),
    (re.compile(r"\btree\b"), binary_tree),
    (re.compile(r"\b(chain|pipeline|snake)\b"), chain),
    (re.compile(r"\bstar\b"), star),
)
_GROUP: Final = re.compile(r"\bs\s*=\s*([0-9]{1,5})\b")
_BROADCAST: Final = re.compile(r"flood|multicast")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Patterns one after another, and what timing them takes."""

    costs: LineCosts
    words: int

    def cycles(self, *patterns: LineSchedule) -> float:
        """From the first operation to the last, a gap between patterns, all lines of a pattern together."""
        gaps = (len(patterns) - 1) * self.costs.gap
        return gaps + sum(line_cycles(p.messages, self.words, self.costs).total for p in patterns)

    def batched_star(self, length: int) -> float:
        """A star of one word a PE, whose root takes several at a time: they come a hop apart, as one stream."""
        senders = range(1, length, STAR_BATCH_WORDS)
        messages = np.array([(pe, 0, Arrival.ADD) for pe in senders], np.int32)
        return line_cycles(messages, min(STAR_BATCH_WORDS, length - 1), self.costs).total


def predict(m: Measurement) -> Prediction | None:
    """Cycles of a collective."""
    kernel = KERNELS.get(re.sub(r"[\s_-]", "", m.text("kernel").lower()))
    if kernel is None or not is_cycles(m.text("metric")):
        return None
    wafer = wafer_of(m)
    if wafer is None:
        return because("the row does not name the one wafer generation that it was measured on")
    if m.rows is None or m.cols is None or m.words is None:
        return because("the row does not give the grid and the bytes of the vector on each PE")
    if clock_starts_apart(m):
        return because(
            "each PE's clock starts when the launch reaches it: only differences between rows are comparable"
        )
    algorithm = m.text("algorithm").lower()
    reduce = None if kernel == "broadcast" else _reduce(algorithm)
    if (kernel == "broadcast" and not _BROADCAST.search(algorithm)) or (kernel != "broadcast" and reduce is None):
        return because(f"no pattern of this emulator is the {kernel} algorithm of the row")
    software = collective_software(m, alike=kernel == "broadcast" or reduce is star)
    run = _Run(costs=_costs(m, wafer, software), words=m.words)
    if m.rows * m.cols > MOST_PES and (kernel == "broadcast" or "snake" in algorithm):
        return because(f"a line through more than {MOST_PES:,} PEs is more than is timed message by message")
    cycles = _cycles(run, kernel, algorithm, reduce, m.rows, m.cols)
    return Prediction(value=cycles + program_window(m), method="fast model", software=software.name)


def _cycles(run: _Run, kernel: str, algorithm: str, reduce: Reduce | None, rows: int, cols: int) -> float:
    """A corner's words reach the farthest PE over as many hops as on a straight line of rows + cols - 1 PEs."""
    out = multicast(rows + cols - 1, 1, 0)
    if reduce is None:
        return run.cycles(out)
    if reduce is star and min(rows, cols) == 1 and run.words == 1:
        into = run.batched_star(rows * cols)
    elif "snake" in algorithm:
        into = run.cycles(chain(rows * cols, 1, Arrival.ADD))
    else:
        into = run.cycles(*(reduce(length, 1, Arrival.ADD) for length in (cols, rows) if length > 1))
    return into if kernel == "reduce" else into + run.costs.gap + run.cycles(out)


def _reduce(algorithm: str) -> Reduce | None:
    """The one-dimensional reduce that the text names; of an X-Y reduce, that of its rows and column."""
    if not re.search(r"\bring\b|k-?tree|auto", algorithm):
        for words, pattern in _REDUCES:
            if words.search(algorithm):
                group = _GROUP.search(algorithm)
                return partial(two_phase, group=int(group[1])) if pattern is two_phase and group else pattern
    return None


def _costs(m: Measurement, wafer: WaferSpec, software: SoftwareProfile) -> LineCosts:
    return LineCosts(
        hop=wafer.hop_cycles,
        ramp=wafer.ramp_cycles,
        gap=software.reduce_gap_cycles,
        words_per_cycle=words_per_cycle(m, wafer),
    )

"""Times of drafting that no Program has: ids in transit between draft and model, the look-up, a model on the host.

Assumptions, of grade I as nothing is published about drafts on wafers. Ids go from the corner of one region to the
corner of the other, over all columns of both and the rows of the taller one, as if they stood side by side, and reach
every PE along its first row and down its columns. Each link between the wafers of the two regions adds one crossing. On
the host, a draft model takes the time of reading its weights from memory once a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from wse.backends.execute.prompt_lookup import LONGEST_RUN
from wse.backends.fabric.causes import NO_CYCLES, Cycles
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pattern_times import LinePattern, pattern_times
from wse.errors import BadWafer
from wse.files import read_toml
from wse.hardware.number import SourcedNumber
from wse.hardware.number_file import read_number
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.isa.pe_costs import pe_costs
from wse.program.steps import COLUMNS, ROWS
from wse.studies.options.draft import HOST, WAFER
from wse_mappings.cuts.split import ceil_div
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.multicast import multicast
from wse_mappings.schedule import Arrival, LineSchedule

ID_BYTES: Final = 4
_HOST_FILE: Final = Path(__file__).parents[2] / "data" / "draft_host.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A rectangle of PEs, of a model or of its draft."""

    rows: int
    cols: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTimes:
    """The times of drafts that are made in a place, for a model whose ids stand in ``region``.

    Attributes:
        place: ``same``, ``wafer`` or ``host``.
        host_draws: Whether the host draws ids, so that it hands all ids on, in round trips that the passes have.
        wafers_apart: Links between the two wafers of the regions, for a draft on one of several wafers of the model.
            A draft on a wafer of its own is one link away.
    """

    wafer: WaferSpec
    software: SoftwareProfile
    region: Region
    place: str
    host_draws: bool
    wafers_apart: int = 0

    def exchange_cycles(self, words: int, target: Region, source: Region) -> float:
        """Return the cycles of so many ids from one region to all PEs of another; none where the host hands them on.

        1. A task sends them from corner to corner: over the ramps of two PEs, the hops between, a word behind another;
           to another wafer over its link too.
        2. The first row of the target gets them from its first PE, and each column from its first row.
        """
        if self.place == HOST or self.host_draws:
            return 0.0
        wafer, line = self.wafer, LineCosts.of_software(self.wafer, self.software)
        hops = (source.cols + target.cols + max(source.rows, target.rows)) * line.hop + words / line.words_per_cycle
        cycles = self._launch().plus(relays=2 * line.ramp + 1, hops=hops)  # 1
        if links := 1 if self.place == WAFER else self.wafers_apart:
            link_s = wafer.wafer_link_latency_s + words * ID_BYTES / wafer.wafer_link_bytes_per_s
            cycles = cycles.plus(crossing=links * link_s * wafer.clock_hz)
        along_row = self._line(multicast(target.cols, target.rows, 0), words, ROWS)  # 2
        down_columns = self._line(multicast(target.rows, target.cols, 0), words, COLUMNS)
        return cycles.followed_by(along_row).followed_by(down_columns).whole().total

    def round_trip_cycles(self) -> float:
        """Return the cycles of the host's answer to a pass after which there is no draft.

        Its ids else come with the next pass.
        """
        if self.place != HOST or self.host_draws:
            return 0.0
        return self.wafer.host_round_trip_s * self.wafer.clock_hz

    def look_up_cycles(self, context: int, tokens: int) -> float:
        """Return the cycles of looking up a draft of so many tokens in a text of as many as a context holds.

        On the host none: it takes far less than the round trip to there. On PEs, each of which has its share of the
        text with what follows it:

        1. A PE compares its share with the last tokens of the text, and takes the longest run at the first place.
        2. The longest of all is found along rows, then along columns, as the head finds the likeliest id.
        3. The PE that has it adds the tokens behind to none of the others, along columns, then along rows.
        """
        if self.place == HOST:
            return 0.0
        region, pe = self.region, pe_costs(self.wafer, self.software, "float32", "float32")
        share = ceil_div(context, region.rows * region.cols)
        compare = (2 * LONGEST_RUN + 1) * pe.vector(share, pe.f32) + pe.vector(share, pe.largest)
        cycles = Cycles().plus(launch=self.software.task_dispatch_cycles, compute=compare)  # 1
        for arrival, words in ((Arrival.ARGMAX, 2), (Arrival.ADD, tokens)):  # 2, 3
            along_rows = k_tree(region.cols, region.rows, arrival, broadcast=True)
            along_columns = k_tree(region.rows, region.cols, arrival, broadcast=True)
            cycles = cycles.followed_by(self._line(along_rows, words, ROWS))
            cycles = cycles.followed_by(self._line(along_columns, words, COLUMNS))
        crossing = self.exchange_cycles(tokens, region, region) if self.place == WAFER else 0.0
        return cycles.whole().total + crossing

    def host_token_cycles(self, weight_bytes: int) -> float:
        """Return the cycles of one drafted token of a model with so many bytes of weights on the host."""
        return weight_bytes / host_memory_rate().value * self.wafer.clock_hz

    def _line(self, schedule: LineSchedule, words: int, axis: int) -> Cycles:
        """Return the cycles of a pattern along all lines of a region; none where a line is one PE."""
        if not len(schedule.messages):
            return NO_CYCLES
        times = pattern_times(LineCosts.of_software(self.wafer, self.software))
        return self._launch().followed_by(times.time([LinePattern(schedule, 0, words, axis)]).cycles)

    def _launch(self) -> Cycles:
        """Activating the task of a step that sends, and issuing its operation."""
        return Cycles().plus(launch=self.software.task_dispatch_cycles + self.software.vector_issue_cycles)


@cache
def host_memory_rate() -> SourcedNumber:
    """Return the bytes a second of the host's memory, with grade and source."""
    name = "host_memory_bytes_per_s"
    return read_number(_HOST_FILE, name, read_toml(_HOST_FILE, BadWafer)[name], int, "")

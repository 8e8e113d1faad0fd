"""Drafting times that are not part of any Program.

They cover the exchange of token ids between draft and model, the look-up in the text, and a draft
model on the host. Nothing has been published about drafts on wafers, so all assumptions have grade
I (inferred):

- Ids are sent between the corners of two adjacent regions: over all columns of both regions and the
  rows of the taller one. They reach the PEs along the first row and down the columns.
- Each link between the wafers of the two regions adds one crossing.
- On the host, a draft token takes as long as reading the draft model's weights from memory once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from wse.backends.execute.host_tokens.prompt_lookup import LONGEST_RUN
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
from wse.studies.options.drafts.draft import HOST, WAFER
from wse_mappings.patterns.k_tree import k_tree
from wse_mappings.patterns.multicast import multicast
from wse_mappings.rounding import ceil_div
from wse_mappings.schedule import Arrival, LineSchedule

ID_BYTES: Final = 4
_HOST_FILE: Final = Path(__file__).parents[2] / "data" / "draft_host.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Size of a rectangle of PEs that sends or receives token ids."""

    rows: int
    cols: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTimes:
    """Timing model for drafting: finding the draft tokens and sending their ids to the model.

    In speculative decoding, a draft model or a look-up proposes tokens, which the model verifies.

    Attributes:
        wafer: Wafer type, which determines the clock rate and the links to other wafers and to the
            host.
        software: Costs of the software on the wafer.
        region: PE rectangle of the model to which the ids of draft tokens are sent.
        place: Where drafts are made: on the ``same`` wafers, on another ``wafer`` or on the
            ``host``.
        host_draws: Whether the host selects the next token from the logits. If so, the host sends
            the token ids, and its round trips are already counted in the times of the model's
            passes.
        wafers_apart: Number of wafer links between the PEs that make drafts and ``region``. Used
            only if drafts are made on the ``same`` wafers. A separate wafer is always one link
            away.
    """

    wafer: WaferSpec
    software: SoftwareProfile
    region: Region
    place: str
    host_draws: bool
    wafers_apart: int = 0

    def exchange_cycles(self, words: int, target: Region, source: Region) -> float:
        """Return the cycles needed to send token ids from one PE rectangle to all PEs of another.

        The result is 0 if drafts are made on the host or the host selects tokens. The host then
        sends the ids, which is counted elsewhere.

        1. A PE in a corner of the source sends the ids to a corner of the target. If the target is
           on another wafer, the ids also cross the links between the wafers.
        2. The ids are multicast along the first row of the target and then down its columns.

        Args:
            words: Number of ids; each is one word.
            target: Rectangle that receives the ids.
            source: Rectangle that sends them.
        """
        if self.place == HOST or self.host_draws:
            return 0.0
        wafer, line = self.wafer, LineCosts.for_software(self.wafer, self.software)
        hops = (source.cols + target.cols + max(source.rows, target.rows)) * line.hop + words / line.words_per_cycle
        cycles = self._launch().plus(relays=2 * line.ramp + 1, hops=hops)  # 1
        if links := 1 if self.place == WAFER else self.wafers_apart:
            link_s = wafer.wafer_link_latency_s + words * ID_BYTES / wafer.wafer_link_bytes_per_s
            cycles = cycles.plus(crossing=links * link_s * wafer.clock_hz)
        along_row = self._line(multicast(target.cols, target.rows, 0), words, ROWS)  # 2
        down_columns = self._line(multicast(target.rows, target.cols, 0), words, COLUMNS)
        return cycles.followed_by(along_row).followed_by(down_columns).rounded_up().total

    def round_trip_cycles(self) -> float:
        """Return how many cycles token ids need to travel from the wafer to the host and back.

        The result is 0 in two cases: if drafts are not made on the host, and if the host also
        selects tokens, because the round trips are then included in the times of the passes.

        If drafts are found by a look-up in the text, this delay occurs only if the look-up finds
        none. Otherwise, the ids of draft tokens arrive together with the pass that verifies them.
        """
        if self.place != HOST or self.host_draws:
            return 0.0
        return self.wafer.host_round_trip_s * self.wafer.clock_hz

    def look_up_cycles(self, context: int, tokens: int) -> float:
        """Return the cycles needed to find a draft in the text so far.

        The draft consists of the tokens that followed an earlier occurrence of the text's last
        tokens. On the host, the look-up counts as 0 cycles because the round trip takes far longer.
        On a wafer, each PE stores a part of the text and the tokens that follow this part:

        1. Each PE searches its part for the longest match with the last tokens of the text.
        2. An all-reduce along rows and then along columns finds the longest match over all PEs.
        3. An all-reduce sends the tokens that follow this match to all PEs. The PE with the match
           contributes the tokens, and all other PEs contribute zeros.

        Args:
            context: Maximum number of tokens in the text.
            tokens: Number of tokens in the draft.
        """
        if self.place == HOST:
            return 0.0
        region, pe = self.region, pe_costs(self.wafer, self.software, "float32", "float32")
        tokens_per_pe = ceil_div(context, region.rows * region.cols)
        compare = (2 * LONGEST_RUN + 1) * pe.vector(tokens_per_pe, pe.f32) + pe.vector(tokens_per_pe, pe.max_f32)
        cycles = Cycles().plus(launch=self.software.task_dispatch_cycles, compute=compare)  # 1
        for arrival, words in ((Arrival.ARGMAX, 2), (Arrival.ADD, tokens)):  # 2, 3
            along_rows = k_tree(region.cols, region.rows, arrival, broadcast=True)
            along_columns = k_tree(region.rows, region.cols, arrival, broadcast=True)
            cycles = cycles.followed_by(self._line(along_rows, words, ROWS))
            cycles = cycles.followed_by(self._line(along_columns, words, COLUMNS))
        crossing = self.exchange_cycles(tokens, region, region) if self.place == WAFER else 0.0
        return cycles.rounded_up().total + crossing

    def host_token_cycles(self, weight_bytes: int) -> float:
        """Return the cycles that the host needs to draft a token by reading all weights once."""
        return weight_bytes / host_memory_rate().value * self.wafer.clock_hz

    def _line(self, schedule: LineSchedule, words: int, axis: int) -> Cycles:
        """Return the cycles of a communication pattern that runs along all rows or columns at once.

        The cycles include the start of the pattern's code on the PEs. The result is 0 if the
        pattern has no messages, as on a single PE.

        Args:
            schedule: Messages of the pattern on one row or column.
            words: Words per message.
            axis: ``ROWS`` or ``COLUMNS``: the direction of the pattern.
        """
        if not len(schedule.messages):
            return NO_CYCLES
        times = pattern_times(LineCosts.for_software(self.wafer, self.software))
        return self._launch().followed_by(times.time([LinePattern(schedule, 0, words, axis)]).cycles)

    def _launch(self) -> Cycles:
        """Return the cycles that a PE needs to dispatch a sending task and issue its operation."""
        return Cycles().plus(launch=self.software.task_dispatch_cycles + self.software.vector_issue_cycles)


@cache
def host_memory_rate() -> SourcedNumber:
    """Return the assumed memory bandwidth of the host in bytes per second, with its source."""
    name = "host_memory_bytes_per_s"
    return read_number(_HOST_FILE, name, read_toml(_HOST_FILE, BadWafer)[name], int, "")

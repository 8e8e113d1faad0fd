"""Cycle count of one iteration of a transfer that does not follow a pattern along lines.

Such a transfer copies words within each PE, moves cache entries to the row above, or sends words to
another region, to another wafer, or to or from the host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from wse.arrays import I64
from wse.backends.fabric.causes import NO_CYCLES, Cycles
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.links.link_map import cached_max_link_words
from wse.backends.fabric.links.traffic import StreamSize, Traffic
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.isa.pe_costs import PeCosts
from wse.program.steps import COLUMNS, HOST, ROWS
from wse.program.transfers.messages import RowShift, Translation
from wse.program.transfers.transfer import Transfer, WaferPair


class TransferCosts:
    """Cost model for transfers that do not follow a pattern along rows or columns of PEs.

    These are copies within PEs, cache shifts, and transfers to other regions, wafers and the host.

    Attributes:
        task: Cycles to dispatch the task of a step.
        launch: Cycles to dispatch the task of a step and to issue a vector operation.
        ramp_cycles: Cycles spent on the two ramps: from a PE to its router, and from the last
            router to its PE. One cycle of the operation that sends the word is included.
    """

    def __init__(
        self, wafer: WaferSpec, software: SoftwareProfile, traffic: Traffic, line: LineCosts, pe: PeCosts
    ) -> None:
        self._wafer, self._traffic, self._line, self._pe = wafer, traffic, line, pe
        self.task = Cycles().plus(launch=software.task_dispatch_cycles)
        self.launch = self.task.plus(launch=software.vector_issue_cycles)
        self.ramp_cycles = 2 * line.ramp + 1

    def cycles(self, transfer: Transfer) -> Cycles:
        """Return the cycles of a transfer that does not follow a pattern along rows or columns.

        Such a transfer copies words within each PE, moves cache entries to the row above, or sends
        words to another region, to another wafer, or to or from the host.
        """
        if not transfer.is_awaited:
            return NO_CYCLES
        if transfer.in_memory:
            return self.task.plus(compute=self._pe.vector(transfer.elements, self._pe.act))
        if isinstance(transfer.messages, RowShift):
            return self._shift(transfer)
        return self._stream(transfer)

    def _shift(self, transfer: Transfer) -> Cycles:
        """Return the cycles of a cache shift, in which rows of PEs send a cache entry one row up.

        The cycles do not depend on the number of rows, because all rows send at the same time.
        """
        line = self._traffic.routes.line(transfer.site.stage, COLUMNS)
        farthest, streams = (line.farthest, line.streams) if line else (1, 1)
        hops = farthest * self._line.hop + transfer.words * streams / self._line.words_per_cycle
        return self.launch.plus(relays=self.ramp_cycles, hops=hops)

    def _stream(self, transfer: Transfer) -> Cycles:
        """Return the cycles to send words to another region or wafer, or to or from the host.

        1. The transfer is issued once.
        2. Its messages may be sent one after another, in several rounds. In each round, the words
           cross the ramps of sender and receiver, and the first word travels the longest path. The
           words of the busiest link then follow it.
        3. Links between different pairs of wafers work in parallel, so the wafer that sends to, or
           receives from, the most wafers determines the time. Its messages wait for the link
           latency, and their bytes are sent at the link's rate. A PE adds the words that it
           receives.
        4. The link to the host has its own rate and its own round trips.
        """
        if transfer.leaves_wafer and not transfer.crossings:
            return self.launch
        wafer, sizes = self._wafer, self._traffic.stream_sizes
        if transfer not in sizes:
            sizes[transfer] = self._stream_size(transfer)
        cycles, size = self.launch, sizes[transfer]  # 1
        if size is not None:
            distance, stream = size.hops * self._line.hop, size.words / self._line.words_per_cycle  # 2
            cycles = cycles.plus(relays=transfer.rounds * self.ramp_cycles, hops=transfer.rounds * distance + stream)
        if not transfer.leaves_wafer:
            return cycles
        if any(HOST in pair for pair in transfer.crossings):
            seconds = transfer.crossing_bytes / wafer.host_bytes_per_s  # 4
            seconds += transfer.host_round_trips * wafer.host_round_trip_s
            return cycles.plus(host=seconds * wafer.clock_hz)
        peers = max_peers(transfer.crossings)  # 3
        seconds = transfer.link_latencies * wafer.wafer_link_latency_s
        seconds += peers * transfer.crossing_bytes / wafer.wafer_link_bytes_per_s
        add = (peers + 1) * self._pe.vector(transfer.added_elements, self._pe.acc) if transfer.added_elements else 0.0
        return cycles.plus(compute=add, crossing=seconds * wafer.clock_hz)

    def _stream_size(self, transfer: Transfer) -> StreamSize | None:
        """Return the length of a transfer's longest path, and the words on its busiest link.

        The transfer goes to another region or wafer. The result is None if it uses no links of the
        mesh.
        """
        path_segments = self._traffic.path_segments(transfer)
        if not path_segments:
            return None
        return StreamSize(
            hops=sum(map(self._traffic.routes.farthest, path_segments)),
            words=self._busiest_words(transfer, path_segments),
        )

    def _busiest_words(self, transfer: Transfer, path_segments: Sequence[I64]) -> int:
        """Return how many words the busiest link of a transfer to another region or wafer carries.

        If the transfer leaves its wafer, the busiest link is at the edge, because it carries all
        words that one row of PEs sends to, or receives from, other wafers.

        Args:
            transfer: The transfer (a step that moves words).
            path_segments: Links of each part of the transfer's path, from `Traffic.path_segments`.
        """
        messages, stage = transfer.messages, transfer.site.stage
        if not transfer.leaves_wafer:
            assert isinstance(messages, Translation)
            streams_per_link = self._traffic.routes.contention(stage, messages.target_stage)
            return max(map(cached_max_link_words, path_segments)) * streams_per_link
        words = Counter[tuple[int, bool]]()
        for edge in transfer.edges:
            words[edge.wafer, edge.leaving] += edge.words * edge.cols
        line = self._traffic.routes.line(stage, ROWS)
        return max(words.values()) * (line.streams if line else 1)


def max_peers(crossings: Sequence[WaferPair]) -> int:
    """Return the maximum number of wafers with which any wafer communicates in one direction.

    Sending and receiving are counted separately.

    Args:
        crossings: (sending, receiving) pairs of wafers. The result is 0 if there are none.
    """
    return max((max(Counter(side).values()) for side in zip(*crossings, strict=True)), default=0)

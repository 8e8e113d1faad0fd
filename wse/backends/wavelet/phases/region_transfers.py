"""Simulation of transfers between regions, between wafers, and to or from the host.

Only the links of the mesh are simulated. Words between regions are simulated on the smallest
rectangle that contains both. Words that leave a wafer are simulated up to the east edge of their
region, and words that enter a wafer starting at the west edge of their region.
"""

from __future__ import annotations

import numpy as np

from wse.arrays import I64
from wse.backends.wavelet.machine import Port
from wse.backends.wavelet.phases.mesh_state import MeshState, area_of, bounding_rect, relative_to_first
from wse.backends.wavelet.phases.step_runs import StepRun, StepRuns
from wse.program.program import Program
from wse.program.transfers.messages import EdgeStream, Translation
from wse.program.transfers.transfer import Transfer
from wse_mappings.mesh.placement import Rect


class RegionTransfers:
    """Simulator of transfers whose words leave their region, a rectangle of PEs.

    Args:
        program: The Program.
        runs: Simulator of single steps.
        state: Times of PEs and words on links, which the methods update.
        hop_cycles: Cycles per hop between neighbouring routers.
    """

    def __init__(self, program: Program, runs: StepRuns, state: MeshState, hop_cycles: int) -> None:
        self._program, self._runs, self._state, self._hop_cycles = program, runs, state, hop_cycles

    def to_stage(self, step: int, transfer: Transfer, messages: Translation, begin: I64) -> None:
        """Simulate a transfer between two regions of PEs on one wafer.

        The smallest rectangle that contains both regions is simulated.

        Args:
            step: Index of the step.
            transfer: Transfer that the step executes.
            messages: Number of words that each row sends to each row.
            begin: int64 ``[rows, cols]``: cycle at which each PE of the sending region begins.
        """
        stages, sender, receiver = self._program.stages, transfer.site.stage, messages.target_stage
        source, target = stages[sender].rect, stages[receiver].rect
        top, left, rows, cols = bounding_rect(source, target)
        base = int(min(begin.min(), self._state.free[receiver].min()))
        start = np.zeros((rows, cols), np.int32)
        areas = [area_of(Rect(r.row - top, r.col - left, r.rows, r.cols)) for r in (source, target)]
        for area, times in zip(areas, (begin, self._state.free[receiver]), strict=True):
            start[area] = times - base
        senders, receivers = (
            Rect(r.row - top, r.col - left + first_col, r.rows, messages.cols)
            for r, first_col in ((source, messages.source_col), (target, messages.target_col))
        )
        step_run = self._runs.translate(senders, receivers, messages, start)
        self._state.links[stages[sender].wafer, :, top : top + rows, left : left + cols] += step_run.link_words
        self._state.log(step, base, stages[sender].wafer, top, left, step_run.moves)
        for stage, area in zip((sender, receiver), areas, strict=True):
            self._state.occupy(stage, base, step_run.ends[area])

    def to_wafer(self, step: int, transfer: Transfer, receiver: int, begin: I64) -> None:
        """Simulate a transfer to another wafer, on the meshes of both wafers.

        Words travel to the edge of the sending wafer, and from the edge of the receiving wafer.
        They start to enter the receiving wafer when every row has sent its first word to the edge,
        or later if the stream would otherwise be interrupted.

        Args:
            step: Index of the step.
            transfer: Transfer that the step executes.
            receiver: Receiving stage.
            begin: int64 ``[rows, cols]``: cycle at which each PE of the sending region begins.
        """
        leaving, entering = transfer.edges
        at_edge = int(self.to_edge(step, transfer.site.stage, leaving, begin).max())
        stream = min(edge.words * edge.cols for edge in transfer.edges)
        cols, rect = entering.cols, self._program.stages[receiver].rect
        start, base = relative_to_first(
            np.concatenate([np.full((rect.rows, 1), at_edge - stream), self._state.free[receiver][:, :cols]], axis=1)
        )
        step_run = self._runs.edge(entering.words, start, entering=True)
        ends, links = np.zeros((rect.rows, rect.cols), np.int32), np.zeros((4, rect.rows, rect.cols), np.int64)
        ends[:, :cols], links[:, :, :cols] = step_run.ends[:, 1:], step_run.link_words[:, :, 1:]
        moves = step_run.moves[step_run.moves[:, 2] > 0] - np.array([0, 0, 1, 0, 0, 0], np.int32)
        self._state.record_run(step, receiver, base, StepRun(ends, links, moves))

    def to_edge(self, step: int, stage: int, edge: EdgeStream, begin: I64) -> I64:
        """Simulate the words that PEs of some rows send to the east edge of their region.

        Args:
            step: Index of the step.
            stage: Sending stage.
            edge: Sending PEs, and number of their words.
            begin: int64 ``[rows, cols]``: cycle at which each PE of the region begins.

        Returns:
            Cycle at which the last word of each row is at the edge.
        """
        first_row, first_col, cols = edge.first_row, edge.first_col, edge.cols
        rows, columns = slice(first_row, first_row + edge.rows), slice(first_col, first_col + cols)
        start, base = relative_to_first(
            np.concatenate([begin[rows, columns], begin[rows, first_col : first_col + 1]], axis=1)
        )
        step_run = self._runs.edge(edge.words, start, entering=False)
        rect = self._program.stages[stage].rect
        links, ends = np.zeros((4, rect.rows, rect.cols), np.int64), np.zeros((rect.rows, rect.cols), np.int32)
        inner_columns = slice(first_col, first_col + cols - 1)
        links[Port.EAST, rows, inner_columns] = step_run.link_words[Port.EAST, :, : cols - 1]
        at_edge = step_run.ends[:, cols] - self._hop_cycles
        ends[rows, columns] = np.maximum(step_run.ends[:, :cols], at_edge[:, None])
        is_inside = (step_run.moves[:, 2] < cols - 1) & (step_run.moves[:, 4] == Port.EAST)
        shift = np.array([0, first_row, first_col, 0, 0, 0], np.int32)
        self._state.record_run(step, stage, base, StepRun(ends, links, step_run.moves[is_inside] + shift))
        return at_edge.astype(np.int64) + base

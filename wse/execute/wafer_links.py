"""Patterns between the wafers of a stage: words that go over the links between wafers, and those that lead there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.execute.arena import Arena
from wse.execute.routing import Routing
from wse.execute.streams import EAST, Streams
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import Field
from wse_kernels.library import compiled

Call = tuple[Callable[..., None], tuple[Any, ...]]
Pairs = tuple[tuple[int, int], ...]


class WaferLinks:
    """Carries out the WAFERS steps of one Program; words and bytes are counted where ``streams`` counts its own."""

    def __init__(self, program: Program, streams: Streams, routing: Routing) -> None:
        self._program, self._streams, self._routing = program, streams, routing

    def calls(
        self, arena: Arena, view: npt.NDArray[Any], phase: Phase, step: int, a: npt.NDArray[np.int64]
    ) -> list[Call]:
        """The calls of one step with operands ``a``."""
        pattern, n = self._program.patterns[phase.steps.code[step]], int(a[Field.ELEMENTS])
        operands = np.array([*a[:3], a[Field.SOURCE], a[Field.TARGET], n, 0, 0, arena.cols], np.int64)  # 0 on the mesh
        words = -(-int(a[Field.PART]) * view.itemsize // 4) * int(a[Field.ROUNDS])
        if a[Field.CHOSEN]:
            return [(self._chosen, (arena, view, phase, step, operands, a, words))]
        variant = pattern.variants[0]
        move = (compiled("along_rows").serial, (view, arena.links, pattern.messages, pattern.first, variant, operands))
        return [move, (self._count, (phase, step, self._program.crossings(phase.steps, step), a, words))]

    def _chosen(
        self,
        arena: Arena,
        view: npt.NDArray[Any],
        phase: Phase,
        step: int,
        operands: npt.NDArray[np.int64],
        a: npt.NDArray[np.int64],
        words: int,
    ) -> None:
        """Only the messages of wafers with experts that the layer's router has just chosen."""
        stage, mixture = self._program.stages[phase.steps.stage[step]], self._program.mixtures[phase.steps.stage[step]]
        assert mixture is not None
        pairs = self._routing.pairs[self._program.op_layers[phase.steps.op[step]]]
        crossings = self._program.chosen_crossings(phase.steps, step, mixture.pairs_by_column(pairs))
        pattern = self._program.patterns[phase.steps.code[step]]
        ends = pattern.messages[:, :2] // stage.rect.cols + stage.wafer
        sent = [a == b or (a, b) in crossings for a, b in ends.tolist()]
        messages = np.ascontiguousarray(pattern.messages[sent])
        first = np.array([0, len(messages)], np.int32)
        compiled("along_rows").serial(view, arena.links, messages, first, pattern.variants[0], operands)
        self._count(phase, step, crossings, a, words)

    def _count(self, phase: Phase, step: int, pairs: Pairs, a: npt.NDArray[np.int64], words: int) -> None:
        """Count words to the east edge of a wafer and from the west edge, and bytes in between."""
        r = self._program.stages[phase.steps.stage[step]].rect
        leave, enter = int(a[Field.SOURCE_COL]), int(a[Field.TARGET_COL])
        rows = slice(r.row + int(a[0]), r.row + int(a[0] + a[1]))
        for source, target in pairs:
            self._streams.crossed[source, target] += int(a[Field.BYTES])
            self._streams.links[source, EAST, rows, r.col + leave : r.col + r.cols - 1] += words
            self._streams.links[target, EAST, rows, r.col : r.col + enter] += words

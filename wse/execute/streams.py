"""Words that leave a region: hand-overs to another region, crossings between wafers, and the host's streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.execute.arena import Arena
from wse.program.program import Program, Stage
from wse.program.steps import Field, HostStream, Kind
from wse_kernels.library import compiled

EAST = 1  # among the directions of link counts

Draw = Callable[[npt.NDArray[np.float32]], int]


class Streams:
    """Carries the HAND_OVER and CROSS steps of one Program. ``draws`` give users' next ids from logits on the host.

    Attributes:
        links: int64 ``[wafers, 4, mesh rows, mesh cols]``: words that hand-overs sent, by direction.
        crossed: Bytes by (from wafer, to wafer); the host is wafer -1.
        host_ids: float32 ``[ids]``: what TOKENS_IN brings in; the caller fills it before the phase runs.
        host_logits: float32 ``[users, vocabulary]``: what LOGITS_OUT brought out last.
        host_tokens: int64 ``[users]``: the ids that TOKEN_OUT brought out last.
    """

    def __init__(self, program: Program, draws: Sequence[Draw]) -> None:
        self._program = program
        self.links: npt.NDArray[np.int64] = np.zeros(
            (program.wafers, 4, program.wafer_rows, program.wafer_cols), np.int64
        )
        self.crossed: Counter[tuple[int, int]] = Counter()
        self.host_ids: npt.NDArray[np.float32] = np.zeros(0, np.float32)
        self.host_logits: npt.NDArray[np.float32] = np.zeros((program.batch, program.vocab_size), np.float32)
        self.host_tokens: npt.NDArray[np.int64] = np.full(program.batch, -1, np.int64)
        self._draws = draws

    def host_call(
        self, arena: Arena, element_type: str, a: npt.NDArray[np.int64], users: range
    ) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """The call of one CROSS step to or from the host, for these users."""
        what = HostStream(int(a[Field.WHAT]))
        action = {
            HostStream.TOKENS_IN: self._tokens_in,
            HostStream.TOKEN_OUT: self._token_out,
            HostStream.LOGITS_OUT: self._logits_out,
            HostStream.DRAWN_IN: self._drawn_in,
        }[what]
        return action, (arena, element_type, a, users)

    def region_call(
        self,
        kind: int,
        source: int,
        target: int,
        source_view: npt.NDArray[Any],
        target_view: npt.NDArray[Any],
        a: npt.NDArray[np.int64],
        words: int,
    ) -> list[tuple[Callable[..., None], tuple[Any, ...]]]:
        """The calls of one HAND_OVER, or of a CROSS between wafers."""
        here, there = (self._program.stages[stage] for stage in (source, target))
        over_mesh = kind == Kind.HAND_OVER
        on_mesh = over_mesh and not self._program.shares_pes(source, target)
        operands = np.array(
            [
                *(a[1], a[2], a[2], a[Field.SOURCE], a[Field.TARGET], a[Field.ELEMENTS]),
                *(a[Field.SOURCE_COL], a[Field.TARGET_COL], a[Field.COLS]),
                *(words if on_mesh else 0, here.rect.row, here.rect.col, there.rect.row, there.rect.col),
            ],
            np.int64,
        )
        move = (compiled("hand_over").serial, (source_view, target_view, self.links[here.wafer], operands))
        return [move] if over_mesh else [move, (self._cross, (a,)), (self._along_edges, (here, there, a, words))]

    def _along_edges(self, here: Stage, there: Stage, a: npt.NDArray[np.int64], words: int) -> None:
        """Count the words of the columns that are not at the edge, on their way to it and from it."""
        senders = np.arange(int(a[Field.SOURCE_COL]), int(a[Field.SOURCE_COL]) + int(a[Field.COLS]))
        receivers = np.arange(int(a[Field.TARGET_COL]), int(a[Field.TARGET_COL]) + int(a[Field.COLS]))
        for stage, starts, ends in (
            (here, senders, np.full_like(senders, here.rect.cols - 1)),
            (there, np.zeros_like(receivers), receivers),
        ):
            r = stage.rect
            col = np.arange(r.cols)
            over = ((starts[:, None] <= col) & (col < ends[:, None])).sum(axis=0)
            self.links[stage.wafer, EAST, r.row : r.row + r.rows, r.col : r.col + r.cols] += words * over

    def _cross(self, a: npt.NDArray[np.int64]) -> None:
        self.crossed[int(a[Field.FROM_WAFER]), int(a[Field.TO_WAFER])] += int(a[Field.BYTES])

    def _tokens_in(self, arena: Arena, element_type: str, a: npt.NDArray[np.int64], users: range) -> None:
        count = int(a[Field.ELEMENTS])
        view = arena.view(element_type)
        view[0, int(a[Field.TARGET]) : int(a[Field.TARGET]) + count, 0] = self.host_ids[:count]
        self._cross(a)

    def _drawn_in(self, arena: Arena, element_type: str, a: npt.NDArray[np.int64], users: range) -> None:
        drawn = [self._draws[user](self.host_logits[user]) for user in users]
        self.host_tokens[users] = drawn
        self.host_ids = np.array(drawn, np.float32)
        self._tokens_in(arena, element_type, a, users)

    def _token_out(self, arena: Arena, element_type: str, a: npt.NDArray[np.int64], users: range) -> None:
        first = int(a[Field.SOURCE])
        self.host_tokens[users] = arena.view(element_type)[0, first : first + len(users), 0]
        self._cross(a)

    def _logits_out(self, arena: Arena, element_type: str, a: npt.NDArray[np.int64], users: range) -> None:
        count, first = int(a[Field.ELEMENTS]) // len(users), int(a[Field.FIRST])
        west, cols, root = int(a[Field.SOURCE_COL]), int(a[Field.COLS]), self._program.root_row
        chunk = arena.read_row(element_type, root, int(a[Field.SOURCE]), len(users) * count)
        chunk = chunk.reshape(arena.cols, len(users), count)[west : west + cols]
        per_col = -(-self._program.vocab_size // arena.cols)
        index = np.arange(west, west + cols)[:, None] * per_col + first + np.arange(count)[None, :]
        real = index < self._program.vocab_size
        for i, user in enumerate(users):
            self.host_logits[user, index[real]] = chunk[:, i][real].astype(np.float32)
        words = -(-len(users) * count * arena.view(element_type).itemsize // 4)
        arena.links[EAST, root, west : west + cols - 1] += words * np.arange(1, cols)
        self._cross(a)

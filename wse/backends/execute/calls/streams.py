"""Words that a region sends to other regions, other wafers or the host, and data on the host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.arrays import I64
from wse.backends.execute.host_memory.arena import Arena
from wse.errors import BadModel
from wse.program.program import Program
from wse.program.steps import HOST
from wse.program.transfers.host_streams import LogitsOut
from wse.program.transfers.messages import EdgeStream, HostWords
from wse.program.transfers.transfer import Transfer
from wse_mappings.plane import EAST
from wse_mappings.rounding import ceil_div

Call = tuple[Callable[..., None], tuple[Any, ...]]
"""A function and its arguments."""

Draw = Callable[[npt.NDArray[np.float32]], int]


class Streams:
    """Data that a Program exchanges with the host, and counters of the words that leave regions.

    Args:
        program: The compiled Program.
        draws: Functions, one per user, that sample the next id from logits.
        wafers: Wafers whose words are counted.

    Attributes:
        links: For each wafer, int64 ``[4, mesh rows, mesh cols]``: words that transfers between
            stages send over the north, east, south and west link of each PE.
        crossed: Number of bytes per (sending wafer, receiving wafer) pair; the host is wafer -1.
        host_ids: float32 ``[ids]``, ids that `TokensIn` and `DraftIn` bring in. The caller sets
            them before the phase runs.
        host_logits: float32 ``[users + n, vocabulary]``, last logits that `LogitsOut` sent to the
            host: for each user, then for each of the n tokens of a verification pass.
        host_tokens: int64 ``[users + n]``, last ids that `TokenOut` sent to the host, in the same
            order.
    """

    def __init__(self, program: Program, draws: Sequence[Draw], wafers: Collection[int]) -> None:
        self._program = program
        mesh = program.wafer_rows, program.wafer_cols
        self.links: dict[int, npt.NDArray[np.int64]] = {wafer: np.zeros((4, *mesh), np.int64) for wafer in wafers}
        self.crossed: Counter[tuple[int, int]] = Counter()
        self.host_ids: npt.NDArray[np.float32] = np.zeros(0, np.float32)
        places = program.batch + program.verify_tokens
        self.host_logits: npt.NDArray[np.float32] = np.zeros((places, program.vocab_size), np.float32)
        self.host_tokens: npt.NDArray[np.int64] = np.full(places, -1, np.int64)
        self._draws = draws

    def ids(self, places: range) -> list[int]:
        """Return the token ids that the host has received, at the given indices of ``host_tokens``.

        Raises:
            BadModel: The logits of a token contained NaN or infinity.
        """
        ids = self.host_tokens[places]
        if (ids < 0).any():
            raise BadModel(
                f"{self._program.model_name}: the logits are not numbers: a weight is not a number, or values "
                f"overflowed {self._program.element_type('act')}; check the weights, or use --dtype bfloat16 or float32"
            )
        return list(ids.tolist())

    def take_most_likely(self, places: range) -> None:
        """Choose the most likely token ids from logits that the host has received.

        Each id is the one with the highest logit, or -1 if any logit of the token is not finite.

        Args:
            places: Range of indices into ``host_tokens``, where the ids are stored, and into
                ``host_logits``.
        """
        logits = self.host_logits[places]
        self.host_tokens[places] = np.where(np.isfinite(logits).all(axis=1), logits.argmax(axis=1), -1)

    def draw(self, users: range) -> None:
        """Sample the next ids of the given users from their logits.

        The ids are stored in ``host_tokens``. The transfer `DrawnIn` sends them to the wafer.
        """
        self.host_tokens[users] = [self._draws[user](self.host_logits[user]) for user in users]

    def host_call(self, arena: Arena, element_type: str, transfer: Transfer, places: range) -> Call:
        """Return a call that sends words to the host or receives words from it.

        Args:
            arena: SRAM of the stage.
            element_type: Element type of the words.
            transfer: The transfer (a step that moves words).
            places: Where the host stores received values: indices into ``host_tokens`` and
                ``host_logits``. For a transfer that sends sampled tokens to the wafer, the indices
                of the users.
        """
        action = {
            HostWords.TOKENS_IN: self._tokens_in,
            HostWords.TOKEN_OUT: self._token_out,
            HostWords.LOGITS_OUT: self._logits_out,
            HostWords.SAMPLED_IN: self._sampled_in,
        }
        words = transfer.messages
        assert isinstance(words, HostWords)
        return action[words], (arena, element_type, transfer, places)

    def count(self, transfer: Transfer) -> None:
        """Count the bytes and words of a transfer that leaves its wafer.

        The bytes are counted for each pair of wafers; the host counts as a wafer. The words are
        counted on the links from the sending PEs to the east edge of their wafer, and from the west
        edge of the other wafer to the receiving PEs.
        """
        for ends in transfer.crossings:
            if ends[0] == HOST or ends[0] in self.links:
                self.crossed[ends] += transfer.crossing_bytes
        for edge in transfer.edges:
            if edge.wafer not in self.links:
                continue
            rect = edge.rect
            rows = slice(rect.row + edge.first_row, rect.row + edge.first_row + edge.rows)
            self.links[edge.wafer][EAST, rows, rect.col : rect.col + rect.cols] += _words_east(edge)

    def link_words(self, arenas: Mapping[int, Arena]) -> npt.NDArray[np.int64]:
        """Return how many words each link has carried, for transfers between and within stages.

        Args:
            arenas: SRAM of the stages in this process, which also counts the words of transfers
                within a stage; the key is the stage.

        Returns:
            int64 ``[wafers, 4, mesh rows, mesh cols]``. The second axis is the link of a PE: north,
            east, south, west.
        """
        total = {wafer: words.copy() for wafer, words in self.links.items()}
        for number, arena in arenas.items():
            stage = self._program.stages[number]
            r = stage.rect
            for i, wafer in enumerate(stage.wafers):
                words = arena.links[:, :, i * r.cols : (i + 1) * r.cols]
                total[wafer][:, r.row : r.row + r.rows, r.col : r.col + r.cols] += words
        return np.stack(list(total.values()))

    def _tokens_in(self, arena: Arena, element_type: str, transfer: Transfer, places: range) -> None:
        """Write token ids from the host to the SRAM of a region's first PE.

        ``places`` is not used. It is a parameter because all functions that exchange words with the
        host have the same parameters.
        """
        view, count = arena.view(element_type), transfer.elements
        view[0, transfer.target : transfer.target + count, 0] = self.host_ids[:count]
        self.count(transfer)

    def _sampled_in(self, arena: Arena, element_type: str, transfer: Transfer, users: range) -> None:
        """Sample the next ids of users on the host, and write them to the first PE of a region."""
        self.draw(users)
        self.host_ids = self.host_tokens[users].astype(np.float32)
        self._tokens_in(arena, element_type, transfer, users)

    def _token_out(self, arena: Arena, element_type: str, transfer: Transfer, places: range) -> None:
        """Copy token ids from a region's first PE to ``host_tokens``, at the indices ``places``."""
        self.host_tokens[places] = arena.view(element_type)[0, transfer.source : transfer.source + len(places), 0]
        self.count(transfer)

    def _logits_out(self, arena: Arena, element_type: str, transfer: Transfer, places: range) -> None:
        """Copy a chunk of the logits to the host, from the row of PEs on which they are summed.

        Args:
            arena: SRAM of the stage.
            element_type: Element type of the logits.
            transfer: The transfer (a step that moves words).
            places: For each token, its index in ``host_logits``.
        """
        assert isinstance(transfer, LogitsOut)
        count = transfer.elements // len(places)
        columns = slice(transfer.source_col, transfer.source_col + transfer.cols)
        chunk = arena.read_row(element_type, self._program.root_row, transfer.source, len(places) * count)
        chunk = chunk.reshape(arena.cols, len(places), count)[columns]
        per_col = ceil_div(self._program.vocab_size, arena.cols)
        index = np.arange(arena.cols)[columns, None] * per_col + transfer.first + np.arange(count)[None, :]
        is_real = index < self._program.vocab_size
        for i, place in enumerate(places):
            self.host_logits[place, index[is_real]] = chunk[:, i][is_real].astype(np.float32)
        self.count(transfer)


@lru_cache(maxsize=256)
def _words_east(edge: EdgeStream) -> I64:
    """Return how many words cross the eastern link of each PE of a row, int64 ``[cols]``.

    Args:
        edge: Transfer in which PEs of a region send words to the east edge of their wafer, or
            receive words from its west edge.
    """
    columns = np.arange(edge.rect.cols)
    sides = np.arange(edge.first_col, edge.first_col + edge.cols)[:, None]
    crosses = (sides <= columns) & (columns < edge.rect.cols - 1) if edge.leaving else columns < sides
    return np.asarray(edge.words * crosses.sum(axis=0), np.int64)

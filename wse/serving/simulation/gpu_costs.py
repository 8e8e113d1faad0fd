"""GpuCosts: pass costs of a model on GPUs, from `wse.serving.gpus.server`.

A pass has the tokens that are decoded and the pieces of prompts together, as continuous batching runs them (Sarathi,
arXiv 2308.16369). All GPUs together hold the model, so a round is a pass and a first token is out at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from wse.serving.gpus.roofline import Tokens
from wse.serving.gpus.server import BLOCK_TOKENS, GpuServer
from wse.serving.simulation.pass_costs import Piece

CONTEXTS: Final = 9


@dataclass(frozen=True, kw_only=True)
class GpuCosts:
    """The costs of GPUs; see `wse.serving.simulation.pass_costs.PassCosts`.

    Attributes:
        server: The model on its GPUs, with what drafts for it.
        context: Tokens of the longest request.
        draft_tokens: Tokens that decode passes verify, which are drafted one by one.
    """

    server: GpuServer
    context: int
    draft_tokens: int = 0

    @cached_property
    def kv_capacity_tokens(self) -> int:
        """Tokens that fit the cache. Raises DoesNotFit where the weights alone do not."""
        return self.server.kv_capacity_tokens

    @property
    def kv_block_tokens(self) -> int:
        """Tokens of a block."""
        return BLOCK_TOKENS

    def room_tokens(self, tokens: int) -> int:
        """Return the room that a user's cache needs; a layer with a window keeps no more tokens than that."""
        return self.server.kv_room_tokens(tokens)

    @property
    def most_users(self) -> int:
        """Users that the stack has in flight at most."""
        return self.server.max_sequences

    @property
    def chunk_tokens(self) -> int:
        """Pieces of prompts may have any length."""
        return 1

    @cached_property
    def contexts(self) -> tuple[int, ...]:
        """The grid of contexts."""
        return tuple(sorted({round(at * self.context / (CONTEXTS - 1)) for at in range(CONTEXTS)}))

    @property
    def host_s(self) -> float:
        """The host's work between passes is part of a pass."""
        return 0.0

    @property
    def prompts_fill_gaps(self) -> bool:
        """All GPUs work on one pass at a time, so none of them waits."""
        return False

    def piece_busy_s(self, piece: Piece) -> float:
        """Return the seconds of a pass over the piece alone."""
        return self.round_s(0, 0, (piece,))

    def round_s(self, users: int, context: int, pieces: Sequence[Piece]) -> float:
        """Return the seconds of a pass, and of the drafts that it verifies."""
        tokens = 1 + self.draft_tokens
        groups = [Tokens(users=users, new=tokens, context=context, outputs=tokens)] if users else []
        groups += [Tokens(users=1, new=piece.tokens, context=piece.context) for piece in pieces]
        drafting_s = 0.0
        if users and self.server.draft is not None:
            drafting_s = self.draft_tokens * self.server.draft.draft_s(users, 1, context)
        return self.server.pass_time(groups).total_s + drafting_s

    def work_s(self, users: int, context: int, pieces: Sequence[Piece]) -> float:
        """Return the whole round."""
        return self.round_s(users, context, pieces)

    def drain_s(self, piece: Piece) -> float:
        """Nothing: there is one stage."""
        return 0.0

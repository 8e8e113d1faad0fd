"""GpuCosts: pass times of a model on GPUs, from `wse.serving.gpus.server`.

A pass processes both decoded tokens and parts of prompts, as in continuous batching (Sarathi, arXiv
2308.16369). All GPUs share one model, so a round is one pass, and a first token is available at its
end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from wse.serving.gpus.roofline import Tokens
from wse.serving.gpus.server import BLOCK_TOKENS, GpuServer
from wse.serving.simulation.costs.pass_costs import PromptPart

CONTEXTS: Final = 9


@dataclass(frozen=True, kw_only=True)
class GpuCosts:
    """Pass times and KV cache capacity of GPUs.

    `wse.serving.simulation.costs.pass_costs.PassCosts` documents the attributes and methods that
    are not described here.

    Attributes:
        server: The model on its GPUs, with its draft if there is one.
        context: Length of the longest request in tokens.
        draft_tokens: Number of draft tokens that each decode pass verifies. They are drafted one by
            one.
    """

    server: GpuServer
    context: int
    draft_tokens: int = 0

    @cached_property
    def kv_capacity_tokens(self) -> int:
        """Total number of tokens, over all users, that fit in the KV caches.

        Raises:
            DoesNotFit: The weights alone need more memory than there is.
        """
        return self.server.kv_capacity_tokens

    @property
    def kv_block_tokens(self) -> int:
        """Tokens per block of the KV cache."""
        return BLOCK_TOKENS

    @property
    def reused_tokens_multiple(self) -> int:
        """Block size of the KV cache in tokens: only whole blocks of a prefix are reused."""
        return BLOCK_TOKENS

    def room_tokens(self, tokens: int) -> int:
        """Return the memory that the KV cache of a user needs, as a number of tokens.

        Layers with a sliding window store only the tokens in the window, so the result may be less
        than ``tokens``, the user's number of tokens.
        """
        return self.server.kv_room_tokens(tokens)

    @property
    def max_states(self) -> int | None:
        """Maximum number of states; None for models without linear attention.

        States and KV caches share the same memory.
        """
        return None if self.server.spec.linear is None else self.kv_capacity_tokens // self.room_tokens(0)

    @property
    def max_users(self) -> int:
        """Maximum number of users in flight that the serving stack allows."""
        return self.server.max_sequences

    @property
    def chunk_tokens(self) -> int:
        """Granularity of the parts of prompts: 1 token, because any length is possible."""
        return 1

    @cached_property
    def contexts(self) -> tuple[int, ...]:
        """Context lengths in tokens for which pass times are computed.

        Between them, times are interpolated.
        """
        return tuple(sorted({round(at * self.context / (CONTEXTS - 1)) for at in range(CONTEXTS)}))

    @property
    def host_s(self) -> float:
        """Transit time between host and GPUs: 0 s, because pass times include the host's work."""
        return 0.0

    def part_busy_s(self, part: PromptPart) -> float:
        """Return the duration in seconds of a pass that only reads one part of a prompt."""
        return self.round_s(0, 0, (part,))

    def round_s(self, users: int, context: int, parts: Sequence[PromptPart]) -> float:
        """Return the duration of a pass in seconds, including the preceding draft passes.

        Args:
            users: Number of users that decode.
            context: Tokens in each user's cache.
            parts: Prompt parts that are read in the pass.
        """
        tokens = 1 + self.draft_tokens
        groups = [Tokens(users=users, new=tokens, context=context, outputs=tokens)] if users else []
        groups += [Tokens(users=1, new=part.tokens, context=part.context) for part in parts]
        drafting_s = 0.0
        if users and self.server.draft is not None:
            drafting_s = self.draft_tokens * self.server.draft.draft_s(users, 1, context)
        return self.server.pass_time(groups).total_s + drafting_s

    def work_s(self, users: int, context: int, parts: Sequence[PromptPart]) -> float:
        """Return how long the GPUs work in a round (a pass of the model), in seconds.

        All GPUs work all the time, so this is the duration of the round. The arguments are the same
        as for `round_s`.
        """
        return self.round_s(users, context, parts)

    def drain_s(self, part: PromptPart) -> float:
        """Return 0: on GPUs, the pass that reads the end of a prompt yields the first token."""
        return 0.0

"""Pass costs for tests of serving: given constants, without a Program. Also two policies of a machine with them."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.costs.pass_costs import PromptPart


@dataclass(frozen=True, kw_only=True)
class PlainCosts:
    """Pass costs with simple closed forms.

    A decode pass costs ``pass_s``, plus ``user_s`` per user and ``context_s`` per token of context. A part of a prompt
    costs ``piece_s``, plus ``prompt_s`` per token. Times are in seconds.
    """

    pass_s: float = 0.0
    user_s: float = 0.0
    context_s: float = 0.0
    prompt_s: float = 0.0
    piece_s: float = 0.0
    drain: float = 0.0
    kv_capacity_tokens: int = 1 << 40
    kv_block_tokens: int = 1
    reused_tokens_multiple: int = 1
    max_states: int | None = None
    state_tokens: int = 0
    max_users: int = 1 << 20
    chunk_tokens: int = 1
    contexts: tuple[int, ...] = (0, 1 << 20)
    host_s: float = 0.0

    def room_tokens(self, tokens: int) -> int:
        return -(-tokens // self.kv_block_tokens) * self.kv_block_tokens + self.state_tokens

    def round_s(self, users: int, context: int, parts: Sequence[PromptPart]) -> float:
        prompts = sum(self.piece_s + self.prompt_s * part.tokens for part in parts)
        return prompts + (self.pass_s + self.user_s * users + self.context_s * context if users else 0.0)

    def work_s(self, users: int, context: int, parts: Sequence[PromptPart]) -> float:
        return self.round_s(users, context, parts)

    def drain_s(self, part: PromptPart) -> float:
        return self.drain

    def part_busy_s(self, part: PromptPart) -> float:
        return self.round_s(0, 0, (part,))


COSTS = PlainCosts(
    pass_s=0.010123,
    user_s=0.001071,
    context_s=1e-5,
    prompt_s=0.002137,
    piece_s=0.005311,
    drain=0.003,
    chunk_tokens=4,
    kv_capacity_tokens=2_000,
)
GAPS, PIECES = (ContinuousPolicy(max_users=8, prompt_tokens=tokens) for tokens in (None, 16))
POLICIES = pytest.mark.parametrize("policy", [GAPS, PIECES], ids=["gaps", "parts"])

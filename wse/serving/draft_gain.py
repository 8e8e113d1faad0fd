"""DraftGain: what speculative decoding changes about a deployment, for its throughput, cost and energy."""

from __future__ import annotations

from dataclasses import dataclass

from wse.hardware.number import Grade


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftGain:
    """The gain of drafts, and the wafers that it costs.

    Attributes:
        draft_tokens: Draft tokens per verification pass; 0 where no number of them gains.
        tokens_per_pass: Mean tokens per verification pass, the pass's own token included; 1 without draft tokens.
        speed_up: Tokens/s of a user with drafts over tokens/s without; 1 without draft tokens.
        draft_wafers: Wafers of the draft model alone, in addition to those of the model. They draw power and cost
            money, and are 0 where drafts do not gain, as nobody would run them then.
        grade: Grade of the weakest number that the gain depends on.
    """

    draft_tokens: int
    tokens_per_pass: float
    speed_up: float
    draft_wafers: int
    grade: Grade

    def wafers(self, model_wafers: int) -> int:
        """Return the wafers of the model and its draft together."""
        return model_wafers + self.draft_wafers

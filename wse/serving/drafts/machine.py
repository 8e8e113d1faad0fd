"""Timings of a machine that drafts and verifies tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from wse.serving.drafts.speculation import Acceptance
from wse.serving.drafts.tree import DraftTree


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSteps:
    """Timings of one verification pass and the draft passes that precede it, in seconds.

    Draft passes propose several tokens. The verification pass then checks all of them at once.

    Attributes:
        draft_tokens: Number of draft tokens that the pass verifies.
        tokens_per_pass: Tokens that the pass yields on average, including the model's own token.
        check_s: Duration of the verification pass, including the transfer of token ids.
        drafts_s: Total duration of the draft passes, which run sequentially.
        busy_s: Time for which the busiest resource (a pipeline stage, a link or the draft model)
            works on all these passes.
    """

    draft_tokens: int
    tokens_per_pass: float
    check_s: float
    drafts_s: float
    busy_s: float

    @property
    def token_s(self) -> float:
        """Mean time per generated token of one user, in seconds."""
        return (self.check_s + self.drafts_s) / self.tokens_per_pass


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftMachine:
    """Drafting and verification times on a machine, as functions that return seconds.

    Draft passes propose tokens, and a verification pass of the model checks all of them at once.

    Attributes:
        verify_s: Duration of a verification pass, given its number of new tokens per user.
        draft_s: Duration of a draft pass, given its number of tokens per user.
        transit_s: Time for which token ids are in transit between model and draft, given the number of
            tokens in a verification pass: the draft tokens and one preceding token.
        busy_s: Time for which the busiest pipeline stage works on a verification pass and its draft
            passes, given the number of draft tokens and the duration of the draft passes. None if
            the whole machine works on one pass at a time.
        has_one_peak: Whether the speed-up, as a function of the number of draft tokens, has only
            one peak.
    """

    verify_s: Callable[[int], float]
    draft_s: Callable[[int], float]
    transit_s: Callable[[int], float] = field(default=lambda _: 0.0)
    busy_s: Callable[[int, float], float] | None = None
    has_one_peak: bool = True

    def check_s(self, draft_tokens: int) -> float:
        """Return how long it takes to verify ``draft_tokens`` draft tokens in one pass, in seconds.

        The time includes the transfer of token ids to the draft model, and of draft tokens back.
        """
        return self.verify_s(draft_tokens + 1) + self.transit_s(draft_tokens + 1)

    def row(self, curve: Acceptance, draft_tokens: int) -> DraftSteps:
        """Return the timings of drafting N tokens in N draft passes and verifying them in one pass.

        Args:
            curve: Measurement of how many tokens a verification pass yields on average, as a
                function of the number of draft tokens.
            draft_tokens: Number N of draft tokens, at least 1.
        """
        return self._steps(draft_tokens, curve.at(draft_tokens), draft_tokens * self.draft_s(1))

    def tree(self, tree: DraftTree) -> DraftSteps:
        """Return the timings of drafting a tree of tokens and verifying it in one pass.

        A tree proposes several alternative tokens at a position. All tokens at a position are
        drafted in one draft pass.
        """
        drafts_s = sum(self.draft_s(width) for width in tree.draft_widths)
        return self._steps(len(tree.parents), tree.tokens_per_pass, drafts_s)

    def _steps(self, draft_tokens: int, tokens_per_pass: float, drafts_s: float) -> DraftSteps:
        """Return the timings of a verification pass and the draft passes that precede it.

        Args:
            draft_tokens: Number of draft tokens that the pass verifies.
            tokens_per_pass: Tokens that the pass yields on average.
            drafts_s: Total duration of the draft passes in seconds.
        """
        check_s = self.check_s(draft_tokens)
        return DraftSteps(
            draft_tokens=draft_tokens,
            tokens_per_pass=tokens_per_pass,
            check_s=check_s,
            drafts_s=drafts_s,
            busy_s=check_s + drafts_s if self.busy_s is None else self.busy_s(draft_tokens, drafts_s),
        )

"""DraftMachine: the times of passes that draft and verify tokens; DraftSteps: one such pass with its drafts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from wse.serving.drafts.speculation import Acceptance
from wse.serving.drafts.tree import DraftTree


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSteps:
    """A pass of the model that verifies draft tokens, with the passes of the draft before it. Times are seconds.

    Attributes:
        draft_tokens: Tokens that are drafted for the pass.
        tokens_per_pass: Tokens that the pass yields on average, the model's own token included.
        check_s: The pass that verifies the draft tokens, with ids in transit.
        drafts_s: All passes of the draft, one after another.
        busy_s: Work of the slowest stage, link or draft for all of this.
    """

    draft_tokens: int
    tokens_per_pass: float
    check_s: float
    drafts_s: float
    busy_s: float

    @property
    def token_s(self) -> float:
        """Seconds per token of one user, on average."""
        return (self.check_s + self.drafts_s) / self.tokens_per_pass


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftMachine:
    """The times of a machine that drafts and verifies tokens.

    Attributes:
        verify_s: Returns the seconds of a pass of the model over a number of new tokens of each user.
        draft_s: Returns the seconds of a pass of the draft over a number of tokens of each user.
        ways_s: Returns the seconds that ids are in transit for a pass over a number of tokens, of which all except one
            are draft tokens.
        busy_s: Returns the work of the slowest stage for a pass over a number of draft tokens that were drafted in some
            seconds; by default the whole machine works on one pass at a time.
        has_one_peak: Whether the speed-up over draft lengths only falls after its first peak.
    """

    verify_s: Callable[[int], float]
    draft_s: Callable[[int], float]
    ways_s: Callable[[int], float] = field(default=lambda _: 0.0)
    busy_s: Callable[[int, float], float] | None = None
    has_one_peak: bool = True

    def check_s(self, draft_tokens: int) -> float:
        """Return the seconds of the pass that verifies a number of draft tokens, with ids in transit."""
        return self.verify_s(draft_tokens + 1) + self.ways_s(draft_tokens + 1)

    def row(self, curve: Acceptance, draft_tokens: int) -> DraftSteps:
        """Return a pass over at least one draft token, drafted one after another."""
        return self._steps(draft_tokens, curve.at(draft_tokens), draft_tokens * self.draft_s(1))

    def tree(self, tree: DraftTree) -> DraftSteps:
        """Return a pass over a tree of draft tokens, each depth of which is one pass of the draft."""
        drafts_s = sum(self.draft_s(width) for width in tree.draft_widths)
        return self._steps(len(tree.parents), tree.tokens_per_pass, drafts_s)

    def _steps(self, draft_tokens: int, tokens_per_pass: float, drafts_s: float) -> DraftSteps:
        check_s = self.check_s(draft_tokens)
        return DraftSteps(
            draft_tokens=draft_tokens,
            tokens_per_pass=tokens_per_pass,
            check_s=check_s,
            drafts_s=drafts_s,
            busy_s=check_s + drafts_s if self.busy_s is None else self.busy_s(draft_tokens, drafts_s),
        )

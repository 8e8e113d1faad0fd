"""``drafts`` of a result: the drafts that passes verify, and what they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from wse.report.result import Doc, Result
from wse.request.acceptance_option import DraftAcceptance
from wse.serving.draft_tree import DraftMachine
from wse.serving.simulation.drafts import Drafts
from wse.studies.estimate.drafting import best_drafting


@dataclass(frozen=True, kw_only=True)
class DraftsResult(Result):
    """The drafts that decode passes verify; seconds are those of a user alone in the middle of a mean answer."""

    draft: Annotated[str, Doc("what drafts: `head`, or a model")]
    place: Annotated[str, Doc("where it does: `same`, `wafer` or `host`")]
    acceptance: Annotated[str, Doc("whose acceptance is taken: a measured model, or what was given")]
    source: Annotated[str, Doc("where it is from")]
    grade: Annotated[str, Doc("how well it is known")]
    draft_tokens: Annotated[int, Doc("tokens that are drafted for each pass; 0 where none gains, so that none are")]
    tokens_per_pass: Annotated[float, Doc("tokens that a pass yields on average, by the acceptance")]
    draft_s: Annotated[float, Doc("the time of a draft", "s")]
    verify_s: Annotated[float, Doc("the time of the pass that verifies it, with ids on their way", "s")]


def drafts_result(
    acceptance: DraftAcceptance, machine: DraftMachine, wanted: int | None, draft: str, place: str
) -> DraftsResult:
    """The drafts of a length that is ``wanted``, or that gains most for a user who is alone on a machine."""
    curve = acceptance.curve
    tokens = best_drafting(curve, machine).draft_tokens if wanted is None else wanted
    return DraftsResult(
        draft=draft,
        place=place,
        acceptance=curve.model,
        source=curve.source,
        grade=curve.grade,
        draft_tokens=tokens,
        tokens_per_pass=curve.at(tokens),
        draft_s=tokens * machine.draft_s(1),
        verify_s=machine.check_s(tokens) if tokens else machine.verify_s(1),
    )


def drawn_drafts(acceptance: DraftAcceptance, draft_tokens: int, seed: int) -> Drafts:
    """Drafts of so many tokens, for a simulation to draw; past the last measured position none is accepted."""
    return Drafts(acceptances=tuple(choices[0] for choices in acceptance.shares[:draft_tokens]), seed=seed)

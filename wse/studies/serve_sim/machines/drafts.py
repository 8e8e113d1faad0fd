"""DraftsResult: the drafts of a serving simulation, with their acceptance and times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from wse.reports.result import Doc
from wse.serving.simulation.drafts import Drafts
from wse.studies.estimate.drafts.best_drafts import UsersOfDrafts
from wse.studies.estimate.drafts.plan import acceptance_result
from wse.studies.estimate.drafts.result import AcceptanceResult, DraftPlaceResult
from wse.studies.options.drafts.acceptance import DraftAcceptance


@dataclass(frozen=True, kw_only=True)
class DraftsResult(AcceptanceResult, DraftPlaceResult):
    """Draft tokens (speculative decoding) of a simulated service: acceptance and times.

    All times are for a decode pass whose context has the mean length: the prompt plus half of the
    answer.
    """

    grade: Annotated[str, Doc("evidence grade of the acceptance for this draft")]
    draft_tokens: Annotated[int, Doc("draft tokens per pass; 0 if drafts would not increase the speed")]
    tokens_per_pass: Annotated[float, Doc("mean tokens per pass, from the acceptance")]
    draft_s: Annotated[float, Doc("time to make a draft", "s")]
    verify_s: Annotated[float, Doc("time of the pass that verifies it, including the exchange of token ids", "s")]


def drafts_result(
    acceptance: DraftAcceptance, users: UsersOfDrafts, draft_tokens: int | None, place: DraftPlaceResult, model: str
) -> DraftsResult:
    """Return the number of draft tokens per pass, and the times to make and to verify them.

    Args:
        acceptance: Probability that a draft token is accepted, for each position.
        users: The users and the machine, for which the fastest number of draft tokens is computed.
        draft_tokens: Number of tokens per draft. None selects the fastest number.
        place: The draft model and where it runs.
        model: Name of the model that verifies the drafts.
    """
    curve, accepted, machine = acceptance.curve, acceptance_result(acceptance, place.draft, model), users.machine
    tokens = users.best_row(curve)[0] if draft_tokens is None else draft_tokens
    return DraftsResult(
        **vars(accepted),
        **vars(place),
        grade=accepted.acceptance_grade,
        draft_tokens=tokens,
        tokens_per_pass=curve.at(tokens),
        draft_s=tokens * machine.draft_s(1),
        verify_s=machine.check_s(tokens) if tokens else machine.verify_s(1),
    )


def drawn_drafts(acceptance: DraftAcceptance, draft_tokens: int, seed: int) -> Drafts:
    """Return drafts for a simulation, which accepts each draft token with a known probability.

    Draft tokens beyond the last position with a known probability are never accepted.

    Args:
        acceptance: Probability that a draft token is accepted, for each position.
        draft_tokens: Number of tokens per draft.
        seed: Seed of the random-number generator.
    """
    return Drafts(acceptances=tuple(choices[0] for choices in acceptance.shares[:draft_tokens]), seed=seed)

"""Passes on wafers that draft and verify tokens, and the deployment that decodes with them.

The following is assumed, with grade I because nothing is published about drafts on wafers:

1. Without a draft model, the draft is a head: an additional layer of the model, with the model's
   embedding and output table, as in MTP and EAGLE. Model and head are compiled together. In a pass
   of that Program, the steps of the head's layer and the steps outside all layers belong to the
   draft. All steps except those of the head's layer belong to the model.
2. A draft model is compiled for its own PEs (`wse.studies.estimate.drafts.placement`).
3. The pass that verifies n draft tokens is compiled for n + 1 tokens. It uses the regions that were
   chosen for one token, with attention on the columns where attention is fastest. It may need more
   SRAM than is available, which is not checked.
4. A pass verifies the draft tokens of one user. Passes of several users go through the stages one
   after another. A head drafts on the PEs of the last stage, in addition to the work of that stage.
   A draft model has its own PEs, wafers or host, which form one more stage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from wse.compiler.search.search import Compilation
from wse.hardware.number import Grade
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.drafts.machine import DraftMachine
from wse.studies.estimate.drafts.best_drafts import Choose
from wse.studies.estimate.drafts.draft_machine import decode_s, head_machine, model_machine
from wse.studies.estimate.drafts.placement import PlacedDraft
from wse.studies.estimate.drafts.verify_passes import VerifyPasses, verify_passes
from wse.studies.estimate.layouts.compiled_layout import timed_deployment
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.options.drafts.draft import HEAD
from wse.studies.results.sram import users_at

COST_GRADE: Final[Grade] = "I"
"""Evidence grade of the costs of drafts on wafers: inferred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaferDrafter:
    """Wafers that serve a model with speculative decoding.

    This class implements `wse.studies.estimate.drafts.best_drafts.Drafter`.

    Attributes:
        plain: Deployment without speculative decoding.
        base: Deployment whose pass times are replaced by those with speculative decoding. With a
            draft head, its prompts and caches include the head. With a draft model, it may have
            room for fewer users than ``plain``.
        draft_wafers: Number of wafers that only the draft model uses.
        passes: Timing of the passes that verify drafts.
        times: Times of drafting and of verification passes for one user.
        mean_ratio: Mean time of a decoded token divided by the time of the token halfway through
            the answer. All passes are timed halfway, so their times are multiplied by this ratio.
    """

    plain: WaferDeployment
    base: WaferDeployment
    draft_wafers: int
    passes: VerifyPasses
    times: DraftMachine
    mean_ratio: float

    @property
    def max_concurrency(self) -> int:
        """Number of requests whose KV caches fit along with the draft."""
        return self.base.max_concurrency

    def machine(self, users: float) -> DraftMachine:
        """Return the times of the passes that draft tokens and of the passes that verify them.

        Args:
            users: Not used, because a pass drafts or verifies the tokens of a single user.
        """
        return self.times

    def deployment(self, choose: Choose) -> WaferDeployment:
        """Return the deployment of the model with the token times of speculative decoding.

        Its number of wafers includes the wafers that only the draft model uses.

        Args:
            choose: Function that returns the timings of a verification pass and the preceding draft
                passes on a given machine. `in_a_row` creates it for a number of draft tokens,
                `as_tree` for a tree of alternative draft tokens.
        """
        steps = choose(self.times)
        return replace(
            self.base,
            chips=self.plain.chips + self.draft_wafers,
            slots=1,
            token_s=self.mean_ratio * steps.token_s,
            stage_s=self.mean_ratio * steps.busy_s / steps.tokens_per_pass,
        )


def wafer_drafter(
    prepared_estimate: PreparedEstimate, compilation: Compilation, draft: PlacedDraft, plain: WaferDeployment
) -> WaferDrafter:
    """Return the deployment and timing of a model on wafers with a given draft head or draft model.

    Either one leaves less room for users. A draft head is an additional layer, which also processes
    the prompts and has its own KV cache. A draft model needs KV caches for all users.

    Args:
        prepared_estimate: The request.
        compilation: The compiled model.
        draft: The draft head or draft model, compiled for the PEs or the host on which it runs.
        plain: Deployment without speculative decoding.
    """
    base = plain
    if draft.compilation is not None and draft.name == HEAD:
        base = timed_deployment(draft.prepared, draft.compilation.program)
    elif draft.compilation is not None:
        room = users_at(draft.compilation.program, plain.shape.tokens)
        base = replace(plain, max_concurrency=min(plain.max_concurrency, room))
    passes = verify_passes(prepared_estimate, compilation, draft)
    times_of = head_machine if draft.name == HEAD else model_machine
    return WaferDrafter(
        plain=plain,
        base=base,
        draft_wafers=draft.wafers,
        passes=passes,
        times=times_of(prepared_estimate, compilation, draft, passes),
        mean_ratio=plain.token_s / decode_s(prepared_estimate, compilation),
    )

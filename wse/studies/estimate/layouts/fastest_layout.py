"""Layout for one user at a time: the fastest one, or one almost as fast with more room for KV caches."""

from __future__ import annotations

from typing import NamedTuple

from wse.compiler.search.search import MARGIN, Candidate, Compilation
from wse.serving.goal import LATENCY, Goal
from wse.studies.compile.choose import request_cycles
from wse.studies.estimate.layouts.layout_versions import Variant, variants_of
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.results.sram import users_at


class FastestLayout(NamedTuple):
    """The layout chosen for one user at a time.

    Attributes:
        candidate: The compiled layout: one that the search found, or a variant of it.
        finalist: Index of this layout, or of the original of the variant, in the result of the
            search.
        variants: Variants of the layout on which the KV caches of more users fit.
    """

    candidate: Candidate
    finalist: int
    variants: tuple[Variant, ...]


def serves_one_user(prepared_estimate: PreparedEstimate, goal: Goal) -> bool:
    """Return whether a goal asks for the lowest latency of machines that serve one user at a time.

    A goal without a number of users is for the users of one pass. With latency limits, layouts that
    are not the fastest may be needed.
    """
    users = prepared_estimate.options.batch if goal.users is None else goal.users
    return goal.objective == LATENCY and not goal.limits_s and users <= (goal.replicas or 1)


def fastest_layout(prepared_estimate: PreparedEstimate, compilation: Compilation) -> FastestLayout:
    """Return the layout with the most room for KV caches among the nearly fastest layouts.

    A layout is nearly fastest if a request takes at most 1 + `MARGIN` times as many cycles on it as
    on the fastest layout.

    Args:
        prepared_estimate: The request.
        compilation: Result of a search for layouts, fastest first.
    """
    tokens = prepared_estimate.prompt_len + prepared_estimate.new_tokens
    fastest_candidate = compilation.candidates[0]
    variants = variants_of(prepared_estimate, fastest_candidate)
    users = users_at(fastest_candidate.program, tokens)
    other_candidates = [*enumerate(compilation.candidates), *((0, variant.candidate) for variant in variants)][1:]
    roomier_candidates = [pair for pair in other_candidates if users_at(pair[1].program, tokens) > users]
    if not roomier_candidates:
        return FastestLayout(fastest_candidate, 0, variants)
    max_cycles = (1 + MARGIN) * request_cycles(prepared_estimate, fastest_candidate.program)
    near_candidates = [
        pair for pair in roomier_candidates if request_cycles(prepared_estimate, pair[1].program) <= max_cycles
    ]
    if not near_candidates:
        return FastestLayout(fastest_candidate, 0, variants)
    finalist, candidate = max(near_candidates, key=lambda pair: users_at(pair[1].program, tokens))
    return FastestLayout(candidate, finalist, variants_of(prepared_estimate, candidate))

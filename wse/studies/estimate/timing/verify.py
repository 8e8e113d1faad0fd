"""``verify`` of an estimate: a verification pass over several new tokens of one user.

It is compared with a decode pass, which processes one token per user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from wse.reports.result import Doc, Result
from wse.studies.results.phases import CyclesBy, cycles_by_cause
from wse.studies.results.rewrites import RewriteResult, rewrites_result

if TYPE_CHECKING:
    from wse.backends.fabric.model import Fabric
    from wse.compiler.placeable import Placeable
    from wse.compiler.search.search import Compilation


class VerifyResult(Result):
    """Duration of a verification pass, in which the model processes several new tokens of a user.

    The pass yields the next token after each of these tokens, so it can verify draft tokens. It is
    timed halfway through the answer.
    """

    tokens: Annotated[int, Doc("tokens of the pass")]
    after_tokens: Annotated[int, Doc("tokens in the user's cache before it")]
    cycles: Annotated[float, Doc("cycles of the pass", "cycles")]
    s: Annotated[float, Doc("time of the pass", "s")]
    ratio_to_decode: Annotated[float, Doc("cycles of the pass, divided by those of a decode pass at the same place")]
    cycles_by: Annotated[CyclesBy, Doc("the cycles by cause", "cycles")]
    rewrites: Annotated[
        tuple[RewriteResult, ...] | None,
        Doc("rewrites of its layers' steps, if they were chosen for the pass; absent if they are those of decode"),
    ] = None


def verify_result(placeable: Placeable, fabric: Fabric) -> VerifyResult | None:
    """Return the time of the requested verification pass; None if none is requested.

    Args:
        placeable: Request with the loaded model, wafer and software.
        fabric: Timing model of the compiled Program.
    """
    tokens = fabric.program.verify_tokens
    if not tokens:
        return None
    cost = fabric.verify_cost(placeable.middle_before_pass)
    return VerifyResult(
        tokens=tokens,
        after_tokens=placeable.middle_before_pass,
        cycles=cost.cycles,
        s=cost.cycles / placeable.wafer.clock_hz,
        ratio_to_decode=cost.cycles / fabric.decode_cost(*placeable.middle_context).cycles,
        cycles_by=cycles_by_cause(cost.by_cause.sum(axis=0)),
    )


def verify_rewrites(placeable: Placeable, compilation: Compilation) -> tuple[RewriteResult, ...] | None:
    """Return the rewrites (cycle-saving changes to a layer's steps) for verification passes.

    The result is None if no rewrites were chosen for these passes. In that case, they use the same
    rewrites as decode passes.
    """
    if compilation.verify_rewrites is None:
        return None
    return rewrites_result(placeable.spec, placeable.options, compilation.verify_rewrites)

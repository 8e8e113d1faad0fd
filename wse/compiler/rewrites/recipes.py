"""The rewrites in the order in which they are applied, those that a schedule asks for, and their application."""

from __future__ import annotations

from typing import Final

from wse.compiler.lowering.builder import Draft
from wse.compiler.lowering.context import Context
from wse.compiler.options import FUSED, RELEASED, SCHEDULES, Options, Rewrites
from wse.compiler.rewrites import (
    central_choice,
    early_shift,
    early_sinks,
    early_turns,
    fitted_trees,
    gathers,
    joined_tasks,
    joint_blocks,
    joint_shares,
    local_maxima,
    merged_sums,
    norm_scales,
    picked_heads,
    query_gathers,
    query_scales,
    router_copies,
    router_scores,
    sent_choice,
    shared_activation,
    shared_colours,
    shared_exp,
    vectors_over_heads,
    wide_unpacking,
)
from wse.compiler.rewrites.rewrite import Rewrite
from wse.compiler.symbolic import SymStep
from wse.errors import BadInput, UnknownName
from wse.models.spec import ModelSpec

REWRITES: Final[dict[str, Rewrite]] = {
    module.REWRITE.name: module.REWRITE
    for module in (
        norm_scales,
        joint_blocks,
        merged_sums,
        shared_exp,
        local_maxima,
        picked_heads,
        query_gathers,
        router_scores,
        gathers,
        router_copies,
        central_choice,
        sent_choice,
        shared_activation,
        joint_shares,
        vectors_over_heads,
        early_shift,
        early_sinks,
        early_turns,
        query_scales,
        shared_colours,
        wide_unpacking,
        fitted_trees,
        joined_tasks,
    )
}
"""All rewrites by name. Each is applied to what the ones before it have made."""


def rewrite(c: Context, draft: Draft) -> None:
    """Apply the rewrites that were chosen for the phase to the draft of a block."""
    settings = c.rewrites
    for name, one in REWRITES.items():
        if name in settings:
            one.apply(c, draft, settings[name])


def joins(c: Context, before: SymStep, step: SymStep) -> bool:
    """Whether the first step of a block runs in the task of the last one of the block before."""
    return joined_tasks.REWRITE.name in c.rewrites and joined_tasks.goes_on_in_next_block(before, step)


def rewrites_of(spec: ModelSpec, options: Options) -> Rewrites:
    """The rewrites that the schedule of a request asks for, each with its first setting.

    ``released`` asks for none, ``fused`` for all that are valid for the model and the request, a list of names,
    separated by commas, for these.

    Raises:
        UnknownName: a name is neither that of a recipe nor of a rewrite.
        BadInput: a rewrite that was named is not valid.
    """
    if options.schedule == RELEASED:
        return ()
    if options.schedule == FUSED:
        return tuple((name, one.settings[0]) for name, one in REWRITES.items() if not one.invalid(spec, options))
    names = options.schedule.split(",")
    for name in names:
        if name not in REWRITES:
            if name in SCHEDULES:
                message = f"--schedule {options.schedule}: {name} goes by itself; give it alone, or rewrites alone"
                raise BadInput(message)
            raise UnknownName("schedule", name, (*SCHEDULES, *REWRITES))
        if reason := REWRITES[name].invalid(spec, options):
            message = f"--schedule {options.schedule}: {name} is not valid: {reason}; leave it out, or use {FUSED}"
            raise BadInput(message)
    return tuple((name, one.settings[0]) for name, one in REWRITES.items() if name in names)

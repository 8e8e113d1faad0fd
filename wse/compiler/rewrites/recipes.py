"""The rewrites that a schedule asks for, and their application to the steps of a block."""

from __future__ import annotations

from wse.compiler.lowering.builder import Draft
from wse.compiler.lowering.context import Context
from wse.compiler.options import FUSED, RELEASED, SCHEDULES, Options, Rewrites
from wse.compiler.rewrites import joined_tasks
from wse.compiler.rewrites.catalogue import known_rewrites
from wse.compiler.symbolic import SymStep
from wse.errors import BadInput, UnknownName
from wse.models.spec import ModelSpec


def rewrite(c: Context, draft: Draft) -> None:
    """Apply the chosen rewrites of the phase to a block."""
    settings = c.rewrites
    for name, one in known_rewrites().items():
        if name in settings:
            one.apply(c, draft, settings[name])


def joins(c: Context, before: SymStep, step: SymStep) -> bool:
    """Return whether the first step of a block runs in the task of the last step of the block before."""
    return joined_tasks.REWRITE.name in c.rewrites and joined_tasks.goes_on_in_next_block(before, step)


def rewrites_of(spec: ModelSpec, options: Options) -> Rewrites:
    """Return the rewrites of the request's schedule, each with its first setting.

    ``released`` asks for none, ``fused`` for all that are valid for the model and the request, a list of names,
    separated by commas, for these.

    Raises:
        UnknownName: a name is neither that of a recipe nor of a rewrite.
        BadInput: a rewrite that was named is not valid.
    """
    if options.schedule == RELEASED:
        return ()
    if options.schedule == FUSED:
        return tuple(
            (name, one.settings[0]) for name, one in known_rewrites().items() if not one.invalid(spec, options)
        )
    names = options.schedule.split(",")
    for name in names:
        if name not in known_rewrites():
            if name in SCHEDULES:
                message = f"--schedule {options.schedule}: {name} goes by itself; give it alone, or rewrites alone"
                raise BadInput(message)
            raise UnknownName("schedule", name, (*SCHEDULES, *known_rewrites()))
        if reason := known_rewrites()[name].invalid(spec, options):
            message = f"--schedule {options.schedule}: {name} is not valid: {reason}; leave it out, or use {FUSED}"
            raise BadInput(message)
    return tuple((name, one.settings[0]) for name, one in known_rewrites().items() if name in names)

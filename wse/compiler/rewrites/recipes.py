"""The rewrites in a schedule, and their application to the steps of a block."""

from __future__ import annotations

from wse.compiler.choice import Rewrites
from wse.compiler.lowering.phase.block_steps import BlockSteps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.options import BASELINE, OPTIMIZED, SCHEDULES, Options
from wse.compiler.rewrites.catalogue import known_rewrites
from wse.errors import BadInput, UnknownName
from wse.models.spec import ModelSpec


def rewrite(c: Context, block_steps: BlockSteps) -> None:
    """Apply all rewrites of a phase to the steps of a block, in the order of their positions.

    A rewrite changes the steps of a layer to save cycles. Its ``position`` determines when it is
    applied. The steps are modified in place.
    """
    settings = c.rewrites
    for name, known_rewrite in known_rewrites().items():
        if name in settings:
            known_rewrite.apply(c, block_steps, settings[name])


def rewrites_of(spec: ModelSpec, options: Options) -> Rewrites:
    """Return the rewrites in the requested schedule, each as (name, setting).

    A rewrite changes the steps of a layer to save cycles. If it lists several possible settings,
    the first of them is returned. Schedule ``baseline`` has no rewrites. Schedule ``optimized`` has
    all rewrites that are valid for the model and request. Otherwise the schedule is a
    comma-separated list of rewrites.

    Raises:
        UnknownName: A name is neither a schedule nor a rewrite.
        BadInput: A requested rewrite is invalid.
    """
    if options.schedule == BASELINE:
        return ()
    if options.schedule == OPTIMIZED:
        return tuple(
            (name, known_rewrite.settings[0])
            for name, known_rewrite in known_rewrites().items()
            if not known_rewrite.invalid(spec, options)
        )
    names = options.schedule.split(",")
    for name in names:
        if name not in known_rewrites():
            if name in SCHEDULES:
                raise BadInput(
                    f"--schedule {options.schedule}: {name} cannot be combined with rewrites; "
                    "give it alone, or a list of rewrites"
                )
            raise UnknownName("schedule", name, (*SCHEDULES, *known_rewrites()))
        if reason := known_rewrites()[name].invalid(spec, options):
            raise BadInput(
                f"--schedule {options.schedule}: {name} is not valid: {reason}; leave it out, or use {OPTIMIZED}"
            )
    return tuple((name, known_rewrite.settings[0]) for name, known_rewrite in known_rewrites().items() if name in names)

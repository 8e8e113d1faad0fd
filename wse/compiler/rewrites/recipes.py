"""The rewrites in a schedule, and their application to the steps of a block."""

from __future__ import annotations

from wse.compiler.choice import Rewrites
from wse.compiler.lowering.phase.block_steps import BlockSteps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.options import BASELINE, OPTIMIZED, SCHEDULES, Options
from wse.compiler.rewrites import joined_tasks
from wse.compiler.rewrites.catalogue import known_rewrites
from wse.compiler.symbolic import SymStep
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


def joins(c: Context, previous_step: SymStep, step: SymStep) -> bool:
    """Return whether a block's first step runs in the task of the last step of the preceding block.

    This saves the cycles needed to dispatch a task. It is possible only with the rewrite
    `joined_tasks`.

    Args:
        c: Context of the phase being lowered.
        previous_step: Last step of the preceding block.
        step: First step of the block.
    """
    return joined_tasks.REWRITE.name in c.rewrites and joined_tasks.joins_previous_block(previous_step, step)


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

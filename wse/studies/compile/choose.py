"""Compile a prepared request, choosing by time, and say what would help when it does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Final

import numpy as np

from wse.arrays import F64
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pattern_times import pattern_times
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.compiler.options import DECODE, REPORT
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.remedies import remedies
from wse.compiler.search.rewrite_search import verify_choice
from wse.compiler.search.search import Breadth, Compilation, search
from wse.compiler.search.trial import Timer
from wse.errors import DoesNotFit, TooFewColours
from wse.program.program import Program
from wse.studies.options.basis import PreparedPlacement

NARROW: Final = Breadth()
"""The layouts that are compiled fully where the fastest for one pass at a time is wanted."""


def compile_program(prepared: PreparedPlacement) -> Program:
    """Return the Program with the fewest cycles for the whole request; errors as of `compile_with_remedies`."""
    return compile_with_remedies(prepared).program


def compile_with_remedies(prepared: PreparedPlacement, breadth: Breadth = NARROW) -> Compilation:
    """Return the Program with the fewest cycles for the whole request, and the layouts that were tried.

    Args:
        prepared: The request.
        breadth: The layouts that are compiled fully.

    Raises:
        DoesNotFit: with the bytes, and the smallest changes that would make it fit, each compiled before it is named.
        TooFewColours: with those that patterns need.
    """
    p = prepared
    try:
        return compile_fastest(p, breadth)
    except TooFewColours:  # for which no other size makes up
        raise
    except DoesNotFit as error:
        candidates = remedies(p.spec, p.whole, p.wafer, p.software, p.options, p.request.fewer_users_remedy)
        changes = [_whole(r, p) for r in candidates]
        none_fits = "no mesh, wafers, dtype or context makes it fit: use a wafer with more SRAM or a smaller model"
        if p.meshes:  # other PEs, and maybe fewer, are live on another mesh and on more wafers
            changes = [change for change in changes if not {"--mesh", "--wafers"} & {*change.split()}]
            none_fits = "nothing else makes it fit on the live PEs: give a larger mesh, more wafers or fewer defects"
        which = "any of these" if len(changes) > 1 else "this"
        remedy = f"{which} would make it fit: {', '.join(changes)}" if changes else none_fits
        most = p.options.wafers
        all_tried = p.request.wafers is None and not p.options.listed
        none = f"; no number of wafers holds it, {most} being the most for it" if all_tried else ""
        message = f"{error}{none}; {remedy}"
        raise DoesNotFit(message) from error


def compile_fastest(prepared: PreparedPlacement, breadth: Breadth = NARROW) -> Compilation:
    """Return the Program with the fewest cycles for the whole request, without a look for remedies.

    Args:
        prepared: The request.
        breadth: The layouts that are compiled fully.

    Raises:
        DoesNotFit: with the bytes.
    """
    p = prepared
    cycles = cache(partial(request_cycles, p))  # the search asks again for those that are near
    return search(p.spec, p.wafer, p.software, p.options, cycles, _timing(p), breadth)


def request_cycles(prepared: PreparedPlacement, program: Program) -> float:
    """Return about the cycles of a whole request: its prompts, and its tokens as in the middle of the answer."""
    p = prepared
    fabric = Fabric(program, p.wafer, p.software, p.meshes)
    passes = fabric.verify_cost(p.middle_before_pass).cycles if program.verify_tokens else 0.0
    return _prompt_cycles(fabric) + (fabric.decode_cost(*p.middle_context).cycles + passes) * p.new_tokens


def pass_fabric(prepared: PreparedPlacement, compilation: Compilation, tokens: int) -> Fabric:
    """Return the fabric model of a pass over so many new tokens of a user, compiled for the regions of a compilation.

    It has the rewrites, the columns of attention and the trees that pay for it; what it needs of SRAM besides need not
    fit.
    """
    p = replace(prepared, options=replace(prepared.options, verify_tokens=tokens))
    prompts = (1,) * compilation.options.batch
    options = replace(
        compilation.options, verify_tokens=tokens, phases=(DECODE,), prompt_tokens=prompts, capacity=REPORT
    )
    of_prompts = replace(compilation.choice, prefill_chunk=1)
    choice = verify_choice(p.spec, p.wafer, p.software, options, of_prompts, _timing(p))
    program = compile_choice(p.spec, p.wafer, p.software, options, choice)
    return Fabric(program, p.wafer, p.software, p.meshes)


def _prompt_cycles(fabric: Fabric) -> float:
    """About what all chunks of the prompts take: each goes through the stages behind the one before.

    The first takes its own time, each other one that of its slowest stage; all of it where stages have the same PEs.
    """
    program, stages = fabric.program, fabric.program.stages
    costs = [fabric.prefill_cost(index) for index in range(len(program.prefill))]
    if len({(stage.wafer, stage.rect) for stage in stages}) < len(stages):
        return sum(cost.cycles for cost in costs)
    slowest: dict[PhaseCost, float] = {}
    for phase, cost in zip(program.prefill, costs, strict=True):
        if cost not in slowest:
            slowest[cost] = float(np.bincount(phase.steps.stage, cost.by_step).max(initial=0.0))
    return sum(cost.cycles for cost in costs[:1]) + sum(slowest[cost] for cost in costs[1:])


def _timing(prepared: PreparedPlacement) -> Timer:
    """Return the times of a request in the middle of what it asks for."""

    def by_step(program: Program, phases: Sequence[int]) -> list[F64]:
        fabric = Fabric(program, prepared.wafer, prepared.software)  # on a reduced model, as on a whole wafer
        return [_middle_cost(prepared, fabric, n).by_step for n in phases]

    line = LineCosts.of_software(prepared.wafer, prepared.software)
    return Timer(by_step, prepared.new_tokens, pattern_times(line).alone_cycles)


def _middle_cost(prepared: PreparedPlacement, fabric: Fabric, phase: int) -> PhaseCost:
    """Return the cost of a phase, by its index, in the middle of what is requested."""
    match fabric.program.phases[phase].name:
        case "decode":
            return fabric.decode_cost(*prepared.middle_context)
        case "verify":
            return fabric.verify_cost(prepared.middle_before_pass)
        case _:
            return fabric.prefill_cost(phase)


def _whole(remedy: str, prepared: PreparedPlacement) -> str:
    """Return a remedy with the other options that must change for it."""
    option, _, value = remedy.partition(" ")
    if option == "--context":
        return prepared.request.shorter_context_remedy(int(value), max(prepared.options.prompt_tokens))
    return remedy

"""Compile a prepared request, choosing by time, and say what would help when it does not fit."""

from __future__ import annotations

from wse.compiler.search import compile_model
from wse.compiler.suggest import remedies
from wse.errors import DoesNotFit
from wse.fabric.phase_cost import Fabric
from wse.program import Program
from wse.studies.placement_request import Placeable


def compiled(prepared: Placeable) -> Program:
    """The Program with the fewest cycles for the whole request.

    Raises:
        DoesNotFit: with the bytes, and the smallest changes that would make it fit, each compiled before it is named.
    """
    p = prepared

    def cycles(program: Program) -> float:
        fabric = Fabric(program, p.wafer, p.software)
        prompt = sum(fabric.prefill_cost(i).cycles for i in range(len(program.prefill)))
        middle = [min(tokens + p.new_tokens // 2, p.options.context - 1) for tokens in p.options.prompt_tokens]
        return prompt + fabric.decode_cost(*middle).cycles * p.new_tokens

    try:
        return compile_model(p.spec, p.wafer, p.software, p.options, cycles)
    except DoesNotFit as error:
        wanted = remedies(p.spec, p.whole, p.wafer, p.software, p.options, p.request.fewer_users)
        found = [_whole(r, p) for r in wanted]
        nothing = "no mesh, wafers, dtype or context makes it fit: use a wafer with more SRAM or a smaller model"
        remedy = f"any of these would make it fit: {', '.join(found)}" if found else nothing
        message = f"{error}; {remedy}"
        raise DoesNotFit(message) from error


def _whole(remedy: str, prepared: Placeable) -> str:
    """A remedy with what else must change for it."""
    option, _, value = remedy.partition(" ")
    if option == "--context":
        return prepared.request.shorter(int(value), max(prepared.options.prompt_tokens))
    return remedy

"""Compile a prepared request, choosing by time, and say what would help when it does not fit."""

from __future__ import annotations

from wse.compiler.search import compile_model
from wse.compiler.suggest import remedies
from wse.errors import DoesNotFit
from wse.fabric.phase_cost import Fabric
from wse.program import Program
from wse.studies.request import Prepared


def compiled(prepared: Prepared) -> Program:
    """The Program with the fewest cycles for the whole request.

    Raises:
        DoesNotFit: with the bytes, and the smallest changes that would make it fit, each compiled before it is named.
    """
    p = prepared

    def cycles(program: Program) -> float:
        fabric = Fabric(program, p.wafer, p.software)
        prompt = sum(fabric.prefill_cost(i).cycles for i in range(len(program.prefill)))
        middle = [min(len(ids) + p.new_tokens // 2, p.options.context - 1) for ids in p.prompts]
        return prompt + fabric.decode_cost(*middle).cycles * p.new_tokens

    try:
        return compile_model(p.spec, p.wafer, p.software, p.options, cycles)
    except DoesNotFit as error:
        found = [_whole(r, p) for r in remedies(p.spec, p.whole, p.wafer, p.software, p.options)]
        nothing = "no mesh, wafers, dtype or context makes it fit: use a wafer with more SRAM or a smaller model"
        remedy = f"any of these would make it fit: {', '.join(found)}" if found else nothing
        message = f"{error}; {remedy}"
        raise DoesNotFit(message) from error


def _whole(remedy: str, prepared: Prepared) -> str:
    """A remedy with what else must change for it: fewer new tokens, where as many were asked for."""
    option, _, value = remedy.partition(" ")
    wanted, prompt = prepared.request.max_new_tokens, max(map(len, prepared.prompts))
    if option == "--context" and wanted is not None and prompt + wanted > int(value):
        return f"{remedy} --max-new-tokens {int(value) - prompt}"
    return remedy

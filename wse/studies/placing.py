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
        middle = len(p.prompt_ids) + p.new_tokens // 2
        return prompt + fabric.decode_cost(min(middle, p.options.context - 1)).cycles * p.new_tokens

    try:
        return compile_model(p.spec, p.wafer, p.software, p.options, cycles)
    except DoesNotFit as error:
        found = remedies(p.spec, p.whole, p.wafer, p.software, p.options)
        remedy = f"any of these would: {', '.join(found)}" if found else "no mesh, dtype or context of this wafer would"
        message = f"{error}; {remedy}"
        raise DoesNotFit(message) from error

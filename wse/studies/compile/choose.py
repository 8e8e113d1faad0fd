"""Compilation of a checked request on a suitable layout, or remedies if the model does not fit."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Final

from wse.backends.fabric.model import Fabric
from wse.compiler.options import DECODE, REPORT
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.remedies import remedies
from wse.compiler.search.rewrite_search import verify_choice
from wse.compiler.search.search import Breadth, Compilation, search
from wse.errors import DoesNotFit, TooFewColours
from wse.program.program import Program
from wse.reports.number_text import plural
from wse.studies.compile.request_time import request_cycles, timing_of
from wse.studies.compile.room import with_most_room
from wse.studies.compile.stored_search import search_key, store_search, stored_search
from wse.studies.options.basis import PreparedPlacement

NARROW: Final = Breadth(prefers_room=True)
"""Search for the fastest layouts for one user, of which the one with the most room is chosen."""


def compile_program(prepared_placement: PreparedPlacement) -> Program:
    """Return the compiled Program for a request, on the layout that `compile_fastest` chooses.

    The function raises the same errors as `compile_with_remedies`.
    """
    return compile_with_remedies(prepared_placement).program


def compile_with_remedies(prepared_placement: PreparedPlacement, breadth: Breadth = NARROW) -> Compilation:
    """Compile a model on the layout that `compile_fastest` chooses; suggest changes if it does not fit.

    Args:
        prepared_placement: The checked request.
        breadth: How many of the best layouts are fully compiled.

    Returns:
        The Program, with a record of all layouts that were tried.

    Raises:
        DoesNotFit: The model does not fit. The message states the required and available bytes, and
            the smallest option changes that were found to make the model fit.
        TooFewColours: Communication patterns need more colours (each selects a route)
            than the wafer has.
    """
    p = prepared_placement
    try:
        return compile_fastest(p, breadth)
    except TooFewColours:  # no other size helps
        raise
    except DoesNotFit as error:
        find = partial(remedies, p.spec, p.whole, p.wafer, p.software, p.options, p.request.fewer_users_remedy)
        candidates = find(p.cached_users)
        room_text = " with room for all users" if p.cached_users > p.options.batch else ""
        if not candidates and room_text:
            candidates, room_text = find(), ", but without room for all users"
        all_tried = p.request.wafers is None and not p.options.listed
        changes = [_complete_remedy(r, p, all_wafers=all_tried) for r in candidates]
        none_fits = "no mesh, wafers, dtype or context makes it fit: use a wafer with more SRAM or a smaller model"
        if p.meshes:  # another mesh or wafer may have fewer live PEs
            changes = [change for change in changes if not {"--mesh", "--wafers"} & {*change.split()}]
            none_fits = "nothing else makes it fit on the live PEs: give a larger mesh, more wafers or fewer defects"
        subject = "any of these" if len(changes) > 1 else "this"
        remedy = f"{subject} would make it fit{room_text}: {', '.join(changes)}" if changes else none_fits
        max_wafers = p.options.wafers
        more_wafers_text = f"; no number of wafers up to {max_wafers} can store it" if all_tried else ""
        raise DoesNotFit(f"{error}{more_wafers_text}; {remedy}") from error


def compile_fastest(prepared_placement: PreparedPlacement, breadth: Breadth = NARROW) -> Compilation:
    """Compile a model on the layout that needs the fewest cycles for a request, or almost the fewest.

    For a single user, the layout has the most room for KV caches of all layouts that are nearly as
    fast (`with_most_room`), if ``breadth.prefers_room`` is set.

    If the model does not fit, this function does not search for option changes that would make it
    fit. It therefore fails faster than `compile_with_remedies`. The result may come from the cache
    on disk.

    Args:
        prepared_placement: The checked request.
        breadth: How many of the best layouts are fully compiled. All other layouts are only
            estimated.

    Returns:
        The Program, with a record of all layouts that were tried.

    Raises:
        DoesNotFit: The model does not fit. The message states the required and available bytes.
    """
    p = prepared_placement
    key = search_key(p, breadth)
    stored_compilation = None if key is None else stored_search(key, p)
    if stored_compilation is not None:
        return stored_compilation
    cycles = cache(partial(request_cycles, p))  # `with_most_room` asks for the Programs of the search again
    compilation = search(p.spec, p.wafer, p.software, p.options, cycles, timing_of(p), breadth)
    if breadth.prefers_room and p.options.batch == 1:
        compilation = with_most_room(p, compilation, cycles)
    if key is not None:
        store_search(key, compilation)
    return compilation


def pass_fabric(prepared_placement: PreparedPlacement, compilation: Compilation, tokens: int) -> Fabric:
    """Compile a verification pass for an existing layout, and return its timing model.

    A verification pass runs the model over several new tokens of one user. It is compiled for the
    PE rectangles of ``compilation``, and with the other choices, such as cycle-saving rewrites,
    that are fastest for this number of tokens. Whether its buffers fit in SRAM is not checked.

    Args:
        prepared_placement: The checked request.
        compilation: The compilation whose PE rectangles are used.
        tokens: Number of tokens in the pass.
    """
    p = replace(prepared_placement, options=replace(prepared_placement.options, verify_tokens=tokens))
    prompts = (1,) * compilation.options.batch
    options = replace(
        compilation.options.with_prompts(prompts), verify_tokens=tokens, phases=(DECODE,), capacity=REPORT
    )
    prompt_choice = replace(compilation.choice, prefill_chunk=1)
    choice = verify_choice(p.spec, p.wafer, p.software, options, prompt_choice, timing_of(p))
    program = compile_choice(p.spec, p.wafer, p.software, options, choice)
    return Fabric(program, p.wafer, p.software, p.meshes)


def _complete_remedy(remedy: str, prepared_placement: PreparedPlacement, *, all_wafers: bool) -> str:
    """Extend a suggested option change by other changes that it makes necessary.

    For example, a shorter context may also require fewer new tokens.

    Args:
        remedy: Suggested change that makes the model fit, such as ``--context 4096``.
        prepared_placement: The checked request, whose current options may need changes.
        all_wafers: Whether all possible numbers of wafers were tried. With a larger mesh, the model
            then fits on the largest number, and perhaps on fewer.

    Returns:
        All changes as text.
    """
    option, _, value = remedy.partition(" ")
    if option == "--context":
        return prepared_placement.request.shorter_context_remedy(
            int(value), max(prepared_placement.options.prompt_tokens)
        )
    wafers = prepared_placement.options.wafers
    return f"{remedy} (then on at most {plural(wafers, 'wafer')})" if option == "--mesh" and all_wafers else remedy

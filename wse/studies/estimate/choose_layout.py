"""The choice of a layout for a number of users: the fastest for one of them, or the one with the most throughput.

A layout with the fewest cycles per token may leave room for few KV caches.

Where one pass at a time is to be fast, of the layouts within `MARGIN` of the fastest the one with the most room is
taken. With any other objective:

1. The search compiles the fastest layouts fully. With ``--mapping auto`` these are often on a part of the mesh, so each
   mapping has a search of its own too (`wse.studies.estimate.rivals`).
2. Each is also compiled with attention on all columns and with the fewest codes unpacked at once. Both leave more room
   for caches.
3. The `WIDENED` best of each search are compiled for passes over 2, 4, 8 ... users as long as the objective improves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from wse.compiler.options import WIDE_UNPACKING, Choice
from wse.compiler.pipeline import compile_choice, with_tiles
from wse.compiler.search.search import MARGIN, Breadth, Candidate, Compilation
from wse.compiler.search.tile_sizes import WITHOUT_TILES
from wse.errors import BadInput, DoesNotFit
from wse.reports.terminal import plural
from wse.request.prepare_estimate import PreparedEstimate
from wse.serving.goal import LATENCY, Goal
from wse.serving.plan import plan
from wse.serving.wafer_deployment import WaferDeployment
from wse.studies.compile.choose import NARROW, compile_with_remedies, request_cycles
from wse.studies.estimate.deployment import middle_deployment
from wse.studies.estimate.rivals import WIDE, rival_searches, with_trials
from wse.studies.results.users import users_at

WIDENED: Final = 2
"""The best layouts of each search that are compiled for passes over several users."""
MOST_SLOTS: Final = 256

ALL_COLUMNS: Final = "attention on all columns"
FEW_CODES: Final = "the fewest codes unpacked at once"


Search = Callable[[PreparedEstimate, Breadth], Compilation]
"""A search for the layouts of a request, as wide as is asked for."""


class Variant(NamedTuple):
    """A compiled layout with another choice of the compiler, and the name of that choice."""

    name: str
    candidate: Candidate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChosenLayout:
    """A request with the users of a pass that were chosen for it, and what was compiled.

    ``variants`` are those of the layout that leave more room for caches, where it was chosen for latency.
    """

    prepared: PreparedEstimate
    compilation: Compilation
    variants: tuple[Variant, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompiledLayout:
    """A compiled layout and its deployment.

    Attributes:
        prepared: The request, with the users of a pass.
        candidate: What was compiled.
        deployment: What users get on it.
        searched: The search that found it.
        finalist: The number of the layout, among those that the search compiled fully, that it is a variant of.
    """

    prepared: PreparedEstimate
    candidate: Candidate
    deployment: WaferDeployment
    searched: Compilation
    finalist: int


def choose_layout(
    prepared: PreparedEstimate, search: Search = compile_with_remedies, goal: Goal | None = None
) -> ChosenLayout:
    """Return the layout that a request's objective and users ask for.

    Args:
        prepared: The request.
        search: `compile_with_remedies`, or `compile_fastest`, which names no remedies where the model does not fit.
        goal: What the layout is chosen for; by default what the request asks for.

    Raises:
        DoesNotFit: the model does not fit, with remedies.
        BadInput: no layout has room for the caches of the users.
    """
    goal = goal or prepared.goal
    one_pass = goal.users is None or goal.users <= prepared.options.batch * (goal.replicas or 1)
    if goal.objective == LATENCY and one_pass:
        return fastest_layout(prepared, search(prepared, NARROW))
    compilation = search(prepared, WIDE)
    layouts = ranked_layouts(prepared, compilation, goal)
    best = layouts[0]
    _check_room(best)
    chosen = _compilation(best.prepared, best.candidate, best.finalist, best.searched)
    searches = dict.fromkeys((best.searched, *(layout.searched for layout in layouts)))
    asked = replace(best.prepared, options=replace(best.prepared.options, mapping=prepared.options.mapping))
    return ChosenLayout(prepared=asked, compilation=with_trials(prepared, chosen, searches))


def fastest_layout(prepared: PreparedEstimate, compilation: Compilation) -> ChosenLayout:
    """Return the layout with the fewest cycles for a request; of those within `MARGIN` the one with the most room.

    Args:
        prepared: The request.
        compilation: What a search of it found.
    """
    chosen = compilation.candidates[0]
    variants = variants_of(prepared, chosen)
    tokens = prepared.prompt_len + prepared.new_tokens
    users = users_at(chosen.program, tokens)
    rivals = [*enumerate(compilation.candidates), *((0, variant.candidate) for variant in variants)][1:]
    roomier = [(number, one) for number, one in rivals if users_at(one.program, tokens) > users]
    if not roomier:
        return ChosenLayout(prepared=prepared, compilation=compilation, variants=variants)
    most_cycles = (1 + MARGIN) * request_cycles(prepared, chosen.program)
    near = [(number, one) for number, one in roomier if request_cycles(prepared, one.program) <= most_cycles]
    if not near:
        return ChosenLayout(prepared=prepared, compilation=compilation, variants=variants)
    number, best = max(near, key=lambda pair: users_at(pair[1].program, tokens))
    return ChosenLayout(
        prepared=prepared,
        compilation=_compilation(prepared, best, number, compilation),
        variants=variants_of(prepared, best),
    )


def ranked_layouts(prepared: PreparedEstimate, compilation: Compilation, goal: Goal) -> list[CompiledLayout]:
    """Return the layouts of a search and of its rivals, with their variants; the nearest to a goal first.

    Args:
        prepared: The request.
        compilation: What a `WIDE` search of it found.
        goal: What layouts are compared by.
    """

    def rank(layout: CompiledLayout) -> tuple[bool, float, float]:
        found = plan(layout.deployment, goal)
        return (True, math.inf, 0.0) if found is None else found.rank(layout.deployment, goal)

    found = [
        _with_deployment(one, candidate, searched, number)
        for one, searched in ((prepared, compilation), *rival_searches(prepared))
        for number, candidate in _candidates(one, searched)
    ]
    found.sort(key=rank)
    if prepared.request.batch is None:
        found += [wider for layout in _best_of_searches(found) for wider in _with_more_slots(layout, goal, rank)]
        found.sort(key=rank)
    return found


def _best_of_searches(ranked: Sequence[CompiledLayout]) -> Iterator[CompiledLayout]:
    """Yield the `WIDENED` best layouts of each search."""
    for search in dict.fromkeys(layout.searched for layout in ranked):
        yield from [layout for layout in ranked if layout.searched is search][:WIDENED]


def _candidates(prepared: PreparedEstimate, compilation: Compilation) -> Iterator[tuple[int, Candidate]]:
    """Yield the layouts that were compiled fully with their numbers, each with the variants that leave more room."""
    for number, candidate in enumerate(compilation.candidates):
        yield number, candidate
        yield from ((number, variant.candidate) for variant in variants_of(prepared, candidate))


def variants_of(prepared: PreparedEstimate, candidate: Candidate) -> tuple[Variant, ...]:
    """Return a layout with attention on all columns, with the fewest codes unpacked at once, and with both.

    Those that are no different, or have no room for buffers or colours, are left out.
    """
    choice = candidate.choice
    all_columns = replace(choice, attention_cols=0)
    choices = {ALL_COLUMNS: all_columns} if choice.attention_cols else {}
    if choice.uses(WIDE_UNPACKING):
        choices[FEW_CODES] = _without_unpacking(choice)
        if choice.attention_cols:
            choices[f"{ALL_COLUMNS}, {FEW_CODES}"] = _without_unpacking(all_columns)
    compiled = ((name, _compiled(prepared, candidate._replace(choice=other))) for name, other in choices.items())
    return tuple(Variant(name, one) for name, one in compiled if one is not None)


def _without_unpacking(choice: Choice) -> Choice:
    rewrites, verify_rewrites = (
        None if setting is None else tuple(one for one in setting if one[0] != WIDE_UNPACKING)
        for setting in (choice.rewrites, choice.verify_rewrites)
    )
    return replace(choice, rewrites=rewrites or (), verify_rewrites=verify_rewrites)


def _compiled(prepared: PreparedEstimate, candidate: Candidate) -> Candidate | None:
    """Return a candidate with the Program of its options and choice; None where it does not fit."""
    p, (_, options, choice) = prepared, candidate
    try:
        program = compile_choice(p.spec, p.wafer, p.software, options, choice, WITHOUT_TILES)
    except DoesNotFit:
        return None
    return candidate._replace(program=program)


def _with_deployment(
    prepared: PreparedEstimate, candidate: Candidate, searched: Compilation, finalist: int
) -> CompiledLayout:
    """Return a candidate with its deployment."""
    deployment = middle_deployment(prepared, candidate.program)
    return CompiledLayout(
        prepared=prepared, candidate=candidate, deployment=deployment, searched=searched, finalist=finalist
    )


def _with_more_slots(
    layout: CompiledLayout, goal: Goal, rank: Callable[[CompiledLayout], tuple[bool, float, float]]
) -> Iterator[CompiledLayout]:
    """Yield a layout compiled for passes over 2, 4, 8 ... users as long as that is better than fewer."""
    prepared, (_, options, choice) = layout.prepared, layout.candidate
    most_users = layout.deployment.max_concurrency
    most = min(most_users if goal.users is None else math.ceil(goal.users / goal.replicas_for(most_users)), MOST_SLOTS)
    best, slots = layout, 2 * options.batch
    while slots <= most:
        prompts = (prepared.prompt_len,) * slots
        candidate = Candidate(layout.candidate.program, replace(options, prompt_tokens=prompts), choice)
        compiled = _compiled(prepared, candidate)
        if compiled is None:
            return
        wider = replace(
            prepared,
            request=replace(prepared.request, batch=slots),
            options=replace(prepared.options, prompt_tokens=prompts),
        )
        one = _with_deployment(wider, compiled, layout.searched, layout.finalist)
        if rank(one) >= rank(best):
            return
        best = one
        yield one
        slots *= 2


def _check_room(layout: CompiledLayout) -> None:
    """Raise BadInput where the caches of the users do not fit."""
    users, room, shape = layout.prepared.request.users, layout.deployment.max_concurrency, layout.deployment.shape
    replicas = layout.prepared.goal.replicas_for(room)
    if users is None or users <= replicas * room:
        return
    fewer = f"--users {replicas * room}, " if room else ""
    wafers = plural(layout.candidate.options.wafers, "wafer")
    wafers += "" if replicas == 1 else f" of each of {replicas:,} replicas"
    remedies = "more --wafers or --replicas" if room else "more --wafers"
    message = (
        f"--users {users}: caches of {plural(room, 'sequence')} of {shape.tokens:,} tokens fit on {wafers}; give "
        f"{fewer}{remedies}, or shorter --prompt-len and --new-tokens; `wse compare MODEL --users {users}` finds "
        "wafers and replicas for them"
    )
    raise BadInput(message)


def _compilation(prepared: PreparedEstimate, candidate: Candidate, finalist: int, searched: Compilation) -> Compilation:
    """Return what was compiled for a candidate; the trial of its finalist is the first of those of the search."""
    p, (program, options, choice) = prepared, candidate
    compiled = [*searched.compiled]
    compiled.insert(0, compiled.pop(finalist))
    return replace(
        searched,
        program=with_tiles(program, p.spec, p.wafer, p.software, options, choice),
        options=options,
        choice=choice,
        compiled=tuple(compiled),
    )

"""Layout choice: the fastest layout for one user at a time, or the best one for another goal.

If one user is served at a time, the search chooses the layout (`wse.studies.compile.choose`).
Otherwise, layouts are ranked by their operating points with all users. Operating points assume
requests of equal lengths. If lengths vary, `choose_layout_by_capacity` compares simulations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from wse.compiler.search.search import Compilation
from wse.program.program import Program
from wse.serving.goal import LATENCY, Goal
from wse.serving.operating_point import operating_point
from wse.serving.plan import saturating_users
from wse.studies.compile.capacity import users_by_bytes
from wse.studies.compile.choose import NARROW, compile_with_remedies
from wse.studies.compile.layout_changes import Version, users_that_fit
from wse.studies.compile.room import with_chosen
from wse.studies.estimate.layouts.compiled_layout import CompiledLayout
from wse.studies.estimate.layouts.layout_versions import Variant, variants_of
from wse.studies.estimate.layouts.ranked_layouts import LayoutRanking
from wse.studies.estimate.layouts.result import LayoutResult, layout_result
from wse.studies.estimate.layouts.searches import (
    FASTEST,
    Search,
    max_users_with_room,
    needs_compiled_room,
    on_more_wafers,
    trial_with_room,
    with_trials,
)
from wse.studies.estimate.layouts.too_many_users import too_many_users
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.options.option import replace_options
from wse.studies.results.operating_points import user_counts
from wse.studies.results.sram import users_at


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChosenLayout:
    """The layout chosen for a request.

    A layout is a division of the wafers into rectangles of PEs, each of which stores some layers.

    Attributes:
        searched: The request for which layouts were searched. It has the chosen number of wafers.
        prepared: The same request with the chosen number of users per pass. If the request states
            users and no drafts, it also has the chosen number of replicas.
        compilation: The compiled layout, with a record of all layouts that were tried.
        variants: Recompiled versions of the layout that are slower but leave more room for KV
            caches. Empty unless the layout was chosen for the latency of one user at a time.
    """

    searched: PreparedEstimate
    prepared: PreparedEstimate
    compilation: Compilation
    variants: tuple[Variant, ...] = ()

    @property
    def max_users_of_any_layout(self) -> int:
        """Maximum number of users of one replica whose KV caches fit on some layout.

        It is found by trials of layouts on reduced models, which take time.
        """
        p = self.searched
        programs = (
            candidate.program for candidate in (*self.compilation.candidates, *(v.candidate for v in self.variants))
        )
        room = _room_of(p, (self.compilation.program, *programs))
        return max_users_with_room(p, room, users_by_bytes(p) + 1)

    def users_at_longer_context(self, context: int) -> int:
        """Return how many users' KV caches fit on the layout if it is compiled for a longer context.

        Some buffers, such as those of attention scores, grow with the context. The layout is
        compiled with the same choices, but only for a reduced model.

        Args:
            context: Number of tokens in each user's KV cache.
        """
        options = replace(self.compilation.options, context=context)
        return users_that_fit(Version(self.prepared, options, self.compilation.choice), context)

    def layout_with_room(self, users: int) -> LayoutResult | None:
        """Return another layout on which the KV caches of a number of users of one replica fit.

        The result is None if the chosen layout has the room, or if no such layout is found.
        """
        if users <= _room_of(self.searched, [self.compilation.program]):
            return None
        trial = trial_with_room(self.searched, users)
        return None if trial is None else layout_result(trial, None, is_chosen=False)


def choose_layout(
    prepared_estimate: PreparedEstimate, search: Search = compile_with_remedies, goal: Goal | None = None
) -> ChosenLayout:
    """Choose and compile the layout that serves a request's users best.

    A layout is a division of the wafers into rectangles of PEs, each of which stores some layers.

    - If the objective is latency and each machine serves one user at a time, the layout with the
      fewest cycles is chosen, or one that is almost as fast but leaves more room for KV caches.
    - Otherwise, layouts are ranked by their speed or cost with all users.
    - If the request states no number of wafers, it is the fewest on which the model and the KV
      caches of all users fit or, if users pause between requests, on which the model fits.

    Args:
        prepared_estimate: The request.
        search: Search function: `compile_with_remedies`, whose error suggests option changes that
            make the model fit, or the faster `compile_fastest`.
        goal: Users and objective; None to use the request's own.

    Raises:
        DoesNotFit: The model does not fit.
        BadInput: No layout has enough room for the users' KV caches.
    """
    goal = goal or prepared_estimate.goal
    if prepared_estimate.serves_one_user(goal):
        compilation = search(prepared_estimate, NARROW)
        return ChosenLayout(
            searched=prepared_estimate,
            prepared=prepared_estimate,
            compilation=compilation,
            variants=variants_of(prepared_estimate, compilation.candidates[0]),
        )
    if goal.objective == LATENCY and goal.users is None:
        goal = replace(goal, users=prepared_estimate.options.batch)
    room = None
    if _may_have_room(prepared_estimate):
        ranking = LayoutRanking(prepared_estimate, search)
        layouts = ranking.layouts_for(goal)
        room = ranking.max_users
        if _has_room(prepared_estimate, room):
            return _best_layout(prepared_estimate, ranking, layouts, goal)
    larger_request = on_more_wafers(prepared_estimate, goal)
    if larger_request is not None:
        return choose_layout(larger_request, search, goal)
    if room is None:
        programs = (candidate.program for candidate in search(prepared_estimate, FASTEST).candidates)
        room = _room_of(prepared_estimate, programs)
    raise too_many_users(prepared_estimate, room)


def choose_layout_by_capacity(
    prepared_estimate: PreparedEstimate, capacity_of: Callable[[ChosenLayout], float]
) -> ChosenLayout:
    """Choose and compile the layout that serves the most requests of varying lengths per second.

    Layouts are tried in the order of their throughput for equal lengths, highest first. The first one
    may have room for hardly more requests than saturate it. While long requests occupy this room,
    too few requests fit to saturate the layout. Therefore, two kinds of layouts are simulated:

    - the first layout for each number of users per pass
    - each layout with more relative room than all before it. Relative room is the number of requests
      that fit, divided by the number that saturates the layout.

    The simulated capacity may exceed the throughput for equal lengths, for example if prefixes are
    kept. The largest ratio of the two so far (at least 1) is assumed to be the largest of all. The
    search ends at the first layout whose throughput times this ratio does not exceed the highest
    simulated capacity.

    Args:
        prepared_estimate: The request. Its goal is throughput or cost for any number of users.
        capacity_of: Function that simulates a layout and returns its capacity in requests per
            second.

    Raises:
        DoesNotFit: The model does not fit.
    """
    layouts = LayoutRanking(prepared_estimate, compile_with_remedies).layouts_for(prepared_estimate.goal)
    best, best_capacity, best_factor, most_room, slots = None, 0.0, 1.0, 0.0, set[int]()
    for layout in layouts:
        deployment, users = layout.deployment, max(1, saturating_users(layout.deployment))
        requests_per_s = operating_point(deployment, users).requests_per_s
        if best is not None and best_factor * requests_per_s <= best_capacity:
            break
        room = deployment.max_concurrency / users
        if room <= most_room and deployment.slots in slots:
            continue
        most_room, slots = max(most_room, room), slots | {deployment.slots}
        chosen_layout = _to_chosen_layout(prepared_estimate, layout, layouts)
        capacity = capacity_of(chosen_layout)
        best_factor = max(best_factor, capacity / requests_per_s)
        if best is None or capacity > best_capacity:
            best, best_capacity = chosen_layout, capacity
    assert best is not None  # a ranking has at least one layout
    return best


def _best_layout(
    prepared_estimate: PreparedEstimate, ranking: LayoutRanking, layouts: Sequence[CompiledLayout], goal: Goal
) -> ChosenLayout:
    """Return the first of several ranked layouts, with the number of replicas that the users need.

    Args:
        prepared_estimate: The request.
        ranking: The ranking of the layouts.
        layouts: The layouts, best first.
        goal: Users and objective of the ranking.
    """
    best_layout = _to_chosen_layout(prepared_estimate, layouts[0], layouts)
    best_plan = ranking.plan(layouts[0], goal)
    if best_plan is None or goal.users is None or not goal.users_may_wait:
        return best_layout
    request = replace_options(best_layout.prepared.request, replicas=best_plan.point.replicas)
    return replace(best_layout, prepared=replace(best_layout.prepared, request=request))


def layouts_by_users(prepared_estimate: PreparedEstimate, search: Search) -> dict[int | None, ChosenLayout]:
    """Return the fastest layouts for 2, 4, 8 ... users, and the layout with the highest throughput.

    The user counts are powers of two below the number that saturates the layout with the highest
    throughput.

    Args:
        prepared_estimate: The request. It has throughput as its objective and no number of users.
        search: Search function, as for `choose_layout`.

    Returns:
        Layouts, keyed by user count, ascending. The layout with the highest throughput comes last
        and has the key None. A layout that is fastest for several user counts is listed once, with
        the smallest count.

    Raises:
        DoesNotFit: The model does not fit.
    """
    ranking = LayoutRanking(prepared_estimate, search)
    layouts = ranking.layouts_for(prepared_estimate.goal)
    users_by_layout: dict[CompiledLayout, int | None] = {layouts[0]: None}
    for users in user_counts(saturating_users(layouts[0].deployment), 1)[1:-1]:
        goal = replace(prepared_estimate.goal, users=users, objective=LATENCY)
        users_by_layout.setdefault(ranking.layouts_for(goal)[0], users)
    in_order = sorted(users_by_layout, key=lambda layout: users_by_layout[layout] or math.inf)
    return {users_by_layout[layout]: _to_chosen_layout(prepared_estimate, layout, layouts) for layout in in_order}


def _to_chosen_layout(
    prepared_estimate: PreparedEstimate, best: CompiledLayout, layouts: Sequence[CompiledLayout]
) -> ChosenLayout:
    """Return the best layout, together with a record of all layouts that were tried.

    Args:
        prepared_estimate: The request.
        best: The best layout.
        layouts: All ranked layouts. The record covers the searches that found them.
    """
    compilation = with_chosen(best.version.prepared, best.search_result, best.candidate, best.finalist)
    searches = dict.fromkeys((best.search_result, *(layout.search_result for layout in layouts)))
    return ChosenLayout(
        searched=prepared_estimate,
        prepared=best.version.prepared,
        compilation=with_trials(prepared_estimate, compilation, searches),
    )


def _room_of(prepared_estimate: PreparedEstimate, programs: Iterable[Program]) -> int:
    """Return how many users' KV caches fit on the compiled layout with the most room.

    Args:
        prepared_estimate: The request, which determines the tokens per user.
        programs: The compiled layouts of one replica.
    """
    tokens = prepared_estimate.tokens_per_user
    return max(users_at(program, tokens) for program in programs)


def _may_have_room(prepared_estimate: PreparedEstimate) -> bool:
    """Return whether some layout may store the KV caches of all requested users, or users pause.

    Layouts are tried on reduced models, which takes less time than a ranking. If layouts would have
    to be compiled (`needs_compiled_room`), only bytes are counted.
    """
    p = prepared_estimate
    if not _has_room(p, users_by_bytes(p)):
        return False
    if not p.cached_users or needs_compiled_room(p):
        return True
    return trial_with_room(p, p.cached_users) is not None


def _has_room(prepared_estimate: PreparedEstimate, room: int) -> bool:
    """Return whether the wafers can store the KV caches of all requested users, or users pause.

    Users who pause may wait for room, because only some of them have a request in flight.

    Args:
        prepared_estimate: The request.
        room: Number of users whose KV caches fit on the wafers of one replica.
    """
    users = prepared_estimate.request.serving.users
    if users is None:
        return True
    if prepared_estimate.shape.think_s:
        return room > 0
    return users <= prepared_estimate.goal.replicas_for(room) * room

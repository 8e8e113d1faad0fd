"""Compiled layouts with their serving performance, ranked by how well they meet a goal.

1. The layouts that serve many users at once are fully compiled
   (`wse.studies.estimate.layouts.searches`): without and, for enough users, with room for a quarter
   of the KV caches that fit by bytes. If they may be better, so are the fastest ones for one user.
2. Each layout is recompiled in versions with more room for KV caches, other prompt chunks, or more
   users per pass, as long as they improve (`wse.studies.estimate.layouts.improved_layouts`).
3. If users may not wait for KV-cache space and no version has room for all of them, a further search
   accepts only layouts with this room.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, cached_property, partial

from wse.compiler.search.search import Compilation
from wse.serving.goal import LATENCY, THROUGHPUT, Goal
from wse.serving.plan import Plan, plan
from wse.studies.compile.capacity import min_planned_users, users_by_bytes
from wse.studies.compile.choose import NARROW
from wse.studies.compile.layout_changes import Version
from wse.studies.estimate.layouts.compiled_layout import CompiledLayout, compiled_layout
from wse.studies.estimate.layouts.improved_layouts import improved_layouts
from wse.studies.estimate.layouts.layout_versions import LayoutVersions
from wse.studies.estimate.layouts.searches import (
    FASTEST,
    MANY_USERS,
    Search,
    max_users_with_room,
    search_for_room,
    trial_with_room,
)
from wse.studies.estimate.prepare import PreparedEstimate


class LayoutRanking:
    """Ranking of the layouts of a request: those found by searches, and versions of these layouts.

    Versions have more room for KV caches, other prompt chunks, or more users per pass than the
    original layout.
    """

    def __init__(self, prepared_estimate: PreparedEstimate, search: Search) -> None:
        """Create a ranking without layouts; they are searched when they are ranked.

        Args:
            prepared_estimate: The request.
            search: Function that searches for the fastest layouts for one user. Its error is raised
                if no layout fits.
        """
        self._prepared, self._search = prepared_estimate, search
        self._searches: list[Compilation] = []
        self._searched: set[tuple[int, float]] = set()  # (users with room, users in flight) of searches for many users
        self._searched_fastest = False
        self._trial_with_room = cache(partial(trial_with_room, prepared_estimate))
        self._known_room = 0  # users whose caches are known to fit on some layout, even if it is slow
        self._versions = LayoutVersions()

    @property
    def max_users(self) -> int:
        """Maximum number of users per replica whose KV caches are known to fit on some layout."""
        return max([self._known_room, *(layout.deployment.max_concurrency for layout in self._versions)])

    def find_room(self, goal: Goal) -> None:
        """Find the maximum number of users whose KV caches fit on some layout, `max_users`.

        It is found only if the goal states users and replicas, and no known layout has room for all
        requests in flight on a replica.
        """
        if goal.users is None or goal.replicas is None:
            return
        found_goal = self._with_in_flight(goal)
        self.layouts_for(found_goal)
        requests = math.ceil((found_goal.requests or 1) / goal.replicas)
        if self.max_users < requests:
            self._known_room = max_users_with_room(self._prepared, self.max_users, requests)

    def plan(self, layout: CompiledLayout, goal: Goal) -> Plan | None:
        """Return how many users and replicas of a layout best meet a goal; None if no user fits.

        Some goals let users wait for KV-cache space until other requests end. A replica then has up
        to `max_users` requests in flight. For all other goals, the KV caches of all users must fit at
        the same time.
        """
        return plan(layout.deployment, goal, self._max_users_for(goal))

    def _max_users_for(self, goal: Goal) -> int | None:
        """Return `max_users` if the goal lets users wait for KV-cache space, and otherwise None."""
        return self.max_users if goal.users_may_wait else None

    def layouts_for(self, goal: Goal) -> list[CompiledLayout]:
        """Return the layouts and their improved versions, ranked by a goal, best first.

        1. Search for layouts that suit the number of users per replica (`_search_for_many`). Replicas
           are identical machines that share the users.
        2. Search for the fastest layouts for one user. Versions of them that decode more users per
           pass may be the best for many users. If only throughput counts, this search is made only if
           fewer than `MANY_USERS.finalists` layouts were found; others use only parts of wafers.
        3. If the goal states users and replicas, and the best layout has too little room for the KV
           caches of a replica's users, search for layouts with this room. If users may wait, only
           check that such a layout exists (`max_users`); it is not ranked.

        If the goal states only the number of users, layouts are ranked for fixed numbers of replicas
        (`_with_free_replicas`). If it states more replicas than the users need, layouts are also
        searched and improved for the fewest replicas, because this is done if the number is free.

        If machines serve one user at a time (`serves_one_user`), the only layout is the one that an
        estimate chooses for one user.

        If users pause between requests, layouts are searched for the requests that are in flight
        (`_with_in_flight`), and ranked for all users.

        Raises:
            DoesNotFit: The model does not fit.
        """
        goal = self._with_in_flight(goal)
        if self._prepared.serves_one_user(goal):
            return [self._layout_for_one_user]
        if goal.requests is not None:
            if goal.replicas is None:
                return self._with_free_replicas(goal)
            fewest_replicas = replace(goal, replicas=None).replicas_for(users_by_bytes(self._prepared))
            if fewest_replicas < goal.replicas:
                self._searched_layouts(replace(goal, replicas=fewest_replicas))
        layouts = self._searched_layouts(goal)
        if goal.requests is None or goal.replicas is None:
            return layouts
        # 3. Room for the requests in flight on a replica.
        requests = math.ceil(goal.requests / goal.replicas)
        if layouts[0].deployment.max_concurrency >= requests:
            return layouts
        if not goal.users_may_wait:
            return self._layouts_for(goal) if self._found_layouts(requests, requests) else layouts
        if self.max_users < requests and self._trial_with_room(requests) is not None:
            self._known_room = requests
        return layouts

    def _with_in_flight(self, goal: Goal) -> Goal:
        """Return a goal with the expected number of requests in flight, if its users pause.

        At first, the number is that on the layout with the highest throughput within the latency
        limits. On the best layout for this number, requests may be faster, so that fewer are in
        flight. The best layout is therefore searched again, until the number no longer falls.
        """
        if goal.users is None or goal.in_flight is not None or not self._prepared.shape.think_s:
            return goal
        any_users = replace(goal, users=None, replicas=1, objective=THROUGHPUT)
        in_flight = self._in_flight(self.layouts_for(any_users)[0], goal)
        while True:
            found_goal = replace(goal, in_flight=in_flight)
            in_flight = self._in_flight(self.layouts_for(found_goal)[0], goal)
            if in_flight >= (found_goal.in_flight or 0):
                return found_goal

    def _in_flight(self, layout: CompiledLayout, goal: Goal) -> int:
        """Return the number of requests that a goal's users have in flight on a layout, rounded up.

        It is at least one per replica. Requests that wait for KV-cache space are not counted. If no
        request fits, the result is the number of users.
        """
        best_plan, room = self.plan(layout, goal), layout.deployment.max_concurrency
        if best_plan is None:
            return goal.users or 1
        replicas = best_plan.point.replicas
        return max(replicas, math.ceil(min(best_plan.point.in_flight, replicas * room)))

    @cached_property
    def _layout_for_one_user(self) -> CompiledLayout:
        """The fastest layout for one user, or one that is almost as fast but has more room."""
        search_result = self._search(self._prepared, NARROW)
        candidate = search_result.candidates[0]
        version = Version(self._prepared, candidate.options, candidate.choice)
        layout = compiled_layout(version, lambda: candidate, search_result, 0)
        assert layout is not None  # the candidate is compiled
        self._known_room = max(self._known_room, layout.deployment.max_concurrency)
        return layout

    def _searched_layouts(self, goal: Goal) -> list[CompiledLayout]:
        """Search for layouts (steps 1 and 2 of `layouts_for`), and return them, ranked, with their versions."""
        if goal.requests is not None or goal.objective != LATENCY:
            self._search_for_many(goal)  # 1
        found_count = sum(len(search_result.candidates) for search_result in self._searches)
        if not self._searched_fastest and (found_count < MANY_USERS.finalists or not goal.only_throughput):
            self._searched_fastest = True  # 2
            self._searches.insert(0, self._search(self._prepared, FASTEST))
        return self._layouts_for(goal)

    def _with_free_replicas(self, goal: Goal) -> list[CompiledLayout]:
        """Return layouts for a number of users on as many replicas as needed, best first.

        Layouts are searched and improved for the fewest replicas whose SRAM can hold the KV caches
        of all users. Then follow searches for exactly r and r - 1 replicas, where r is the number that
        the best known layout needs, until both have been tried. (The number is fixed in each search.
        Otherwise, a change that makes room for more users but slows requests would be rejected unless
        it saves a whole replica.)

        Args:
            goal: A goal with users, but without a number of replicas.
        """
        tried_replicas, untried_replicas = set[int](), {goal.replicas_for(users_by_bytes(self._prepared))}
        layouts: list[CompiledLayout] = []
        while untried_replicas:
            tried_replicas |= untried_replicas
            for replicas in sorted(untried_replicas, reverse=True):
                layouts = self.layouts_for(replace(goal, replicas=replicas))
            most_users = self._max_users_for(goal)
            layouts.sort(key=lambda layout: layout.rank(goal, most_users))
            best = self.plan(layouts[0], goal)
            if best is None:
                break
            untried_replicas = {best.point.replicas, max(1, best.point.replicas - 1)} - tried_replicas
        return layouts

    def with_fewest_replicas(self, goal: Goal) -> CompiledLayout:
        """Return the layout that meets a goal with the fewest replicas, of those compiled so far."""
        latency_goal, most_users = replace(goal, objective=LATENCY), self._max_users_for(goal)
        return min(self._versions, key=lambda layout: layout.rank(latency_goal, most_users))  # fewest replicas first

    def _users_in_flight(self, goal: Goal) -> float:
        """Return how many users a replica serves at a time; infinity if the goal states no users.

        If the goal states no replicas, the fewest whose SRAM can hold all KV caches are assumed.
        """
        if goal.requests is None:
            return math.inf
        return math.ceil(goal.requests / goal.replicas_for(users_by_bytes(self._prepared)))

    def _search_for_many(self, goal: Goal) -> None:
        """Search for layouts that suit the number of users per replica, unless this was done before.

        If a replica serves at least `min_planned_users`, also search for layouts with room for this
        number of users.
        """
        p = self._prepared
        self._found_layouts(0, self._users_in_flight(goal))
        planned_users = min_planned_users(p)
        planned_tokens = p.options.cache_tokens_of(planned_users, p.tokens_per_user)
        needs_more = planned_tokens > p.options.planned_cache_tokens
        if needs_more and planned_users <= self._users_in_flight(goal):
            self._found_layouts(planned_users, math.inf)

    def _found_layouts(self, users: int, in_flight: float) -> bool:
        """Search for layouts for many users, unless this was done before.

        Args:
            users: Number of users of one replica whose KV caches must fit; 0 if no room is required.
            in_flight: Number of users of one replica that layouts serve at the same time. It is rounded
                up to a power of two, so that similar numbers share a search. For a single user,
                nothing is searched.

        Returns:
            True if the search was made now and found a layout.
        """
        if in_flight <= 1:
            return False
        in_flight = in_flight if math.isinf(in_flight) else 2.0 ** math.ceil(math.log2(in_flight))
        if (users, in_flight) in self._searched:
            return False
        self._searched.add((users, in_flight))
        new = search_for_room(self._prepared, users, in_flight)
        self._searches += new
        return bool(new)

    def _layouts_for(self, goal: Goal) -> list[CompiledLayout]:
        """Return the layouts found by the searches, and improved versions of them, best first."""
        return improved_layouts(self._prepared, self._searches, self._versions, goal)

"""Compiled layouts with their serving performance, ranked by how well they meet a goal.

1. The layouts that serve many users at once are fully compiled
   (`wse.studies.estimate.layouts.searches`), and, if they may be better, the fastest ones for one
   user.
2. A layout that would be the best one with more room is also compiled with attention on all
   columns, and with as few codes of quantised weights unpacked at a time as possible. Both changes
   leave more room for caches.
3. The best version of each layout is recompiled with prompt chunks of half the length, repeatedly,
   as long as it improves. Shorter chunks leave more room for caches. A layout that is far behind
   with long chunks can be the best with short ones.
4. The two best layouts of each search are compiled for passes over 2, 4, 8 ... users, and with
   prompt chunks of 2, 4, 8 ... times the length, as long as they improve. The search for one user
   chooses the chunks that serve one user fastest. Longer ones can serve many users faster.
   (`wse.studies.estimate.layouts.improved_layouts` has steps 2 to 4. It omits versions that would
   be far behind even with optimistic numbers.)
5. If the best layout decodes several users per pass, layouts are also searched for this number of
   users per pass.
6. If users for whom there is no room would raise the throughput, or have to wait for KV-cache
   space, further searches accept only layouts with more room.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, partial
from typing import Final

from wse.compiler.search.search import MARGIN, Compilation
from wse.serving.goal import LATENCY, THROUGHPUT, Goal
from wse.serving.plan import Plan, plan
from wse.studies.estimate.layouts.compiled_layout import CompiledLayout
from wse.studies.estimate.layouts.improved_layouts import improved_layouts
from wse.studies.estimate.layouts.layout_versions import LayoutVersions
from wse.studies.estimate.layouts.searches import (
    FASTEST,
    MANY_USERS,
    Search,
    max_users_with_room,
    search_for_room,
    trial_with_room,
    users_by_bytes,
)
from wse.studies.estimate.prepare import PreparedEstimate

CLOSE: Final = 1.5
"""Ratio of users in flight up to which a search serves both numbers of users."""
MAX_ROOM_SEARCHES: Final = 2
"""Maximum number of searches for layouts with room for more users, each time a goal is ranked.

A search that finds nothing may be repeated for fewer users per pass.
"""


class LayoutRanking:
    """Ranking of the layouts of a request: those found by searches, and versions of these layouts.

    Versions have more room for KV caches, other prompt chunks, or more users per pass than the
    original layout.
    """

    def __init__(self, prepared_estimate: PreparedEstimate, search: Search, goal: Goal) -> None:
        """Search for layouts that serve many users, unless each machine serves one user at a time.

        If fewer than `MANY_USERS.finalists` are found (none without a search), layouts on parts of
        wafers may be better. The fastest layouts for one user are then searched as well.

        Args:
            prepared_estimate: The request.
            search: Function that searches for the fastest layouts for one user. Its error is raised
                if no layout fits.
            goal: Users and objective of the first ranking. If it states no replicas, layouts for as few
                replicas as bytes allow are searched first.

        Raises:
            DoesNotFit: The model does not fit.
        """
        self._prepared, self._search = prepared_estimate, search
        one_user = goal.objective == LATENCY if goal.users is None else goal.users <= (goal.replicas or 1)
        self._searches: list[tuple[PreparedEstimate, Compilation]] = []
        self._searches_without_room: set[Compilation] = set()  # those that did not require room for more users
        # (users with room, users in flight, users per pass) of searches for many users
        self._searched: set[tuple[int, float, int]] = set()
        self._searched_fastest = False
        if not one_user:
            self._found_layouts(prepared_estimate, 0, goal)
        if sum(len(search_result.candidates) for _, search_result in self._searches) < MANY_USERS.finalists:
            self._search_fastest()
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
        users of a replica.
        """
        if goal.users is None or goal.replicas is None:
            return
        self.layouts_for(goal)
        users = math.ceil(goal.users / goal.replicas)
        if self.max_users < users:
            self._known_room = max_users_with_room(self._prepared, self.max_users, users)

    def plan(self, layout: CompiledLayout, goal: Goal) -> Plan | None:
        """Return how many users and replicas of a layout best meet a goal; None if no user fits.

        Some goals let users wait for KV-cache space until other users end. A replica then serves up
        to `max_users` users. For all other goals, the KV caches of all users must fit at the same
        time.
        """
        return plan(layout.deployment, goal, self._max_users_for(goal))

    def _max_users_for(self, goal: Goal) -> int | None:
        """Return `max_users` if the goal lets users wait for KV-cache space, and otherwise None."""
        return self.max_users if goal.users_may_wait else None

    def layouts_for(self, goal: Goal) -> list[CompiledLayout]:
        """Return the layouts and their improved versions, ranked by a goal, best first.

        If the number of users is free and the objective is not latency, layouts with room for more
        users are searched for as well. Replicas are identical machines that share the users.

        1. Search for the fastest layouts for one user, unless only throughput counts. Versions of them
           that decode more users per pass may be the best for many users.
        2. If the best layout decodes several users per pass, search for layouts for this number of
           users per pass. Searches for fewer users per pass may miss the layouts that are best.
        3. If the goal states the number of replicas and the best layout has too little room for the
           KV caches of a replica's users, search for layouts with more room, so that fewer users wait.
           If users may not wait, accept only layouts with room for all users of a replica. Otherwise,
           repeat step 2, because the new best layout may have other users per pass.

        If the goal states only the number of users, layouts are ranked for fixed numbers of replicas
        (`_with_free_replicas`).
        """
        if goal.users is not None and goal.replicas is None:
            return self._with_free_replicas(goal)
        layouts = self._layouts_for(goal)
        if goal.users is None and goal.objective == LATENCY:
            return layouts
        # 1. Fastest layouts for one user.
        if not (self._searched_fastest or goal.only_throughput):
            self._search_fastest()
            layouts = self._layouts_for(goal)
        # 2. As many users per pass as the best layout.
        layouts = self._with_slots_of_best(layouts, goal)
        if goal.users is None or goal.replicas is None:
            return self._with_more_users(layouts, goal)
        # 3. Room for the users of a replica.
        users = math.ceil(goal.users / goal.replicas)
        if layouts[0].deployment.max_concurrency >= users:
            return layouts
        if not goal.users_may_wait:
            return self._layouts_for(goal) if self._found_room(layouts[0], users, goal) else layouts
        if self.max_users < users and self._trial_with_room(users) is not None:
            self._known_room = users
        return self._with_slots_of_best(self._with_more_users(layouts, goal), goal)

    def _with_slots_of_best(self, layouts: list[CompiledLayout], goal: Goal) -> list[CompiledLayout]:
        """Search for layouts with the users per pass of the best layout, until nothing new is found.

        Args:
            layouts: Known layouts, best first.
            goal: The goal by which they are ranked.

        Returns:
            The known layouts and the new ones, best first.
        """
        while self._found_layouts(layouts[0].prepared, 0, goal):
            layouts = self._layouts_for(goal)
        return layouts

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

    def _with_more_users(self, layouts: list[CompiledLayout], goal: Goal) -> list[CompiledLayout]:
        """Search for layouts with room for more users.

        A search requires room for the number of users that promises the highest throughput
        (`_promising_users`). If the best layout has this room already, or if the same search was
        made before, it requires room for one user more than fit on the best layout of the
        searches that required no room. There are at most `MAX_ROOM_SEARCHES` rounds, and none if the
        goal states no users and more room promises no gain.

        Args:
            layouts: Known layouts, best first.
            goal: A goal whose objective is not latency, or with more users than the best layout has
                room for.

        Returns:
            The known layouts and the new ones, best first.
        """
        in_flight = self._users_in_flight(goal)
        first_layout = next(layout for layout in layouts if layout.search_result in self._searches_without_room)
        users = self._promising_users(layouts[0], goal)
        if goal.users is None and users <= layouts[0].deployment.max_concurrency:
            return layouts
        for _ in range(MAX_ROOM_SEARCHES):
            best, slots = layouts[0], layouts[0].options.batch
            if users <= best.deployment.max_concurrency or self._was_searched(users, in_flight, slots):
                users = first_layout.deployment.max_concurrency + 1
            if self._was_searched(users, in_flight, slots) or users > in_flight:
                break
            if self._found_room(best, users, goal):
                layouts = self._layouts_for(goal)
            users = self._promising_users(layouts[0], goal)
        return layouts

    def _promising_users(self, best: CompiledLayout, goal: Goal) -> int:
        """Return for how many users a search for more room could raise the throughput.

        Every compiled layout is ranked as if as many caches fitted as fit by bytes. The result is the
        number of users at which the best layout of this ranking has the highest throughput within
        the latency limits. It is 0 if this layout is less than `MARGIN` better than ``best``.

        Args:
            best: The best known layout.
            goal: The goal. If it states users and replicas, the users per replica are an upper limit.
        """
        most_users = users_by_bytes(self._prepared)
        if goal.users is not None and goal.replicas is not None:
            most_users = min(most_users, math.ceil(goal.users / goal.replicas))
        free_goal = replace(goal, users=None, replicas=1, objective=THROUGHPUT)
        roomy_layouts = [layout.with_numbers(max_concurrency=most_users) for layout in self._versions]
        roomy_layout = min(roomy_layouts, key=lambda layout: layout.rank(free_goal, None))
        misses_limits, value, _ = roomy_layout.rank(free_goal, None)
        if (misses_limits, value / (1 - MARGIN)) > best.rank(free_goal, None)[:2]:
            return 0
        roomy_plan = plan(roomy_layout.deployment, free_goal)
        return 0 if roomy_plan is None else roomy_plan.point.concurrency

    def _search_fastest(self) -> None:
        """Search for the fastest layouts for one user."""
        self._searched_fastest = True
        fastest_search = self._search(self._prepared, FASTEST)
        self._searches.insert(0, (self._prepared, fastest_search))
        self._searches_without_room.add(fastest_search)

    def _users_in_flight(self, goal: Goal) -> float:
        """Return how many users a replica serves at a time; infinity if the goal states no users.

        If the goal states no replicas, the fewest whose SRAM can hold all KV caches are assumed.
        """
        if goal.users is None:
            return math.inf
        return math.ceil(goal.users / goal.replicas_for(users_by_bytes(self._prepared)))

    def _found_room(self, best: CompiledLayout, users: int, goal: Goal) -> bool:
        """Search for layouts with room for a number of users; return whether a new search found any.

        The search is for as many users per pass as the best layout has. If it finds nothing, it is
        repeated for the requested users per pass, because wider passes need more memory.
        """
        return self._found_layouts(best.prepared, users, goal) or self._found_layouts(self._prepared, users, goal)

    def _found_layouts(self, prepared_estimate: PreparedEstimate, users: int, goal: Goal) -> bool:
        """Search for layouts, unless this was done before.

        Args:
            prepared_estimate: The request, with the number of users per pass.
            users: Number of users of one replica whose KV caches must fit; 0 if no room is required.
            goal: Goal that determines how many users of a replica layouts serve at the same time. If
                it is a single one, layouts for many users are not searched.

        Returns:
            True if the search was made now and found a layout.
        """
        in_flight, slots = self._users_in_flight(goal), prepared_estimate.options.batch
        if in_flight <= 1 or self._was_searched(users, in_flight, slots):
            return False
        self._searched.add((users, in_flight, slots))
        new = search_for_room(prepared_estimate, users, in_flight)
        self._searches += [(prepared_estimate, search_result) for search_result in new]
        if not users:
            self._searches_without_room.update(new)
        return bool(new)

    def _was_searched(self, users: int, in_flight: float, slots: int) -> bool:
        """Return whether a search was made for this room, users per pass and about as many in flight.

        Numbers in flight that differ by a factor of less than `CLOSE` count as the same.
        """
        return any(
            (users, slots) == (other_users, other_slots)
            and (in_flight == other_in_flight or 1 / CLOSE < in_flight / other_in_flight < CLOSE)
            for other_users, other_in_flight, other_slots in self._searched
        )

    def _layouts_for(self, goal: Goal) -> list[CompiledLayout]:
        """Return the layouts found by the searches, and improved versions of them, best first."""
        return improved_layouts(self._prepared, self._searches, self._versions, goal)

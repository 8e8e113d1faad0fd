"""Compiled layouts of a request on wafers, with the deployments that a ranking compares.

A ranking compiles and times many versions of each layout. If the times of a version are in the
cache on disk, the version is compiled only if it is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from wse.backends.fabric.model import Fabric
from wse.cache.content_key import content_key
from wse.cache.records import cached
from wse.compiler.search.search import Candidate, Compilation
from wse.program.program import Program
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.goal import Goal
from wse.serving.plan import plan
from wse.studies.compile.layout_changes import Version
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.estimate.timing.pipelining import Pipelining, PipeliningResult
from wse.studies.results.phases import mean_token_cycles
from wse.studies.results.sram import users_at


def deployment_of(
    prepared_estimate: PreparedEstimate, program: Program, pipelining: PipeliningResult
) -> WaferDeployment:
    """Return the description of a model on wafers from which serving performance is computed.

    Args:
        prepared_estimate: The request. All users have its prompt and answer lengths, and its pause.
        program: The compiled model.
        pipelining: Mean time of a token of each user of a batch, and the busy time of the pipeline
            stages and of the inter-wafer links.
    """
    slots = program.batch
    prompt_s = max(server.prefill_busy_s for server in pipelining.servers) / slots
    return WaferDeployment(
        shape=prepared_estimate.shape,
        max_concurrency=users_at(program, prepared_estimate.shape.tokens),
        chips=program.wafers,
        economics=prepared_estimate.economics,
        slots=slots,
        token_s=pipelining.single_stream_tpot_s,
        stage_s=max(server.decode_busy_s for server in pipelining.servers),
        prompt_s=prompt_s,
        chunk_s=prompt_s / max(1.0, pipelining.prefill.chunks / slots),
        delay_s=max(0.0, pipelining.ttft_s - slots * prompt_s),
    )


def timed_deployment(prepared_estimate: PreparedEstimate, program: Program) -> WaferDeployment:
    """Time a compiled model, and return the description from which serving performance is computed.

    The time of a token is the mean over all tokens of a request. The shares of the stages are those
    of the token halfway through the answer.
    """
    fabric = Fabric(program, prepared_estimate.wafer, prepared_estimate.software, prepared_estimate.meshes)
    prompts = [fabric.prefill_cost(index) for index in range(len(program.prefill))]
    middle_cost = fabric.decode_cost(*prepared_estimate.middle_context)
    mean_cycles = mean_token_cycles(fabric, prepared_estimate)
    pipelining = Pipelining(fabric, prompts, middle_cost, mean_cycles)
    return deployment_of(prepared_estimate, program, pipelining.result(with_rows=False))


Rank = tuple[bool, float, float]
"""Sort key of layouts, best first: whether limits are missed, deciding number, tie-breaker."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompiledLayout:
    """A layout, and the numbers that determine how fast it serves users.

    A layout is a division of the wafers into rectangles of PEs, each of which stores some layers.

    Attributes:
        version: The inputs from which the layout is compiled: the request, with the number of users
            per pass, and options and choices of the compiler. Other layouts are made by changing
            this version.
        compile_layout: Function that returns the compiled layout, and None if it does not fit. It
            compiles the layout on the first call, because only the chosen layout is needed.
        deployment: The model as deployed on this layout, from which speed and cost are computed.
        search_result: Result of the search that found this layout or its original.
        finalist: Index of the layout in ``search_result.compiled_trials``. For a variant of a
            layout that the search found, the index of the original layout.
    """

    version: Version[PreparedEstimate]
    compile_layout: Callable[[], Candidate | None]
    deployment: WaferDeployment
    search_result: Compilation
    finalist: int

    @property
    def candidate(self) -> Candidate:
        """The compiled layout."""
        candidate = self.compile_layout()
        assert candidate is not None  # a layout that does not fit has no deployment
        return candidate

    def rank(self, goal: Goal, max_users: int | None) -> Rank:
        """Return the layout's sort key for a goal. The best layout has the smallest key.

        Args:
            goal: Users, latency limits and objective.
            max_users: Maximum number of users per replica, as for `plan`.
        """
        best_plan = plan(self.deployment, goal, max_users)
        return (True, math.inf, 0.0) if best_plan is None else best_plan.rank(self.deployment, goal)

    def with_numbers(self, **numbers: Any) -> CompiledLayout:
        """Return a copy with some fields of the deployment replaced, without compiling it.

        Args:
            numbers: New values of fields of `WaferDeployment`.
        """
        return replace(self, deployment=replace(self.deployment, **numbers))


def compiled_layout(
    version: Version[PreparedEstimate],
    compile_layout: Callable[[], Candidate | None],
    search_result: Compilation,
    finalist: int,
) -> CompiledLayout | None:
    """Combine a layout with the times that determine how fast it serves users.

    The times come from the cache if possible. The result is None if the layout does not fit.

    Args:
        version: The request, with the users per pass for which the layout is compiled, and options
            and choices of the compiler.
        compile_layout: Function that returns the compiled layout, or None if it does not fit. It is
            called only if the cache has no times of the layout.
        search_result: Result of the search that found this layout or its original.
        finalist: Index of the layout in ``search_result.compiled_trials``. For a variant of a
            layout that the search found, the index of the original layout.
    """
    p = version.prepared
    inputs = p.spec, p.wafer, p.software, p.options, p.new_tokens, version.options, version.choice
    key = None if p.meshes else content_key("deployment", *inputs)

    def compute() -> WaferDeployment | None:
        """Compile and time the layout. The result has no price, which is not an input of the key."""
        candidate = compile_layout()
        return None if candidate is None else replace(timed_deployment(p, candidate.program), economics=None)

    deployment = cached(key, WaferDeployment | None, compute)
    if deployment is None:
        return None
    return CompiledLayout(
        version=version,
        compile_layout=compile_layout,
        deployment=replace(deployment, shape=p.shape, economics=p.economics),
        search_result=search_result,
        finalist=finalist,
    )

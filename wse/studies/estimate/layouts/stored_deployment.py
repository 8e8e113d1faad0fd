"""Deployments of compiled layouts, whose times are kept in the cache on disk.

A ranking of layouts compiles and times many versions of each layout. If the times of a version are
in the cache, the version is compiled only if it is chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final

from wse.cache.cached import cached
from wse.cache.content_key import content_key
from wse.compiler.choice import Choice
from wse.compiler.options import Options
from wse.program.program import Program
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.operating_point import RequestShape
from wse.studies.estimate.deployment import timed_deployment
from wse.studies.estimate.prepare import PreparedEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDeployment:
    """The numbers that determine how fast a layout serves users, in the form stored in the cache.

    They follow from the layout and its request. Prices are not stored.

    Attributes:
        region_rows: Rows of the first rectangle of PEs of the layout.
        max_concurrency, chips, slots, token_s, stage_s, prompt_s, chunk_s, delay_s: As in
            `WaferDeployment`.
    """

    region_rows: int
    max_concurrency: int
    chips: int
    slots: int
    token_s: float
    stage_s: float
    prompt_s: float
    chunk_s: float
    delay_s: float

    def deployment(self, prepared_estimate: PreparedEstimate) -> WaferDeployment:
        """Combine the stored numbers with the lengths and prices of a request to a deployment."""
        p = prepared_estimate
        numbers = {name: getattr(self, name) for name in NUMBERS}
        shape = RequestShape(prompt_tokens=p.prompt_len, new_tokens=p.new_tokens)
        return WaferDeployment(shape=shape, economics=p.economics, **numbers)


NUMBERS: Final = tuple(field.name for field in fields(StoredDeployment) if field.name != "region_rows")
"""Fields that `StoredDeployment` and `WaferDeployment` have in common."""


def stored_deployment(
    prepared_estimate: PreparedEstimate, options: Options, choice: Choice, compile_program: Callable[[], Program | None]
) -> StoredDeployment | None:
    """Return how fast a layout serves users, from the cache if possible.

    Args:
        prepared_estimate: The request, with the users per pass for which the layout is compiled.
        options: Options of the compiler for the layout.
        choice: The layout, chunk sizes and rewrites.
        compile_program: Function that returns the compiled layout, or None if it does not fit. It
            is called only if the cache has no result.

    Returns:
        The numbers, or None if the layout does not fit.
    """

    def compute() -> StoredDeployment | None:
        """Compile and time the layout."""
        program = compile_program()
        if program is None:
            return None
        deployment = timed_deployment(p, program)
        numbers = {name: getattr(deployment, name) for name in NUMBERS}
        return StoredDeployment(region_rows=program.stages[0].rect.rows, **numbers)

    p = prepared_estimate
    inputs = p.spec, p.wafer, p.software, p.options, p.new_tokens, options, choice
    key = None if p.meshes else content_key("deployment", *inputs)
    return cached(key, StoredDeployment | None, compute)

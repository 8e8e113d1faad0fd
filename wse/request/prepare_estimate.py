"""An EstimateRequest, checked, with everything loaded and its defaults filled in."""

from __future__ import annotations

from dataclasses import dataclass

from wse.compiler.options import REFUSE, REPORT
from wse.errors import BadInput, UnknownName
from wse.models.spec import ModelSpec
from wse.request.basis import (
    Placeable,
    check_context,
    load_basis,
    placement_options,
)
from wse.request.estimate_request import EstimateRequest
from wse.request.live_mesh import logical_wafer
from wse.request.option import check_counts
from wse.serving.economics import Economics, load_economics

MOST_USERS = 4096
"""Users of one batch; more are a slip."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedEstimate(Placeable):
    """A request with everything loaded and decided but the Program."""

    request: EstimateRequest
    economics: Economics


def prepare_estimate(request: EstimateRequest) -> PreparedEstimate:
    """Load and check all that a request names.

    Raises:
        BadInput and its kinds: something that was named is missing or cannot be used.
    """
    check_counts(
        wafers=request.wafers,
        prompt_len=request.prompt_len,
        new_tokens=request.new_tokens,
        batch=request.batch,
        context=request.context,
    )
    if request.batch > MOST_USERS:
        message = f"--batch {request.batch}: give at most {MOST_USERS:,} users"
        raise BadInput(message)
    if request.capacity not in (REFUSE, REPORT):
        raise UnknownName("capacity", request.capacity, (REFUSE, REPORT))
    basis = load_basis(request)
    economics = load_economics(basis.whole, request.economics)
    wafer = basis.mesh or basis.whole
    prompt_tokens = (request.prompt_len,) * request.batch
    options = placement_options(request, basis, _context(request, basis.spec), prompt_tokens, capacity=request.capacity)
    wafer, meshes = logical_wafer(wafer, basis.defects, options.wafers, grow_to=None)
    return PreparedEstimate(
        request=request,
        loaded=basis.loaded,
        whole=basis.whole,
        wafer=wafer,
        software=basis.software,
        options=options,
        economics=economics,
        new_tokens=request.new_tokens,
        defects=basis.defects,
        meshes=meshes,
    )


def _context(request: EstimateRequest, spec: ModelSpec) -> int:
    """Tokens of a user's cache."""
    check_context(request.context, spec)
    tokens = request.prompt_len + request.new_tokens
    limit = request.context or spec.context_limit
    if tokens > limit:
        whose = f"--context {limit}" if request.context else f"the {limit} tokens that {spec.name} was made for"
        message = (
            f"--prompt-len {request.prompt_len} --new-tokens {request.new_tokens}: {tokens} tokens are more than "
            f"{whose}; give at most {limit} together"
        )
        raise BadInput(message)
    return request.context or tokens

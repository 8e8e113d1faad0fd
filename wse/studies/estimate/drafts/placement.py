"""Placement of the draft in an estimate: compiles the draft, or rejects it with a remedy.

A draft head is an extra layer of the model: model and head are compiled as one model, on the same
wafers. A draft model has its own PEs: a rectangle that the model leaves free on one of its wafers
(``same``), or the smallest number of additional wafers on which it fits (``wafer``). On the
``host``, it needs no PEs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from wse.compiler.options import REFUSE
from wse.compiler.passes.allocate import free_bytes_per_pe
from wse.compiler.search.search import Compilation
from wse.errors import BadInput, DoesNotFit
from wse.program.routing import EVEN
from wse.reports.number_text import count, plural
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.drafts.free_regions import FreeRegion, free_regions
from wse.studies.estimate.layouts.choose_layout import ChosenLayout, choose_layout
from wse.studies.estimate.layouts.searches import with_room
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.drafts.draft import HEAD, HOST, SAME
from wse.studies.options.option import replace_options
from wse.studies.results.sram import users_at
from wse_mappings.mesh.placement import Rect

MAX_COMPILED: Final = 4
"""Maximum number of free rectangles for which a draft model is compiled, largest first."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacedDraft:
    """A compiled draft model or draft head, which proposes tokens, and where it runs.

    Attributes:
        name: Name of the draft model, or `HEAD` for a draft head, which is an extra layer of the
            model.
        place: ``same`` wafers as the model, other wafers (``wafer``), or ``host``.
        prepared: The draft model, with its files loaded and options filled in. For a draft head, it
            is the model with the head added.
        compilation: The result of compiling ``prepared``; None on the host, where nothing is
            compiled.
        wafers: Number of wafers that only the draft model uses.
        region: PEs of a draft model on the same wafers; None for other places and for a head.
    """

    name: str
    place: str
    prepared: PreparedEstimate
    compilation: Compilation | None
    wafers: int = 0
    region: FreeRegion | None = None


def place_draft(prepared_estimate: PreparedEstimate, compilation: Compilation) -> PlacedDraft:
    """Compile the draft model or draft head of a request for the wafers or host on which it runs.

    Args:
        prepared_estimate: The request, which must state how often drafts are accepted.
        compilation: The compiled model of the request.

    Raises:
        BadInput: The draft model cannot be used.
        DoesNotFit: The draft model does not fit where it is to run. The message suggests options
            that are known to make it fit.
    """
    request = prepared_estimate.request
    if request.drafts.draft_model is None:
        return place_head(prepared_estimate)
    name, place = str(request.drafts.draft_model), request.drafts.draft_place or SAME
    if place == SAME:
        return _place_next_to_model(prepared_estimate, compilation, name)
    if place == HOST:
        return PlacedDraft(
            name=name, place=place, prepared=_draft_request(prepared_estimate, name, wafers=1), compilation=None
        )
    draft = _draft_request(prepared_estimate, name)
    try:
        layout = _roomy_layout(draft, compilation, choose_layout(draft))
    except (BadInput, DoesNotFit) as error:
        raise DoesNotFit(f"--draft-place {place}: {name}: {error}") from error
    compiled = layout.compilation
    return PlacedDraft(
        name=name, place=place, prepared=layout.prepared, compilation=compiled, wafers=compiled.program.wafers
    )


def place_head(prepared_estimate: PreparedEstimate, capacity: str | None = None) -> PlacedDraft:
    """Compile a model with a draft head, which is a copy of its last layer added at the end.

    The layout is chosen anew for the users and the objective of the request. It has room for all
    users.

    Args:
        prepared_estimate: The request.
        capacity: ``refuse`` to raise an error if there is not enough SRAM, or ``report`` to compile
            anyway; None for the value in the request.

    Raises:
        DoesNotFit: The requested wafers cannot hold the head and the users' KV caches.
    """
    spec, options, request = prepared_estimate.spec, prepared_estimate.options, prepared_estimate.request
    listed_regions = options.listed
    if listed_regions:
        listed_regions = (*listed_regions[:-1], listed_regions[-1]._replace(last_layer=spec.layer_count + 1))
    with_head = replace(
        prepared_estimate,
        request=replace(request, wafers=options.wafers),
        loaded=replace(prepared_estimate.loaded, spec=replace(spec, layers=(*spec.layers, spec.layers[-1]))),
        options=replace(options, listed=listed_regions, capacity=capacity or options.capacity),
    )
    try:
        layout = choose_layout(with_head, goal=replace(with_head.goal, users_may_wait=False))
    except (BadInput, DoesNotFit) as error:
        raise DoesNotFit(
            f"--draft: no room for a draft head, one more layer of the model: {error}; or leave out --draft"
        ) from error
    return PlacedDraft(name=HEAD, place=SAME, prepared=layout.prepared, compilation=layout.compilation)


def _place_next_to_model(prepared_estimate: PreparedEstimate, compilation: Compilation, name: str) -> PlacedDraft:
    """Compile a draft model for the free PEs on the model's own wafers.

    Free rectangles of PEs are tried in the order of `free_regions`, until the draft model fits on
    one. At most `MAX_COMPILED` rectangles are tried. Rectangles that are smaller than the weights
    are skipped.

    Args:
        prepared_estimate: Request for the model that verifies the draft tokens.
        compilation: The compiled model that verifies the draft tokens.
        name: Name of the draft model.

    Raises:
        BadInput: The request has defects, so the free PEs are not known.
        DoesNotFit: The draft model fits on none of the tried rectangles.
    """
    if prepared_estimate.defects is not None:
        raise BadInput(f"--draft-place {SAME}: the free PEs are not known with --defects; give --draft-place wafer")
    regions = free_regions(prepared_estimate, compilation.program)
    tries, fault = 0, ""
    for region in regions:
        draft = _draft_request(prepared_estimate, name, mesh=region.rect, wafers=1)
        if tries == MAX_COMPILED or draft.weight_bytes > region.pes * free_bytes_per_pe(draft.wafer, draft.software):
            continue
        tries += 1
        try:
            layout = _roomy_layout(draft, compilation, choose_layout(draft, compile_fastest))
        except DoesNotFit as error:
            fault = fault or f"; {error}"
            continue
        except BadInput:  # its remedies are for the draft model alone
            fault = fault or f"; {name} does not fit there with the KV caches of all users"
            continue
        return PlacedDraft(
            name=name, place=SAME, prepared=layout.prepared, compilation=layout.compilation, region=region
        )
    raise DoesNotFit(_refusal(prepared_estimate, name, regions, fault))


def _roomy_layout(draft: PreparedEstimate, compilation: Compilation, layout: ChosenLayout) -> ChosenLayout:
    """Return a layout of a draft model with room for all users that fit on the model, if one is found.

    Each of them needs a KV cache in the draft model, too. A layout that is the fastest for few users
    may have too little room. Other layouts are searched on the same number of wafers.

    Args:
        draft: Request for the draft model.
        compilation: The compiled model that verifies the draft tokens.
        layout: The layout that was chosen for the draft model without this condition. It is
            returned if it has the room, or if no layout with the room is found.
    """
    tokens = draft.prompt_len + draft.new_tokens
    users = users_at(compilation.program, tokens)
    if users_at(layout.compilation.program, tokens) >= users:
        return layout
    same_wafers = replace(draft.request, wafers=layout.compilation.program.wafers)
    try:
        return choose_layout(with_room(prepare_estimate(same_wafers), users), compile_fastest)
    except (BadInput, DoesNotFit):
        return layout


def _draft_request(
    target: PreparedEstimate, name: str, *, mesh: Rect | None = None, wafers: int | None = None
) -> PreparedEstimate:
    """Prepare an estimate for a draft model.

    It uses the same lengths and users as the target model, which verifies the draft tokens.

    Args:
        target: Request for the target model.
        name: Name of the draft model.
        mesh: PEs that the draft model may use; None for the requested mesh of the target model.
        wafers: Number of wafers; None for the fewest on which the draft model fits.
    """
    request = replace_options(
        target.request,
        model=name,
        mesh=target.request.machine.mesh if mesh is None else f"{mesh.rows}x{mesh.cols}",
        wafers=wafers,
        mapping=EstimateRequest(model=name).mapping,
        region=None,
        dtype=None,
        activations=None,
        prompt_len=target.prompt_len,
        new_tokens=target.new_tokens,
        routing=EVEN.name,
        place_experts=None,
        verify_tokens=None,
        draft=None,
        draft_model=None,
        draft_place=None,
        capacity=REFUSE,
        sensitivity=False,
        uncertainty=False,
        most_users=False,
        trace=None,
    )
    return prepare_estimate(request)


def _refusal(prepared_estimate: PreparedEstimate, name: str, regions: list[FreeRegion], fault: str) -> str:
    """Return the error message for a draft model that fits on none of the free PE rectangles.

    Args:
        prepared_estimate: Request for the model that verifies the draft tokens.
        name: Name of the draft model.
        regions: Free rectangles of PEs on the model's wafers.
        fault: Text of the error from the first compilation, starting with a separator such as "; ".
            It is empty if nothing was compiled.
    """
    draft = _draft_request(prepared_estimate, name)
    largest_region = max(regions, key=lambda region: region.pes, default=None)
    free_text = "none"
    if largest_region is not None:
        free_bytes = free_bytes_per_pe(draft.wafer, draft.software)
        rect = largest_region.rect
        free_text = f"{rect.rows}x{rect.cols} PEs with {count(largest_region.pes * free_bytes)} B"
    return (
        f"--draft-place {SAME}: the weights of {name} need {count(draft.weight_bytes)} B of SRAM, not "
        f"counting padding and caches, and the largest rectangle that the layout chosen for "
        f"{prepared_estimate.spec.name} leaves free on {plural(prepared_estimate.options.wafers, 'wafer')} is "
        f"{free_text}{fault}; {_wafers_remedy(draft)}"
    )


def _wafers_remedy(draft: PreparedEstimate) -> str:
    """Return advice for the case that a draft model does not fit on the model's wafers.

    It states how many additional wafers the draft model needs, which is found by compiling it.
    """
    try:
        wafers = compile_fastest(draft).program.wafers
    except DoesNotFit:
        return "no number of wafers holds it either: give a smaller --draft-model, or leave it out for a draft head"
    wafer = f"--draft-place wafer, which takes {plural(wafers, 'more wafer')}"
    return f"give {wafer}, --draft-place host for a very small model, or a smaller --draft-model"

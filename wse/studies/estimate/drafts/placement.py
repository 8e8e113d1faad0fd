"""The placement of the draft of an estimate: it is compiled there, or refused with a place that has room.

A draft head is one more layer of the model: the model and its head are compiled together, on the same wafers. A draft
model has PEs of its own: a rectangle that the model leaves free on one of its wafers (``same``), or the fewest wafers
that hold it (``wafer``). On the ``host`` it has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from wse.compiler.options import REFUSE
from wse.compiler.passes.allocate import reserved_bytes
from wse.compiler.search.search import Compilation
from wse.errors import BadInput, BadMesh, DoesNotFit
from wse.models.tensors.model_tensors import stored_bytes
from wse.number_formats import ELEMENT_BYTES
from wse.program.program import Program
from wse.reports.terminal import in_bytes, plural
from wse.studies.compile.choose import compile_fastest, compile_with_remedies
from wse.studies.estimate.layouts.choose_layout import choose_layout
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.draft import HEAD, HOST, SAME
from wse.studies.options.option import replace_options
from wse_mappings.mesh.free_rects import free_rects
from wse_mappings.mesh.placement import Rect

MOST_COMPILED: Final = 4
"""Free rectangles that a draft model is compiled for at most, the largest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeRegion:
    """A rectangle of PEs of a wafer of the model, in rows and columns of the whole wafer."""

    wafer: int
    rect: Rect

    @property
    def pes(self) -> int:
        """PEs of the rectangle."""
        return self.rect.rows * self.rect.cols


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacedDraft:
    """The draft of a request, compiled where it runs.

    Attributes:
        name: The draft model, or `HEAD`.
        place: ``same``, ``wafer`` or ``host``.
        prepared: The draft model; of a head, the model with the head as one more layer.
        compilation: The same compiled; None on the host.
        wafers: Wafers of the draft model alone, in addition to those of the model.
        region: The PEs of a draft model on a wafer of the model; None elsewhere and of a head.
    """

    name: str
    place: str
    prepared: PreparedEstimate
    compilation: Compilation | None
    wafers: int = 0
    region: FreeRegion | None = None


def place_draft(prepared: PreparedEstimate, compilation: Compilation) -> PlacedDraft:
    """Place and compile the draft of a request.

    Args:
        prepared: The request, with an acceptance.
        compilation: The model of the request.

    Raises:
        BadInput and its kinds: the draft model cannot be used.
        DoesNotFit: the draft does not fit in its place; with a remedy that was compiled.
    """
    request = prepared.request
    if request.drafts.draft_model is None:
        return place_head(prepared)
    name, place = str(request.drafts.draft_model), request.drafts.draft_place or SAME
    if place == SAME:
        return _place_beside(prepared, compilation, name)
    if place == HOST:
        return PlacedDraft(name=name, place=place, prepared=_draft_request(prepared, name, wafers=1), compilation=None)
    draft = _draft_request(prepared, name)
    compiled = compile_with_remedies(draft)
    return PlacedDraft(name=name, place=place, prepared=draft, compilation=compiled, wafers=compiled.program.wafers)


def place_head(prepared: PreparedEstimate, capacity: str | None = None) -> PlacedDraft:
    """Compile the model of a request with a draft head as one more layer, of the kind of its last layer.

    The layout is chosen for the users and the objective of the request, as that of the model alone is.

    Args:
        prepared: The request.
        capacity: Whether SRAM that runs out is refused or reported; by default as the request has it.

    Raises:
        DoesNotFit: The wafers of the request have no room for the head, or with it not for the users' caches.
    """
    spec, options, request = prepared.spec, prepared.options, prepared.request
    listed = options.listed
    if listed:
        listed = (*listed[:-1], listed[-1]._replace(last_layer=spec.layer_count + 1))
    with_head = replace(
        prepared,
        request=replace(request, wafers=options.wafers),
        loaded=replace(prepared.loaded, spec=replace(spec, layers=(*spec.layers, spec.layers[-1]))),
        options=replace(options, listed=listed, capacity=capacity or options.capacity),
    )
    try:
        layout = choose_layout(with_head)
    except (BadInput, DoesNotFit) as error:
        message = f"--draft: no room for a draft head, one more layer of the model: {error}"
        raise DoesNotFit(message) from error
    return PlacedDraft(name=HEAD, place=SAME, prepared=layout.prepared, compilation=layout.compilation)


def _place_beside(prepared: PreparedEstimate, compilation: Compilation, name: str) -> PlacedDraft:
    """Compile a draft model for the largest rectangle of free PEs that holds it."""
    if prepared.defects is not None:
        message = (
            f"--draft-place {SAME}: which PEs a model leaves free is not known with --defects; give --draft-place wafer"
        )
        raise BadInput(message)
    regions = free_regions(prepared, compilation.program)
    compiled, fault = 0, ""
    for region in regions:
        draft = _draft_request(prepared, name, mesh=region.rect, wafers=1)
        if compiled == MOST_COMPILED or weight_bytes(draft) > region.pes * _free_bytes(draft):
            continue
        compiled += 1
        try:
            found = compile_fastest(draft)
        except (BadMesh, DoesNotFit) as error:
            fault = fault or f"; {error}"
            continue
        return PlacedDraft(name=name, place=SAME, prepared=draft, compilation=found, region=region)
    raise DoesNotFit(_refusal(prepared, name, regions, fault))


def free_regions(prepared: PreparedEstimate, program: Program) -> list[FreeRegion]:
    """Return the rectangles of PEs that a model leaves free on its wafers, the largest first.

    With ``--mesh``, the PEs of a wafer outside of that mesh are free too. Rectangles that are at most as large as that
    mesh come first, as ``wse run`` gives a draft as many PEs as the model has. Of rectangles of one shape, the one that
    is nearest to the embedding of the model is listed.
    """
    whole = prepared.whole
    home = next(stage.wafer for stage in program.stages if stage.has_embedding)
    largest: list[FreeRegion] = []
    for wafer in sorted(range(program.wafers), key=lambda wafer: (abs(wafer - home), wafer)):
        occupied = {stage.rect for stage in program.stages if wafer in stage.wafers}
        if program.turned:
            occupied = {Rect(rect.col, rect.row, rect.cols, rect.rows) for rect in occupied}
        for rect in free_rects(whole.mesh_rows, whole.mesh_cols, sorted(occupied)):
            largest.append(FreeRegion(wafer=wafer, rect=rect))
    by_shape: dict[tuple[int, int], FreeRegion] = {}
    for region in (*_clipped(largest, prepared), *sorted(largest, key=lambda region: -region.pes)):
        by_shape.setdefault((region.rect.rows, region.rect.cols), region)
    return [*by_shape.values()]


def _clipped(regions: list[FreeRegion], prepared: PreparedEstimate) -> Iterator[FreeRegion]:
    """Yield the corner of each region that is at most as large as the mesh of the model, the largest first."""
    rows, cols = prepared.fabric_shape
    clipped = [
        replace(one, rect=one.rect._replace(rows=min(one.rect.rows, rows), cols=min(one.rect.cols, cols)))
        for one in regions
    ]
    yield from sorted(clipped, key=lambda region: -region.pes)


def _draft_request(
    target: PreparedEstimate, name: str, *, mesh: Rect | None = None, wafers: int | None = None
) -> PreparedEstimate:
    """Prepare an estimate of a draft model for the same lengths and users.

    Args:
        target: The request that the model drafts for.
        name: The draft model.
        mesh: The PEs that it may use; by default as many of a wafer as the request has.
        wafers: Wafers; by default the fewest that hold the model.
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
        verify_tokens=None,
        draft=None,
        draft_model=None,
        draft_place=None,
        capacity=REFUSE,
        sensitivity=False,
        trace=None,
    )
    return prepare_estimate(request)


def weight_bytes(draft: PreparedEstimate) -> int:
    """Return the bytes of all weights of a draft model, as it stores them."""
    options = draft.options
    return stored_bytes(draft.spec, options.dtype, ELEMENT_BYTES[options.activation_type])


def _free_bytes(draft: PreparedEstimate) -> int:
    """Return the bytes of a PE that code, stack and the runtime leave free."""
    return draft.wafer.sram_bytes_per_pe - reserved_bytes(draft.wafer, draft.software)


def _refusal(prepared: PreparedEstimate, name: str, regions: list[FreeRegion], fault: str) -> str:
    """Return the message for a draft model that no free rectangle holds."""
    draft = _draft_request(prepared, name)
    largest = max(regions, key=lambda region: region.pes, default=None)
    free = "none"
    if largest is not None:
        rect = largest.rect
        free = f"{rect.rows}x{rect.cols} PEs with {in_bytes(largest.pes * _free_bytes(draft))}"
    return (
        f"--draft-place {SAME}: the weights of {name} need {in_bytes(weight_bytes(draft))} of SRAM, the largest "
        f"rectangle that {prepared.spec.name} leaves free on {plural(prepared.options.wafers, 'wafer')} is {free}"
        f"{fault}; {_wafers_remedy(draft)}"
    )


def _wafers_remedy(draft: PreparedEstimate) -> str:
    """Return the remedy for a draft model that has no room beside the model; wafers of its own were compiled."""
    try:
        wafers = compile_fastest(draft).program.wafers
    except DoesNotFit:
        return "no number of wafers holds it either: give a smaller --draft-model, or leave it out for a draft head"
    return f"give --draft-place wafer, which takes {plural(wafers, 'more wafer')}, or a smaller --draft-model"

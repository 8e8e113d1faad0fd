"""Answers to requests of ``wse inspect``: checks of the options, and the view that they select."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Final

from wse.errors import BadInput
from wse.tracing.query.costs.groups import GroupsView, check_group, read_groups
from wse.tracing.query.costs.step_sums import StepSums
from wse.tracing.query.costs.steps import StepsView, check_order, read_steps
from wse.tracing.query.costs.tree import TreeView, read_tree
from wse.tracing.query.places.contents import DumpView, read_content
from wse.tracing.query.places.links import LinksView, busiest_links, check_links, layer_links
from wse.tracing.query.places.pe import PeView, check_pe, read_pe
from wse.tracing.query.places.wavelets import CyclesView, read_wavelets
from wse.tracing.query.summary import read_summary
from wse.tracing.query.tokens import TensorsView, TokensView, read_tensors, read_tokens
from wse.tracing.query.two_traces.diff import read_diff
from wse.tracing.query.view import View, check_trace, source_of, trace_at
from wse.tracing.requests import VIEWS, InspectRequest, cycle_range, pe_place
from wse_traces.reader.read import Trace

OF_TOP: Final = ("summary", "steps", "by", "links", "tokens")
OF_EACH_LAYER: Final = ("summary", "steps", "by", "links", "tree", "diff")
"""Views that combine identical layers or links, unless ``--each-layer`` is given."""


def inspect_trace(request: InspectRequest) -> View:
    """Return the trace view that a request selects.

    Raises:
        BadInput: An option is invalid, cannot be combined with another option, or names something
            that the trace does not contain.
        BadTrace: The file does not exist, is not a trace, or is damaged.
    """
    view = request.view
    _check(request, view)
    if view == "check":
        return check_trace(request.trace)
    second = nullcontext() if request.diff is None else trace_at(request.diff)
    with trace_at(request.trace) as trace, second as second_trace:
        if second_trace is None:
            return _READ[view](trace, request)
        return read_diff(trace, second_trace, each_layer=request.each_layer)


def check_csv(view: str) -> None:
    """Raise BadInput if a view is not a table and therefore cannot be written as CSV."""
    if view not in VIEWS:
        views = ", ".join(f"--{name}" for name in VIEWS)
        raise BadInput(f"--csv: the summary is not a table; add one of {views}, or use --json")


def _check(request: InspectRequest, view: str) -> None:
    """Check the options of a request and their combinations before the trace is opened.

    Raises:
        BadInput: An option is invalid, or does not apply to the view.
    """
    top = request.top
    if top is not None and top < 0:
        raise BadInput(f"--top {top}: give a number of at least 0")
    if top is not None and view not in OF_TOP and request.dump is None:
        views = ", ".join(f"--{name}" for name in OF_TOP[1:])
        raise BadInput(f"--top {top}: applies to {views}, not to --{view}; leave it out")
    for option, value, needed_view in (
        ("sort", request.sort, "steps"),
        ("wafer-index", request.wafer_index, "pe"),
        ("dump", request.dump, "pe"),
        ("sram-png", request.sram_png, "pe"),
    ):
        if value is not None and view != needed_view:
            raise BadInput(f"--{option} {value}: needs --{needed_view}; add that, or leave it out")
    _check_dump(request)
    if request.each_layer and view not in OF_EACH_LAYER:
        views = ", ".join(f"--{name}" for name in OF_EACH_LAYER[1:])
        raise BadInput(f"--each-layer: applies to {views}, not to --{view}; leave it out")
    if request.sort is not None:
        check_order(request.sort)
    if request.by is not None:
        check_group(request.by, each_layer=request.each_layer)
    if request.pe is not None:
        _wafer_of(request.pe, request.wafer_index)
    cycle_range(request.cycles)
    if view in ("links", "summary") and top is not None:
        check_links(top)


def _check_dump(request: InspectRequest) -> None:
    """Check the options for printing the contents of a buffer.

    Raises:
        BadInput: ``--pass``, ``--hex`` or ``--dump-file`` is used without ``--dump``, ``--dump`` is
            combined with ``--sram-png``, or the pass is negative.
    """
    options = {
        "pass": request.pass_index is not None,
        "hex": request.as_hex,
        "dump-file": request.dump_file is not None,
    }
    for option, is_given in options.items():
        if is_given and request.dump is None:
            raise BadInput(f"--{option}: needs --dump; add that, or leave it out")
    if request.pass_index is not None and request.pass_index < 0:
        raise BadInput(f"--pass {request.pass_index}: give a number of at least 0")
    if request.dump is not None and request.sram_png is not None:
        raise BadInput("--dump and --sram-png: are different views; give only one of them")


def _wafer_of(pe: str, wafer_index: int | None) -> int | None:
    """Return the wafer that ``--pe`` or ``--wafer-index`` specifies, or None if neither does.

    Raises:
        BadInput: The two options contradict each other, or the position is invalid.
    """
    wafer = pe_place(pe)[0]
    if wafer_index is not None and wafer_index < 0:
        raise BadInput(f"--wafer-index {wafer_index}: give a number of at least 0")
    if None not in (wafer, wafer_index) and wafer != wafer_index:
        raise BadInput(f"--pe {pe} and --wafer-index {wafer_index}: name two wafers; give one")
    return wafer_index if wafer is None else wafer


def pe_of(trace: Trace, request: InspectRequest) -> tuple[int, int, int]:
    """Return the wafer, row and column of the PE that ``--pe`` specifies.

    Raises:
        BadInput: The trace has no such PE, or it has several wafers and none is specified.
    """
    assert request.pe is not None
    wafer, wafers = _wafer_of(request.pe, request.wafer_index), trace.header.wafers
    if wafer is None and wafers > 1:
        raise BadInput(f"--pe {request.pe}: {trace.path} has {wafers} wafers; say which, such as --pe 0:{request.pe}")
    _, row, col = pe_place(request.pe)
    check_pe(trace, wafer or 0, row, col)
    return wafer or 0, row, col


def _pe(trace: Trace, request: InspectRequest) -> View:
    """Return the view of a PE or, if a buffer is requested, of the buffer's contents."""
    place = pe_of(trace, request)
    if request.dump is not None:
        content = read_content(trace, place, request.dump, request.pass_index)
        return DumpView(**source_of(trace, "dump"), content=content)
    return PeView(**source_of(trace, "pe"), pe=read_pe(trace, *place))


def _steps(trace: Trace, request: InspectRequest) -> View:
    """Return the view of the executed steps in the requested order."""
    order = request.sort or "cycles"
    steps = read_steps(StepSums(trace), order, request.rows, each_layer=request.each_layer)
    return StepsView(**source_of(trace, "steps"), sort=order, steps=tuple(steps))


def _group_view(trace: Trace, request: InspectRequest) -> View:
    """Return the view of cycles grouped as requested, such as by op or by layer."""
    assert request.by is not None
    sums = StepSums(trace)
    groups = read_groups(sums, request.by, request.rows, each_layer=request.each_layer)
    return GroupsView(**source_of(trace, "by"), by=request.by, phases=sums.phases(), groups=tuple(groups))


def _links(trace: Trace, request: InspectRequest) -> View:
    """Return the view of the busiest links, and of the words that each layer sends over links."""
    links = tuple(busiest_links(trace, request.rows or 0, each_link=request.each_layer))
    return LinksView(**source_of(trace, "links"), links=links, layer_links=tuple(layer_links(trace)))


def _tree(trace: Trace, _: InspectRequest) -> View:
    """Return the view of the ops of each layer with their cycles."""
    sums = StepSums(trace)
    return TreeView(**source_of(trace, "tree"), phases=sums.phases(), tree=tuple(read_tree(sums)))


def _cycles(trace: Trace, request: InspectRequest) -> View:
    """Return the view of the wavelets that move in the requested cycles."""
    wavelets = read_wavelets(trace, cycle_range(request.cycles))
    assert wavelets is not None
    return CyclesView(**source_of(trace, "cycles"), wavelets=wavelets)


_READ: Final[dict[str, Callable[[Trace, InspectRequest], View]]] = {
    "summary": lambda trace, request: read_summary(trace, request.rows or 0, each_layer=request.each_layer),
    "steps": _steps,
    "by": _group_view,
    "links": _links,
    "pe": _pe,
    "tokens": lambda trace, request: TokensView(
        **source_of(trace, "tokens"), tokens=tuple(read_tokens(trace, request.rows))
    ),
    "tree": _tree,
    "cycles": _cycles,
    "tensors": lambda trace, _: TensorsView(**source_of(trace, "tensors"), tensors=tuple(read_tensors(trace))),
}

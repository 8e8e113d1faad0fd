"""What of a trace is asked for, and the answer as plain values."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wse.errors import BadInput
from wse.inspect.query.by import check_group, group_facts
from wse.inspect.query.check import check_facts
from wse.inspect.query.diff import diff_facts
from wse.inspect.query.links import busiest_links, check_links, layer_links
from wse.inspect.query.opened import Facts, opened
from wse.inspect.query.pe import pe_facts, pe_place
from wse.inspect.query.steps import check_order, step_facts
from wse.inspect.query.summary import TOP, summary_facts
from wse.inspect.query.tensors import tensor_facts
from wse.inspect.query.tokens import token_rows
from wse.inspect.query.tree import tree_facts
from wse.inspect.query.wavelets import cycle_range, wavelet_facts
from wse.inspect.query.work import Work
from wse_traces.read import Trace

VIEWS: Final = ("steps", "by", "links", "pe", "tokens", "tree", "cycles", "tensors", "diff", "check")
"""Views beside the summary, each by the option that asks for it."""

OF_TOP: Final = ("summary", "steps", "by", "links", "tokens")
DEFAULT_TOP: Final = {"summary": TOP, "steps": 20, "links": 20}


@dataclass(frozen=True, kw_only=True)
class InspectRequest:
    """The options of ``wse inspect``, as they were given; at most one of the views may be."""

    trace: Path
    steps: bool = False
    by: str | None = None
    links: bool = False
    pe: str | None = None
    tokens: bool = False
    tree: bool = False
    cycles: str | None = None
    tensors: bool = False
    diff: Path | None = None
    check: bool = False
    sort: str | None = None
    top: int | None = None
    wafer_index: int | None = None

    @property
    def view(self) -> str:
        """The view that is asked for.

        Raises:
            BadInput: there are several.
        """
        asked = [view for view in VIEWS if getattr(self, view) not in (False, None)]
        if len(asked) > 1:
            message = f"{' and '.join(f'--{view}' for view in asked)}: are views of their own; give one of them"
            raise BadInput(message)
        return asked[0] if asked else "summary"


def inspected(request: InspectRequest) -> Facts:
    """``view``, ``trace``, ``complete``, and what the view shows.

    Raises:
        BadInput: options that cannot be, or do not go together, or name what the trace has not.
        BadTrace: there is no such file, or it is no trace, or damaged.
    """
    view = request.view
    _check(request, view)
    if view == "check":
        return {"view": view, **check_facts(request.trace)}
    second = nullcontext() if request.diff is None else opened(request.diff)
    with opened(request.trace) as trace, second as other:
        if other is not None:
            complete = trace.complete and other.complete
            return {"view": view, "complete": complete, **diff_facts(trace, other)}
        return {"view": view, "trace": str(trace.path), "complete": trace.complete, **_FACTS[view](trace, request)}


def _check(request: InspectRequest, view: str) -> None:
    """Refuse what cannot be before the trace is opened."""
    top = request.top
    if top is not None and top < 0:
        message = f"--top {top}: give a number of at least 0"
        raise BadInput(message)
    if top is not None and view not in OF_TOP:
        views = ", ".join(f"--{each}" for each in OF_TOP[1:])
        message = f"--top {top}: does not go with --{view}, but with {views}; leave it out"
        raise BadInput(message)
    for option, value, goes_with in (("sort", request.sort, "steps"), ("wafer-index", request.wafer_index, "pe")):
        if value is not None and view != goes_with:
            message = f"--{option} {value}: goes with --{goes_with}; add that, or leave it out"
            raise BadInput(message)
    if request.sort is not None:
        check_order(request.sort)
    if request.by is not None:
        check_group(request.by)
    if request.pe is not None:
        _wafer_of(request.pe, request.wafer_index)
    if request.cycles is not None:
        cycle_range(request.cycles)
    if view in ("links", "summary") and top is not None:
        check_links(top)


def _wafer_of(pe: str, wafer_index: int | None) -> int | None:
    """The wafer of ``--pe``, wherever it is said; None where it is not."""
    wafer = pe_place(pe)[0]
    if wafer_index is not None and wafer_index < 0:
        message = f"--wafer-index {wafer_index}: give a number of at least 0"
        raise BadInput(message)
    if None not in (wafer, wafer_index) and wafer != wafer_index:
        message = f"--pe {pe} and --wafer-index {wafer_index}: name two wafers; give one"
        raise BadInput(message)
    return wafer_index if wafer is None else wafer


def _pe(trace: Trace, request: InspectRequest) -> Facts:
    assert request.pe is not None
    wafer, wafers = _wafer_of(request.pe, request.wafer_index), trace.header.wafers
    if wafer is None and wafers > 1:
        message = f"--pe {request.pe}: {trace.path} has {wafers} wafers; say which, such as --pe 0:{request.pe}"
        raise BadInput(message)
    _, row, col = pe_place(request.pe)
    return {"pe": pe_facts(trace, wafer or 0, row, col)}


def _top(request: InspectRequest) -> int | None:
    return DEFAULT_TOP.get(request.view) if request.top is None else request.top


def _summary(trace: Trace, request: InspectRequest) -> Facts:
    return summary_facts(trace, _top(request) or 0)


def _steps(trace: Trace, request: InspectRequest) -> Facts:
    order = request.sort or "cycles"
    return {"sort": order, "steps": step_facts(Work(trace), order, _top(request))}


def _by(trace: Trace, request: InspectRequest) -> Facts:
    assert request.by is not None
    work = Work(trace)
    return {"by": request.by, "phases": work.phases(), "groups": group_facts(work, request.by, _top(request))}


def _links(trace: Trace, request: InspectRequest) -> Facts:
    return {"links": busiest_links(trace, _top(request) or 0), "layer_links": layer_links(trace)}


def _tokens(trace: Trace, request: InspectRequest) -> Facts:
    return {"tokens": token_rows(trace, _top(request))}


def _tree(trace: Trace, _: InspectRequest) -> Facts:
    work = Work(trace)
    return {"phases": work.phases(), "tree": tree_facts(work)}


def _cycles(trace: Trace, request: InspectRequest) -> Facts:
    assert request.cycles is not None
    return wavelet_facts(trace, cycle_range(request.cycles))


def _tensors(trace: Trace, _: InspectRequest) -> Facts:
    return {"tensors": tensor_facts(trace)}


_FACTS: Final[dict[str, Callable[[Trace, InspectRequest], Facts]]] = {
    "summary": _summary,
    "steps": _steps,
    "by": _by,
    "links": _links,
    "pe": _pe,
    "tokens": _tokens,
    "tree": _tree,
    "cycles": _cycles,
    "tensors": _tensors,
}

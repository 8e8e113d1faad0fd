"""Dispatch to experts on other wafers and back: from a layer's region to the stage on all wafers, on the same PEs.

What tokens chose goes to every wafer, their vectors to those that hold chosen experts, whose sums come back; each wafer
gets the vectors of all tokens of a pass or of none. On the layer's own wafer words move inside of PEs. Source: the
all-to-all of GShard (Lepikhin et al., arXiv 2006.16668), with one wafer on one side.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wse.compiler.lowering.context import Context
from wse.compiler.lowering.sums import all_reduce, cross_wafers
from wse.compiler.symbolic import SymBuffer
from wse.number_formats import ELEMENT_BYTES
from wse.program.steps import COLUMNS, ROWS
from wse.program.transfers.patterns import FROM_CHOSEN, TO_CHOSEN
from wse.program.transfers.stage_streams import HandOver
from wse_mappings.patterns.between_wafers import wafer_multicast, wafer_reduce
from wse_mappings.patterns.k_tree import k_tree, root_of
from wse_mappings.patterns.multicast import multicast
from wse_mappings.schedule import Arrival


def expert_stage(c: Context) -> int | None:
    """Return the stage of experts that are not on the stages of their layers."""
    return next((stage for stage, plan in enumerate(c.plans) if plan.experts), None)


@contextmanager
def at_experts(c: Context) -> Iterator[None]:
    """Add the steps inside on the stage of experts, if there is one, and return."""
    home, target = c.builder.stage, expert_stage(c)
    c.builder.stage = home if target is None else target
    yield
    c.builder.stage = home


def dispatch(c: Context, vectors: SymBuffer, chosen: tuple[SymBuffer, SymBuffer]) -> None:
    """Send vectors, ids and weights of the chosen experts from the layer's stage to every PE of the experts' stage."""
    if expert_stage(c) is None:
        return
    wafer, payload = c.plans[c.builder.stage].wafer, c.tokens * c.spec.hidden_size
    sources = [(buffer, _elements(c, buffer, vectors)) for buffer in (*chosen, vectors)]
    targets = [_expert_copy(c, buffer, elements) for buffer, elements in sources]
    with at_experts(c):
        cols, rows, wafers, width = c.cut.cols, c.cut.rows, c.cut.span, c.cut.cols_of_wafer
        across = c.patterns.get(wafer_multicast, cols, rows, wafers, wafer, width - 1, 0)
        along, down = c.patterns.get(multicast, cols, rows, 0, wafers), c.patterns.get(multicast, rows, cols, 0)
        for buffer, (_, elements) in zip(targets, sources, strict=True):
            of_tokens = buffer is targets[-1]
            cross_wafers(
                c,
                buffer,
                across,
                elements,
                source_col=width - 1,
                target_col=0,
                payload=(payload if of_tokens else elements) * ELEMENT_BYTES[c.options.element_type(buffer.view)],
                only_row=None if of_tokens else 0,
                latencies=int(of_tokens),  # one for all that goes
                by_choice=TO_CHOSEN if of_tokens else 0,
            )
        with c.builder.loop(1), c.builder.overlap():  # steps run together inside of loops
            for buffer, (_, elements) in zip(targets, sources, strict=True):
                c.builder.line(along, ROWS, buffer, elements, only_row=None if buffer is targets[-1] else 0)
        with c.builder.loop(1), c.builder.overlap():
            for buffer, (_, elements) in list(zip(targets, sources, strict=True))[:-1]:
                c.builder.line(down, COLUMNS, buffer, elements)


def combine(c: Context, out: SymBuffer, elements: int) -> None:
    """Add the columns' parts at ``out`` on the experts' stage, and send the sum to the layer's stage."""
    home = c.builder.stage
    if expert_stage(c) is None:
        all_reduce(c, ROWS, out, elements, over_rows=c.tokens * c.spec.hidden_size)
        return
    wafer, own_cols, result = c.plans[home].wafer, c.cut.cols, c.temp(out.name, elements, out.view)
    payload = c.tokens * c.spec.hidden_size * ELEMENT_BYTES[c.options.element_type(out.view)]
    with at_experts(c):
        cols, rows, wafers, width = c.cut.cols, c.cut.rows, c.cut.span, c.cut.cols_of_wafer
        segments, groups = tuple((index * width, width) for index in range(wafers)), c.groups(width)
        place = root_of(width, groups)
        reduce_ = c.patterns.get(k_tree, cols, rows, Arrival.ADD, broadcast=False, segments=segments, groups=groups)
        c.builder.line(reduce_, ROWS, out, elements)
        whole = c.temp(f"of_all_wafers_{out.view}", elements, out.view, "buffers")
        cross_wafers(
            c,
            out,
            c.patterns.get(wafer_reduce, cols, rows, wafers, wafer, place),
            elements,
            source_col=place,
            target_col=place,
            payload=payload,
            target=whole,
            by_choice=FROM_CHOSEN,
        )
        _copy(c, whole, result, elements, home, wafer * width + place, place, cols=1)
    c.builder.line(c.patterns.get(multicast, own_cols, c.cut.rows, place), ROWS, result, elements)


def _elements(c: Context, buffer: SymBuffer, vectors: SymBuffer) -> int:
    assert c.spec.experts is not None
    return c.tokens * (c.cut.hidden_per_pe if buffer is vectors else c.spec.experts.active)


def _expert_copy(c: Context, buffer: SymBuffer, elements: int) -> SymBuffer:
    """Return a copy of a buffer of the layer's stage on the experts' stage, on the PEs of the layer's wafer."""
    wafer, cols = c.plans[c.builder.stage].wafer, c.cut.cols
    with at_experts(c):
        target = c.temp(buffer.name, elements, buffer.view)
        stage = c.builder.stage
    _copy(c, buffer, target, elements, stage, 0, wafer * cols, cols=cols)
    return target


def _copy(
    c: Context, source: SymBuffer, target: SymBuffer, elements: int, stage: int, leave: int, enter: int, *, cols: int
) -> None:
    """Copy from the current stage to another one on the same PEs."""
    c.builder.transfer(
        HandOver,
        source,
        target=target,
        elements=elements,
        target_stage=stage,
        source_col=leave,
        target_col=enter,
        cols=cols,
        stride=1,
    )

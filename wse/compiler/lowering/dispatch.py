"""Dispatch of tokens to experts on other wafers, and combination of the results.

With mapping ``expert``, the experts of all layers form one stage over all wafers, on the PEs that
also store the layers. On the layer's own wafer, words therefore stay inside PEs. The selected ids
and weights are sent to every wafer. Hidden vectors are sent to the wafers that have selected
experts, which send their sums back. A wafer gets the vectors of either all tokens or none. Source:
the all-to-all of GShard (Lepikhin et al., arXiv 2006.16668), with one wafer on one side.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wse.compiler.lowering.phase.context import Context
from wse.compiler.lowering.sums import all_reduce, cross_wafers
from wse.compiler.symbolic import SymBuffer
from wse.program.steps import COLUMNS, ROWS
from wse.program.transfers.patterns import FROM_CHOSEN, TO_CHOSEN
from wse.program.transfers.stage_streams import StageTransfer
from wse_mappings.patterns.k_tree import k_tree, root_of
from wse_mappings.patterns.multicast import multicast
from wse_mappings.patterns.wafer_collectives import wafer_multicast, wafer_reduce
from wse_mappings.schedule import Arrival


def expert_stage(c: Context) -> int | None:
    """Return the index of the stage that stores the experts of all layers, or None.

    A stage is a part of the model that is stored on a group of PEs. Only the mapping strategy
    ``expert`` has one stage for all experts, on the PEs of all wafers; otherwise the result is
    None.
    """
    return next((stage for stage, plan in enumerate(c.plans) if plan.experts), None)


@contextmanager
def at_experts(c: Context) -> Iterator[None]:
    """Add the steps of a ``with`` block to the stage that stores the experts of all layers, if any.

    If no such stage exists, the steps are added to the stage of the layer.
    """
    home, target = c.builder.stage, expert_stage(c)
    c.builder.stage = home if target is None else target
    yield
    c.builder.stage = home


def dispatch(c: Context, vectors: SymBuffer, choice: tuple[SymBuffer, SymBuffer]) -> None:
    """Add the steps that send hidden vectors and selected experts to the PEs with the experts.

    This is necessary only if one stage (the expert stage) stores the experts of all layers on the
    PEs of all wafers; otherwise no step is added.

    1. Copy everything to the expert stage on the PEs of the layer's wafer.
    2. Send the hidden vectors to the wafers that store selected experts, and the selection to all
       wafers.
    3. Multicast along the rows of each wafer: hidden vectors on every row, the selection on the
       first row only.
    4. Multicast the selection along the columns.

    Args:
        c: Context of the phase being lowered, on the layer's stage.
        vectors: Hidden vectors.
        choice: Ids and weights of the selected experts.
    """
    if expert_stage(c) is None:
        return
    assert c.spec.experts is not None
    wafer, payload = c.plans[c.builder.stage].wafer, c.tokens * c.spec.hidden_size
    sources = [(buffer, c.tokens * c.spec.experts.active) for buffer in choice]
    sources.append((vectors, c.tokens * c.cut.hidden_per_pe))
    targets = [(_expert_copy(c, buffer, elements), elements) for buffer, elements in sources]  # 1
    with at_experts(c):
        cols, rows, wafers, width = c.cut.cols, c.cut.rows, c.cut.span, c.cut.cols_of_wafer
        multicast_over_wafers = c.patterns.get(wafer_multicast, cols, rows, wafers, wafer, width - 1, 0)
        multicast_along_rows = c.patterns.get(multicast, cols, rows, 0, wafers)
        multicast_along_columns = c.patterns.get(multicast, rows, cols, 0)
        for buffer, elements in targets:  # 2
            is_vectors = buffer is targets[-1][0]
            cross_wafers(
                c,
                buffer,
                multicast_over_wafers,
                elements,
                (width - 1, 0),
                (payload if is_vectors else elements) * c.options.element_bytes(buffer.view),
                only_row=None if is_vectors else 0,
                latencies=int(is_vectors),  # one latency for the three transfers, which follow each other
                by_choice=TO_CHOSEN if is_vectors else 0,
            )
        with c.builder.loop(1), c.builder.overlap():  # 3; overlap groups must be inside a loop
            for buffer, elements in targets:
                only_row = None if buffer is targets[-1][0] else 0
                c.builder.line(multicast_along_rows, ROWS, buffer, elements, only_row=only_row)
        with c.builder.loop(1), c.builder.overlap():  # 4
            for buffer, elements in targets[:-1]:
                c.builder.line(multicast_along_columns, COLUMNS, buffer, elements)


def combine(c: Context, out: SymBuffer, elements: int) -> None:
    """Add up the contributions of all columns of PEs to the output of the experts.

    If the layer's own stage stores its experts, this is an all-reduce along rows. If a separate
    stage stores the experts of all layers, the sum is sent back to the layer's stage.

    Args:
        c: Context of the phase being lowered, on the layer's stage.
        out: Buffer with the contribution of each column, on the stage that stores the experts.
        elements: Elements per PE.
    """
    home = c.builder.stage
    if expert_stage(c) is None:
        all_reduce(c, ROWS, out, elements, over_rows=c.tokens * c.spec.hidden_size)
        return
    wafer, own_cols, result = c.plans[home].wafer, c.cut.cols, c.temp(out.name, elements, out.view)
    payload = c.tokens * c.spec.hidden_size * c.options.element_bytes(out.view)
    with at_experts(c):
        cols, rows, wafers, width = c.cut.cols, c.cut.rows, c.cut.span, c.cut.cols_of_wafer
        segments, groups = tuple((index * width, width) for index in range(wafers)), c.groups(width)
        place = root_of(width, groups)
        reduce_ = c.patterns.get(k_tree, cols, rows, Arrival.ADD, broadcast=False, segments=segments, groups=groups)
        c.builder.line(reduce_, ROWS, out, elements)
        total = c.temp(f"of_all_wafers_{out.view}", elements, out.view, "buffers")
        wafer_sum = c.patterns.get(wafer_reduce, cols, rows, wafers, wafer, place)
        cross_wafers(c, out, wafer_sum, elements, (place, place), payload, by_choice=FROM_CHOSEN, target=total)
        _copy(c, total, result, elements, home, wafer * width + place, place, cols=1)
    c.builder.line(c.patterns.get(multicast, own_cols, c.cut.rows, place), ROWS, result, elements)


def _expert_copy(c: Context, buffer: SymBuffer, elements: int) -> SymBuffer:
    """Copy a buffer from the layer's stage to the expert stage on the same PEs.

    The expert stage stores the experts of all layers. Stages on the same PEs have separate
    buffers.

    Args:
        c: Context of the phase being lowered, on the layer's stage.
        buffer: The buffer to copy.
        elements: Elements per PE.

    Returns:
        The buffer with the copy.
    """
    wafer, cols = c.plans[c.builder.stage].wafer, c.cut.cols
    with at_experts(c):
        target = c.temp(buffer.name, elements, buffer.view)
        stage = c.builder.stage
    _copy(c, buffer, target, elements, stage, 0, wafer * cols, cols=cols)
    return target


def _copy(
    c: Context, source: SymBuffer, target: SymBuffer, elements: int, stage: int, leave: int, enter: int, *, cols: int
) -> None:
    """Add a step that copies a buffer from the current stage to another stage on the same PEs.

    Args:
        c: Context of the phase being lowered.
        source: Buffer on the current stage.
        target: Buffer on the other stage.
        elements: Elements per PE.
        stage: Index of the other stage.
        leave: First column to copy, counted from the first column of the current stage.
        enter: The same column of PEs, counted from the first column of the other stage.
        cols: Number of columns.
    """
    c.builder.transfer(
        StageTransfer,
        source,
        target=target,
        elements=elements,
        target_stage=stage,
        source_col=leave,
        target_col=enter,
        cols=cols,
        stride=1,
    )

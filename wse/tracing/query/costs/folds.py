"""Combination of equivalent rows. Most layers of a model cost the same and are reported together.

Rows are equal if they belong to the same phase and the same op within its layer (``gate_up`` of
``layers.3.gate_up``), and if their cycles over the run are equal *for each cause*, to the cycle.
Equivalent steps must also have the same kernel or pattern and the same number of executions.

There is no tolerance. Layers that were compiled for identical regions cost exactly the same,
because each class of steps is timed only once. Any difference, however small, is due to another
region, another neighbour or a window over the cache, and that is what a reader looks for. The
length of the cache makes no difference: cycles are summed over all tokens, and all layers process
the same tokens.

Words and hops may differ between equivalent rows. They depend on which rows of PEs store the cache,
which does not affect the cycles.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from wse.reports.number_text import count, index_range
from wse.reports.terminal import printable
from wse.tracing.query.costs.step_sums import StepSums
from wse_traces.reader.groups import distinct_rows, group_sums
from wse_traces.reader.read import Array, Columns, Trace
from wse_traces.schema import CAUSES

CAUSE_COLUMNS: Final = tuple(f"{cause}_cycles" for cause in CAUSES)
SUMMED: Final = ("times", "cycles", "words", "hops", *CAUSE_COLUMNS)

Ranges = tuple[tuple[int, int], ...]
"""Ranges of consecutive numbers, each given by its first and last number, in ascending order."""


def consecutive_ranges(numbers: Iterable[int]) -> Ranges:
    """Combine consecutive numbers into ranges, each specified by its first and last number.

    >>> consecutive_ranges([3, 0, 1, 2, 7, 7])
    ((0, 3), (7, 7))
    """
    folded: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if folded and folded[-1][1] == number - 1:
            folded[-1] = folded[-1][0], number
        else:
            folded.append((number, number))
    return tuple(folded)


def op_in_layer(name: str, layer: int) -> str:
    """Return the name of an op without its layer prefix.

    >>> op_in_layer("layers.3.gate_up", 3), op_in_layer("head", -1)
    ('gate_up', 'head')
    """
    return name.removeprefix(f"layers.{layer}.")


class OpNumbers:
    """Numbers for the ops of a model. The same op has the same number in every layer.

    For example, ``layers.0.qkv`` and ``layers.1.qkv`` have the same number if they are of the same
    kind. ``number`` and ``layer`` have an extra entry at the end, for steps that belong to no op.

    Attributes:
        number: int64 ``[op + 1]``: number of each op.
        names: For each number, the name of the op within its layer, or "" if there is no op.
        kinds: For each number, the kind of op, or "" if there is no op.
        layer: int64 ``[op + 1]``: layer of each op, or -1 outside the layers.
    """

    def __init__(self, trace: Trace) -> None:
        """Read the ops of a trace.

        Raises:
            TraceError: The trace is damaged.
        """
        numbers: dict[tuple[str, str], int] = {}
        records = trace.records("op")
        keys = [(op_in_layer(record["name"], record["layer"]), record["kind"]) for record in records] + [("", "")]
        self.number: Array = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
        self.names: list[str] = [name for name, _ in numbers]
        self.kinds: list[str] = [kind for _, kind in numbers]
        self.layer: Array = np.array([record["layer"] for record in records] + [-1], np.int64)

    def rows(self, op: Array) -> Array:
        """Replace invalid op indices, so that the result can index ``number`` and ``layer``.

        A step without an op has an invalid index. It is replaced by the index of the extra entry
        at the end of these arrays.

        Args:
            op: int ``[step]``: index of each step's op.
        """
        no_op = len(self.number) - 1
        return np.where((op >= 0) & (op < no_op), op, no_op)


def fold_steps(sums: StepSums) -> tuple[Columns, list[Ranges]]:
    """Combine equivalent steps into one row, usually the same step in several layers.

    Steps are equivalent if they have the same phase, op within the layer, kernel and number of
    executions, and the same cycles for each cause, such as hops. The function proceeds as follows:

    1. Group the equivalent steps, and find the step of each group that starts first.
    2. Sort the groups by the cycles of their costliest step, in descending order.
    3. Sum executions, cycles, words and hops over each group. All other columns are taken from the
       group's first step.

    Returns:
        The table of combined steps, as columns keyed by name, such as ``cycles`` and ``count`` (the
        number of steps in the row); and the layers of each row, as ranges.
    """
    # 1. Groups
    steps, ops = sums.steps, OpNumbers(sums.trace)
    number = ops.number[ops.rows(steps["op"])]
    keys = [steps["phase"], number, steps["kind"], steps["name"], steps["times"]]
    _, group = distinct_rows([*keys, *(steps[name] for name in CAUSE_COLUMNS)])
    rows = int(group.max(initial=-1)) + 1
    by_start = np.lexsort((np.arange(len(group)), steps["start_cycle"], group))
    first = by_start[np.searchsorted(group[by_start], np.arange(rows))]
    # 2. Order
    top = np.full(rows, len(group))
    np.minimum.at(top, group, np.arange(len(group)))
    order = np.argsort(top, kind="stable")
    # 3. Sums
    folded = {name: column[first][order] for name, column in steps.items()}
    for name in SUMMED:
        folded[name] = group_sums(steps[name], group, rows)[order]
    folded["count"] = np.bincount(group, minlength=rows)[order]
    layers = layers_by_group(steps["layer"], group, rows)
    return folded, [layers[at] for at in order.tolist()]


def layers_by_group(layer: Array, group: Array, groups: int) -> list[Ranges]:
    """Return the layers that occur in each group, as ranges.

    Rows outside the layers are ignored.

    Args:
        layer: int ``[n]``: layer of each row, negative outside the layers.
        group: int ``[n]``: group of each row.
        groups: Number of groups.
    """
    pairs, _ = distinct_rows([group[layer >= 0], layer[layer >= 0]])
    ends = np.searchsorted(pairs[:, 0], np.arange(groups + 1))
    numbers = pairs[:, 1].tolist()
    return [consecutive_ranges(numbers[ends[at] : ends[at + 1]]) for at in range(groups)]


MAX_RANGES: Final = 6
"""Maximum number of layer ranges in a phrase. If there are more, the middle ones are omitted."""


def op_text(op: str, layers: Ranges, ops: int) -> str:
    """Format an op's name, the number of equivalent ops that are combined, and their layers.

    Args:
        op: Name of the op within its layer. Empty means no op.
        layers: First and last layer of each range of consecutive layers.
        ops: Number of ops that are combined because they have equal cycles.

    >>> op_text("gate_up", ((0, 79),), 80), op_text("head", (), 1), op_text("norm", ((3, 3),), 1)
    ('gate_up ×80, layers 0–79', 'head', 'norm, layer 3')
    """
    times = f" ×{count(ops)}" if ops > 1 else ""
    return f"{printable(op) or 'no op'}{times}{f', {layers_text(layers)}' if layers else ''}"


def equal_layers_text(layers: Ranges, number: int) -> str:
    """Format layer ranges, with the number of layers if there are several.

    >>> equal_layers_text(((0, 8), (71, 79)), 18), equal_layers_text(((3, 3),), 1)
    ('layers 0–8, 71–79 ×18', 'layer 3')
    """
    return f"{layers_text(layers)}{f' ×{count(number)}' if number > 1 else ''}"


def layers_text(layers: Ranges) -> str:
    """Format layer ranges, each specified by its first and last layer.

    >>> layers_text(((3, 3),)), layers_text(((0, 8), (71, 79))), layers_text(((1, 1), (4, 5)))
    ('layer 3', 'layers 0–8, 71–79', 'layers 1, 4–5')
    """
    if len(layers) == 1 and layers[0][0] == layers[0][1]:
        return f"layer {layers[0][0]}"
    texts = [index_range(*layer_range) for layer_range in layers]
    if len(texts) > MAX_RANGES:
        texts = [*texts[: MAX_RANGES - 2], f"… {texts[-1]}"]
    return f"layers {', '.join(texts)}"

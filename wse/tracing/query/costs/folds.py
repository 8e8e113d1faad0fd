"""Folds: equal rows of a table as one, so that the layers of a model, which mostly cost the same, are reported once.

Rows are equal where they are of one phase and of one op within its layer (``gate_up`` of ``layers.3.gate_up``; for
steps also of one kernel or pattern, and executed as often) and their cycles over the run are equal *in each cause*,
to the cycle. There is no tolerance: layers that were compiled for equal regions cost exactly the same, since a class of
steps is timed once; a difference, however small, is another region, another neighbour or a window over the cache, which
is what one looks for. Nor does the length of the cache keep equal layers apart, as cycles are summed over all tokens,
and all layers see the same ones. Words and hops do not count: where rows of the cache lie changes them, and no cycle.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from wse.tracing.query.costs.step_sums import StepSums
from wse_traces.groups import distinct_rows, group_sums
from wse_traces.read import Array, Columns, Trace
from wse_traces.schema import CAUSES

CAUSE_COLUMNS: Final = tuple(f"{cause}_cycles" for cause in CAUSES)
SUMMED: Final = ("times", "cycles", "words", "hops", *CAUSE_COLUMNS)

Stretches = tuple[tuple[int, int], ...]
"""Whole numbers, ascending, as the first and last of each stretch without a gap."""


def stretches(numbers: Iterable[int]) -> Stretches:
    """Return the distinct numbers as ranges.

    >>> stretches([3, 0, 1, 2, 7, 7])
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
    """Return the name of an op without its layer.

    >>> op_in_layer("layers.3.gate_up", 3), op_in_layer("head", -1)
    ('gate_up', 'head')
    """
    return name.removeprefix(f"layers.{layer}.")


class LayerOps:
    """The ops of a trace, with ops of several layers under one number, and one more entry for no op.

    Attributes:
        number: The number of each op, int64 ``[op + 1]``.
        names: The name of each number within its layer.
        kinds: The kind of op of each number; both are empty for no op.
        layer: The layer of each op, int64 ``[op + 1]``; -1: outside of the layers.
    """

    def __init__(self, trace: Trace) -> None:
        """Raises: TraceError if the trace is damaged."""
        numbers: dict[tuple[str, str], int] = {}
        records = trace.records("op")
        keys = [(op_in_layer(record["name"], record["layer"]), record["kind"]) for record in records] + [("", "")]
        self.number: Array = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
        self.names: list[str] = [name for name, _ in numbers]
        self.kinds: list[str] = [kind for _, kind in numbers]
        self.layer: Array = np.array([record["layer"] for record in records] + [-1], np.int64)

    def rows(self, op: Array) -> Array:
        """Return the ops of steps as rows of ``number``; steps without an op have the last row."""
        none = len(self.number) - 1
        return np.where((op >= 0) & (op < none), op, none)


def fold_steps(sums: StepSums) -> tuple[Columns, list[Stretches]]:
    """Return the steps of a trace with equal ones as one row, and the layers of each row.

    Returns:
        The columns of ``StepSums.steps``: times, cycles, words and hops of all steps of a row together, the rest of the
        one that started first; and ``count``, how many they are. The rows have the order of their first steps.
    """
    steps, ops = sums.steps, LayerOps(sums.trace)
    number = ops.number[ops.rows(steps["op"])]
    keys = [steps["phase"], number, steps["kind"], steps["name"], steps["times"]]
    _, group = distinct_rows([*keys, *(steps[name] for name in CAUSE_COLUMNS)])
    rows = int(group.max(initial=-1)) + 1
    by_start = np.lexsort((np.arange(len(group)), steps["start_cycle"], group))
    first = by_start[np.searchsorted(group[by_start], np.arange(rows))]
    top = np.full(rows, len(group))
    np.minimum.at(top, group, np.arange(len(group)))
    order = np.argsort(top, kind="stable")
    folded = {name: column[first][order] for name, column in steps.items()}
    for name in SUMMED:
        folded[name] = group_sums(steps[name], group, rows)[order]
    folded["count"] = np.bincount(group, minlength=rows)[order]
    layers = layers_by_group(steps["layer"], group, rows)
    return folded, [layers[at] for at in order.tolist()]


def layers_by_group(layer: Array, group: Array, groups: int) -> list[Stretches]:
    """Return the layers of the rows of each group, without rows outside of layers."""
    pairs, _ = distinct_rows([group[layer >= 0], layer[layer >= 0]])
    ends = np.searchsorted(pairs[:, 0], np.arange(groups + 1))
    numbers = pairs[:, 1].tolist()
    return [stretches(numbers[ends[at] : ends[at + 1]]) for at in range(groups)]

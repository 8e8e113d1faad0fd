"""Print-out of ``wse inspect --tree``: the ops of a model under their layers, with their cycles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import Console

from wse.reports.table import Column, Table
from wse.reports.terminal import bar, count, percent, printable
from wse.reports.terminal_table import print_table
from wse.tracing.print.folds import layers_text
from wse.tracing.query.costs.folds import consecutive_ranges, op_in_layer
from wse.tracing.query.costs.step_sums import cycle_fraction
from wse.tracing.query.costs.tree import LayerOps, TreeView


class _Line(NamedTuple):
    """Row in the printed op tree: an op, a layer, or several layers with equal cycles.

    Attributes:
        name: Display name.
        cycles: Mean cycles per pass.
        is_layer: Whether the row represents one or several layers.
    """

    name: str
    cycles: float
    is_layer: bool


def print_tree(console: Console, view: TreeView, *, each_layer: bool = False) -> None:
    """Print a tree of a model's ops, grouped under their layers, with their cycles.

    Args:
        console: Console to print to.
        view: Layers and ops, with their cycles.
        each_layer: Whether to print every layer. Otherwise, layers with equal cycles are combined.
    """
    phase = "decode" if "decode" in view.phases else "prefill"
    total = view.phases[phase].cycles_per_pass if phase in view.phases else 0.0
    width = 20 if console.width < 90 else 36
    table = Table(
        title="Ops",
        note="cycles of a generated token" if phase == "decode" else "cycles of a mean chunk of the prompt",
        columns=(
            Column(key="name", cell=lambda line: line.name, wraps=True, min_width=24),
            Column(key="cycles", cell=lambda line: count(line.cycles), numeric=True),
            Column(key="share", cell=lambda line: percent(cycle_fraction(line.cycles, total)), numeric=True),
            Column(key="bar", cell=lambda line: bar(cycle_fraction(line.cycles, total), width, _colour(line))),
        ),
        rows=list(_lines(view.tree, phase, each_layer=each_layer)),
        style=lambda line: "bold" if line.is_layer else "",
    )
    print_table(console, table)


def _colour(line: _Line) -> str:
    """Return the name of the colour in which the bar of a row is drawn."""
    return "weights" if line.is_layer else "compute"


def _lines(tree: Sequence[LayerOps], phase: str, *, each_layer: bool) -> Iterator[_Line]:
    """Yield the rows of the tree: each layer, or group of equal layers, followed by its ops.

    Args:
        tree: Layers with their ops.
        phase: Phase whose cycles are shown.
        each_layer: Whether to list every layer. Otherwise, layers with equal cycles are combined.
    """
    for layers in [[layer] for layer in tree] if each_layer else _fold_layers(tree):
        layer = layers[0]
        is_layer = layer.layer >= 0  # ops outside of the layers, such as the head, have no parent row
        if is_layer:
            names = layers_text(consecutive_ranges(member.layer for member in layers))
            yield _Line(f"each of {names}" if len(layers) > 1 else names, getattr(layer, phase), is_layer=True)
        for index, op in enumerate(layer.ops):
            branch = ("└─ " if index == len(layer.ops) - 1 else "├─ ") if is_layer else ""
            yield _Line(f"{branch}{printable(op_in_layer(op.op, layer.layer))}", getattr(op, phase), is_layer=False)


def _fold_layers(tree: Sequence[LayerOps]) -> list[list[LayerOps]]:
    """Combine layers whose ops have the same cycles into groups, each of which is printed once.

    Groups are ordered by their first layer.
    """
    folded: dict[object, list[LayerOps]] = {}
    for index, layer in enumerate(tree):
        costs = tuple((op_in_layer(op.op, layer.layer), op.prefill, op.decode, op.verify) for op in layer.ops)
        folded.setdefault(costs if layer.layer >= 0 else index, []).append(layer)
    return list(folded.values())

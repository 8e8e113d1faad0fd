"""Print-out of ``wse inspect --tree``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import Console

from wse.inspect.query.tree import LayerOps, TreeView
from wse.report.table import Column, Table
from wse.report.terminal import bar, count, percent, printable
from wse.report.terminal_table import print_table


class _Line(NamedTuple):
    """A line of the tree: a layer, or some that cost the same, or an op."""

    name: str
    cycles: float
    is_layer: bool


def print_tree(console: Console, view: TreeView) -> None:
    """Print the ops under their layers; consecutive layers that cost the same are one."""
    phase = "decode" if "decode" in view.phases else "prefill"
    total = sum(getattr(layer, phase) for layer in view.tree) or 1.0
    width = 20 if console.width < 90 else 36
    table = Table(
        title="Ops",
        note="cycles of a generated token" if phase == "decode" else "cycles of a mean chunk of the prompt",
        columns=(
            Column(key="name", cell=lambda line: line.name),
            Column(key="cycles", cell=lambda line: count(line.cycles), numeric=True),
            Column(key="share", cell=lambda line: percent(line.cycles / total), numeric=True),
            Column(key="bar", cell=lambda line: bar(line.cycles / total, width, _colour(line))),
        ),
        rows=list(_lines(view.tree, phase)),
        style=lambda line: "bold" if line.is_layer else "",
    )
    print_table(console, table)


def _colour(line: _Line) -> str:
    return "weights" if line.is_layer else "compute"


def _lines(tree: Sequence[LayerOps], phase: str) -> Iterator[_Line]:
    for layer, last in _fold_layers(tree):
        inside = layer.layer >= 0
        if inside:
            name = f"layer {last}" if last == layer.layer else f"each of layers {layer.layer} to {last}"
            yield _Line(name, getattr(layer, phase), is_layer=True)
        for index, op in enumerate(layer.ops):
            branch = ("└─ " if index == len(layer.ops) - 1 else "├─ ") if inside else ""
            name = printable(op.op).removeprefix(f"layers.{layer.layer}.")
            yield _Line(f"{branch}{name}", getattr(op, phase), is_layer=False)


def _fold_layers(tree: Sequence[LayerOps]) -> list[tuple[LayerOps, int]]:
    """The tree's layers, consecutive ones that cost the same as the first of them, and the last that it stands for."""
    folded: list[tuple[LayerOps, int]] = []
    for layer in tree:
        before = folded[-1][0] if folded else None
        if before is not None and min(layer.layer, before.layer) >= 0 and _costs(layer) == _costs(before):
            folded[-1] = before, layer.layer
        else:
            folded.append((layer, layer.layer))
    return folded


def _costs(layer: LayerOps) -> list[tuple[float, float]]:
    return [(op.prefill, op.decode) for op in layer.ops]

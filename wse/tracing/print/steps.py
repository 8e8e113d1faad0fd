"""Output of ``wse inspect --steps``, ``--by`` and ``--tree``: cycles by step, key or op."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from rich.console import Console

from wse.reports.number_text import count, percent, plural, short_number
from wse.reports.table import Column, Table, number
from wse.reports.terminal import bar, heading, lines, printable
from wse.reports.terminal_table import print_table
from wse.tracing.query.costs.folds import consecutive_ranges, equal_layers_text, layers_text, op_in_layer, op_text
from wse.tracing.query.costs.groups import Group, GroupsView
from wse.tracing.query.costs.step_sums import cycle_fraction
from wse.tracing.query.costs.steps import Step, StepsView
from wse.tracing.query.costs.tree import LayerOps, TreeView

TRANSFERS: Final = {"host": "host transfer", "crossing": "wafer transfer"}
"""Names of the transfers between wafers or with the host, by the cause of most of their cycles."""
ORDER_TEXTS: Final = {
    "cycles": "those with the most cycles first",
    "words": "those that send the most words first",
    "hops": "those whose wavelets cross the most links first",
    "hops-cycles": "those with the most cycles of hops first",
    "start": "the earliest first",
}
"""Description of each order, except for causes: those with the most cycles of the cause first."""


def print_steps(console: Console, view: StepsView) -> None:
    """Print a table of the executed steps in the order that the user requested."""
    order = ORDER_TEXTS.get(view.sort, f"those with the most cycles of {view.sort} first")
    print_table(console, step_table(view.steps, view.sort, title="Steps", note=f"summed over the run, {order}"))
    if not view.steps:
        lines(console, [("none", "")])


def step_table(steps: Sequence[Step], order: str = "cycles", *, title: str, note: str) -> Table:
    """Return a table with a row for each step or each group of equivalent steps.

    Args:
        steps: Steps in display order.
        order: What the steps are sorted by: a column, a cause, or a cause followed by ``-cycles``.
            The number by which they are sorted is always shown, even on a narrow terminal.
        title: Title of the table.
        note: Remark after the title.
    """
    spare = {"words": 3, "hops": 4, "times": 2, "mostly": 1 if order == "cycles" else 5, order: 0}
    columns = (
        Column(key="phase", title="phase"),
        Column(key="op", title="op", cell=_op, wraps=True, min_width=15),
        Column(key="name", title="kernel/pattern", cell=_kernel_or_pattern, wraps=True, min_width=14),
        number("times", "times", priority=spare["times"]),
        number("cycles", "cycles"),
        number("fraction", "share", percent),
        *_order_columns(order),
        number("words", "words sent", short_number, priority=spare["words"]),
        number("hops", "word hops", short_number, priority=spare["hops"]),
        Column(key="mostly", title="main cause", priority=spare["mostly"]),
    )
    return Table(columns=columns, rows=steps, title=title, note=note, footer=_kernel_footer(steps))


def _kernel_footer(steps: Sequence[Step]) -> list[tuple[str, str]]:
    """Return footer lines that explain the columns of a table of steps; empty without steps."""
    text = "what PEs compute (kernel, see docs/reference/kernels.md), or how they exchange words (pattern)"
    if not steps:
        return []
    if any(step.name.endswith("_share") for step in steps):
        text += "; _share: each PE of a group computes some of the values, and a sum over the group collects them"
    words = [("words sent", "32-bit words that PEs send"), ("word hops", "links that all these words cross")]
    return [("kernel/pattern", text), *words]


def _op(step: Step) -> str:
    """Format the op of a step and its layers. A row can combine equal steps of several layers."""
    return op_text(op_in_layer(step.op, step.layer), step.layers, step.count)


def _kernel_or_pattern(step: Step) -> str:
    """Return the name of a step's kernel or communication pattern, for the table of steps.

    A transfer to another wafer or the host is called "wafer transfer" or "host transfer". The name
    depends on whether wafer links or the host cause most of its cycles.
    """
    return TRANSFERS.get(step.mostly, step.name) if step.kind == "cross" else printable(step.name)


def _order_columns(order: str) -> list[Column]:
    """Return the column with the number by which steps are sorted, as a list.

    The list is empty if the table has this column anyway.
    """
    if order in ("cycles", "words", "hops"):
        return []
    if order == "start":
        return [number("start_cycle", "first start")]
    cause = order.removesuffix("-cycles")
    return [Column(key=order, title=f"of {cause}", cell=lambda step: count(step.cycles_by[cause]), numeric=True)]


OUTSIDE: Final = "outside of the layers"
MAX_GROUPS: Final = 20
"""Default number of rows to print for each phase."""


def print_groups(console: Console, view: GroupsView, top: int | None) -> None:
    """Print a table for each phase of a run, with the cycle count of each group of steps.

    In the prefill phase, cycle counts are totals over the whole prompt. In other phases, they are
    means per pass. If each group is a token, the cycle counts are those of the token.

    Args:
        console: Console to print to.
        view: Groups of all phases.
        top: Number of groups to print for each phase. None prints ``MAX_GROUPS``.
    """
    row_count = MAX_GROUPS if top is None else top
    width = 8 if console.width < 90 else 12
    for phase, totals in view.phases.items():
        groups = [group for group in view.groups if group.phase == phase]
        passes = plural(totals.passes, "chunk" if phase == "prefill" else "pass" if totals.passes == 1 else "passe")
        is_mean = phase != "prefill" and view.by != "token"
        total_text = "of the whole prompt" if phase == "prefill" else "of each token"
        mean_text = "of a mean pass over several tokens" if phase == "verify" else "of a mean generated token"
        cycles_text = mean_text if is_mean else total_text
        heading(console, f"{phase.capitalize()} by {view.by}", f"{passes}; cycles {cycles_text}")
        columns = _columns(view.by, totals.passes if is_mean else 1, width)
        print_table(console, Table(columns=columns, rows=groups[:row_count]))
        if len(groups) > row_count:
            lines(console, [(f"and {count(len(groups) - row_count)} more", "--top N: more of them; --csv FILE: all")])


def _columns(by: str, passes: int, width: int) -> tuple[Column, ...]:
    """Return the columns of a table that has a row for each group of steps.

    Args:
        by: What the steps are grouped by, such as "op" or "cause".
        passes: Number of passes by which the amounts are divided.
        width: Width of the bars in characters.
    """

    def mean(text: Callable[[float], str], name: str) -> Callable[[Group], str]:
        """Return a function that formats an amount of a group, such as its words, per pass.

        Args:
            text: Function that formats a number.
            name: Field of the group with the amount.
        """
        return lambda group: text(getattr(group, name) / passes)

    columns = (
        Column(key=by, title=by, cell=lambda group: _name(by, group), wraps=True, min_width=24),
        Column(key="cycles", title="cycles", cell=mean(count, "cycles"), numeric=True),
        number("fraction", "share", percent),
        Column(key="bar", cell=lambda group: bar(group.fraction, width, group.cause or "compute"), priority=1),
    )
    if by == "cause":
        return (*columns, Column(key="most_in", title="most of it in", cell=_most_in, wraps=True))
    ops = [number("count", "ops")] if by == "kind" else []
    return (
        *columns,
        *ops,
        Column(key="words", title="words sent", cell=mean(short_number, "words"), numeric=True, priority=2),
        Column(key="hops", title="word hops", cell=mean(short_number, "hops"), numeric=True, priority=3),
        Column(key="mostly", title="main cause"),
    )


def _most_in(group: Group) -> str:
    """Return the op with the most cycles in a group of steps, and its percentage of the cycles.

    The result is "" if the op is unknown.
    """
    return "" if group.most_fraction is None else f"{printable(group.most_in)} {percent(group.most_fraction)}"


def _name(by: str, group: Group) -> str:
    """Return the display name of a group of steps, such as an op, a layer or a token.

    Args:
        by: What the steps are grouped by.
        group: The group.
    """
    if by == "token":
        return _token_name(group)
    if group.layers is not None:
        return _folded_name(by, group)
    if by == "layer" and (group.layer or 0) < 0:
        return OUTSIDE
    if by == "wafer" and (group.wafer or 0) < 0:
        return "the host"
    return printable(getattr(group, by)) or "no op"


def _folded_name(by: str, group: Group) -> str:
    """Return the display name of a group that combines several ops or layers.

    The ops or layers have equal cycles, or the group consists of all ops of one kind.
    """
    layers, number = group.layers or (), group.count or 1
    if by == "layer":
        return equal_layers_text(layers, number) if layers else OUTSIDE
    if by == "kind":
        return printable(group.kind) or "no op"
    return op_text(group.op or "", layers, number)


def _token_name(group: Group) -> str:
    """Return the display name of a pass: the range of its tokens, such as "3-5".

    A single token is shown with its index and text.
    """
    if group.token is None or group.tokens is None or group.token < 0:
        return "no token"
    if group.tokens > 1:
        return f"{group.token}-{group.token + group.tokens - 1}"
    return f"{group.token} {printable(group.text)!r}" if group.text else str(group.token)


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
        each_layer: True to print every layer. False to combine layers with equal cycles.
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
    """Return the colour of a row's bar, which differs between layers and ops."""
    return "weights" if line.is_layer else "compute"


def _lines(tree: Sequence[LayerOps], phase: str, *, each_layer: bool) -> Iterator[_Line]:
    """Yield the rows of the tree: each layer, or group of equivalent layers, followed by its ops.

    Args:
        tree: Layers with their ops.
        phase: Phase whose cycles are shown.
        each_layer: True to list every layer. False to combine layers with equal cycles.
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
    """Combine layers whose ops have the same cycles into groups. Each group is printed once.

    Groups are ordered by their first layer.
    """
    folded: dict[object, list[LayerOps]] = {}
    for index, layer in enumerate(tree):
        costs = tuple((op_in_layer(op.op, layer.layer), op.prefill, op.decode, op.verify) for op in layer.ops)
        folded.setdefault(costs if layer.layer >= 0 else index, []).append(layer)
    return list(folded.values())

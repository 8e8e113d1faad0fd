"""Words on links, broken down by model layer, over all phases of a run.

Traces and the HTML view show them as maps of the busy links of each layer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from wse.arrays import I64
from wse.backends.fabric.expert_costs import Pairs, pairs_by_column
from wse.backends.fabric.links.link_map import (
    COL,
    NOTHING,
    PLANE,
    ROW,
    WORDS,
    ends_of,
    link_map,
    links_of,
    rectangles_of,
    scale_words,
)
from wse.backends.fabric.links.routes import DIRECTIONS, Routes
from wse.backends.fabric.links.traffic import Traffic
from wse.backends.fabric.model import CacheUse, Fabric
from wse.backends.fabric.step_classes import by_slots
from wse.program.phase import Phase
from wse.program.program import Program, Stage
from wse.program.steps import Slots, StepKind, Steps
from wse.program.transfers.transfer_types import TRANSFERS
from wse_mappings.mesh.placement import Rect

Runs = Mapping[tuple[int, Slots, tuple[int, ...]], int]
"""Number of runs of a phase, by phase index and the two parts of a ``CacheUse``."""

Chosen = Mapping[int, Pairs]
"""Selected experts over all runs of a phase, by phase index and layer.

A value is either the number of tokens routed to each expert, int64 ``[experts]``, or the number of
runs that selected experts on each wafer, int64 ``[wafers]``.
"""


_Uses = dict[Slots, tuple[int, list[int]]]
"""Number of runs, and cached tokens before each decode pass of each user, by cache slots in use."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerLinks:
    """Words that a layer sends over the links of one wafer.

    Layers with the same word count on every link share one object.

    Attributes:
        layers: Layers of the model, ascending; -1 stands for ops outside of layers.
        wafer: Index of the wafer.
        rect: Bounding box of the sending region and all links with words. If PEs are dead, it is
            the bounding box of only the links, in physical rows and columns.
        words: int64 ``[4, rect.rows, rect.cols]``: words on the four outgoing links of each PE, per
            layer.
    """

    layers: tuple[int, ...]
    wafer: int
    rect: Rect
    words: I64


@dataclass(frozen=True, kw_only=True, eq=False)
class _Moves:
    """The transfers of a phase, grouped into classes of equal steps, with their words on links.

    Attributes:
        regions: For each class, the rectangle of PEs that runs a step, on each wafer. It is stored
            as links with 0 words, so that maps of links also cover PEs that send nothing.
        rectangles: For each class, the links that one step uses, with the words of all runs:
            rectangles of links with equal word counts (see ``link_map.rectangles_of``).
        counts: For each layer, the number of its steps in each class, int64 ``[classes]``.
    """

    regions: list[I64]
    rectangles: list[I64]
    counts: dict[int, I64]


def layer_links(
    fabric: Fabric, runs: Runs, chosen_experts: Chosen, chosen_wafers: Chosen = MappingProxyType({})
) -> Iterator[LayerLinks]:
    """Yield each layer's words on links, summed over all runs of all phases.

    1. The transfers of each phase are divided into classes with equal traffic. One transfer per
       class is counted.
    2. Layers with the same number of steps of each class are computed and yielded together.
    3. A layer is yielded once for each wafer on which it sends words. The words of all layers add
       up to the words on all links.

    Args:
        fabric: Timing model of the Program.
        runs: Number of runs, keyed by (phase index, cached tokens on the fullest row of PEs of each
            stage, tokens in each user's cache). A stage is a group of layers.
        chosen_experts: For each phase index and layer, the number of tokens routed to each expert.
        chosen_wafers: For each phase index and layer, the number of runs that selected experts on
            each wafer.
    """
    program = fabric.program
    phases: dict[Steps, tuple[Phase, Counter[CacheUse]]] = {}
    for (index, slots, lengths), times in runs.items():
        phase = program.phases[index]
        phases.setdefault(phase.steps, (phase, Counter()))[1][slots, lengths] += times
    moves_by_phase = [  # 1
        _moves(fabric, phase, times, _pairs(program, phase, chosen_experts), _pairs(program, phase, chosen_wafers))
        for phase, times in phases.values()
    ]
    same_moves: dict[tuple[bytes, ...], list[int]] = defaultdict(list)  # 2
    for layer in sorted(set(program.op_layers)):
        counts = (moves.counts[layer].tobytes() if layer in moves.counts else b"" for moves in moves_by_phase)
        same_moves[tuple(counts)].append(layer)
    for layers in same_moves.values():
        parts, regions = [NOTHING], [NOTHING]
        for moves in moves_by_phase:
            in_layer = moves.counts.get(layers[0], np.zeros(len(moves.rectangles), np.int64))
            moving = [i for i in np.flatnonzero(in_layer).tolist() if len(moves.rectangles[i])]
            regions += [moves.regions[i] for i in moving]
            parts += [scale_words(moves.rectangles[i], int(in_layer[i])) for i in moving]
        yield from _by_wafer(fabric.routes, tuple(layers), np.concatenate(parts), np.concatenate(regions))  # 3


def _pairs(program: Program, phase: Phase, chosen_experts: Chosen) -> Pairs:
    """Add up the tokens routed to each expert over all phases with the same steps as a phase.

    Args:
        program: The compiled Program.
        phase: Prefill chunk, decode pass or verification pass of the Program.
        chosen_experts: For each phase index and layer, the number of tokens routed to each expert,
            or the number of runs that selected experts on each wafer.

    Returns:
        For each layer, the sum of the counts.
    """
    pairs_by_layer: dict[int, I64] = {}
    for index, layers in chosen_experts.items():
        for layer, pairs in layers.items() if program.phases[index].steps is phase.steps else ():
            pairs_by_layer[layer] = pairs_by_layer[layer] + pairs if layer in pairs_by_layer else pairs
    return pairs_by_layer


def _moves(fabric: Fabric, phase: Phase, runs: Counter[CacheUse], pairs: Pairs, chosen_wafers: Pairs) -> _Moves:
    """Group the transfers of a phase into classes of equal steps, and count their words on links.

    The words are summed over all runs of the phase.

    Args:
        fabric: Timing model of the Program.
        phase: Prefill chunk, decode pass or verification pass of the Program.
        runs: Number of runs, keyed by (cache slots in use, tokens in each user's cache).
        pairs: For each layer, the number of tokens routed to each expert.
        chosen_wafers: For each layer, the number of runs that selected experts on each wafer.
    """
    program = fabric.program
    steps = np.flatnonzero(phase.steps.kind != StepKind.COMPUTE)
    # The choice of experts differs by layer, so every routed step is a class of its own.
    classes = np.where(phase.steps.depends_on_experts, np.arange(len(phase.steps)), fabric.classes(phase))
    distinct, class_of_step = np.unique(classes[steps], return_inverse=True)
    layers, layer_of_step = np.unique(np.array(program.op_layers, np.int64)[phase.steps.op[steps]], return_inverse=True)
    counts = np.zeros((len(layers), len(distinct)), np.int64)
    np.add.at(counts, (layer_of_step, class_of_step), 1)
    uses, grows = _uses(runs), by_slots(phase.steps)
    in_all = {program.cache_slots(0): (runs.total(), [length for _, lengths in uses.values() for length in lengths])}
    stages = [program.stages[stage] for stage in phase.steps.stage[distinct]]
    return _Moves(
        regions=[_region(stage) for stage in stages],
        rectangles=[
            _routed_rectangles(fabric, phase, step, runs.total(), pairs, chosen_wafers)
            if phase.steps.depends_on_experts[step]
            else _over_runs(fabric.traffic, phase, step, uses if grows[step] else in_all)
            for step in distinct.tolist()
        ],
        counts=dict(zip(layers.tolist(), counts, strict=True)),
    )


def _routed_rectangles(fabric: Fabric, phase: Phase, step: int, runs: int, pairs: Pairs, chosen_wafers: Pairs) -> I64:
    """Return the links used, over all runs, by a step whose words depend on the selected experts.

    Args:
        fabric: Timing model of the Program.
        phase: Prefill chunk, decode pass or verification pass of the Program.
        step: Index of the step.
        runs: Number of runs of the phase.
        pairs: For each layer, the number of tokens routed to each expert, summed over the runs.
        chosen_wafers: For each layer, the number of runs that selected experts on each wafer.

    Returns:
        Rectangles of links with equal word counts (see ``link_map.rectangles_of``).
    """
    if TRANSFERS[phase.steps.code[step]].leaves_wafer:
        return _nonempty_rectangles(_crossing_rectangles(fabric, phase, step, chosen_wafers))
    columns, empty = pairs_by_column(fabric.program, phase, step, pairs), fabric.program.cache_slots(0)
    # Words that do not depend on the choice are sent in every run; those of one run are in `all_pairs` already.
    all_pairs = fabric.traffic.traffic_by_pairs(phase, step, empty, columns)
    without_pairs = fabric.traffic.traffic_by_pairs(phase, step, empty, np.zeros_like(columns))
    return _nonempty_rectangles(np.concatenate([all_pairs.rectangles, scale_words(without_pairs.rectangles, runs - 1)]))


def _crossing_rectangles(fabric: Fabric, phase: Phase, step: int, chosen_wafers: Pairs) -> I64:
    """Return the links that a step between wafers uses, with their words summed over all runs.

    The result contains rectangles of links with equal word counts. Each wafer is counted only for
    the runs in which tokens were routed to experts on it.

    Args:
        fabric: Timing model of the Program.
        phase: Prefill chunk, decode pass or verification pass of the Program.
        step: Index of the step.
        chosen_wafers: For each layer, the number of runs that selected experts on each wafer.
    """
    no_runs = np.zeros(fabric.program.wafers, np.int64)
    runs = chosen_wafers.get(fabric.program.op_layers[phase.steps.op[step]], no_runs)
    wafers = fabric.program.stages[phase.steps.stage[step]].wafers
    empty = fabric.program.cache_slots(0)
    parts = [
        scale_words(fabric.traffic.step_traffic(phase, step, empty, frozenset((wafer,))).rectangles, int(runs[wafer]))
        for wafer in wafers
    ]
    return np.concatenate(parts)


def _region(stage: Stage) -> I64:
    """Return the rectangle of PEs of a stage (group of layers), as links that carry 0 words.

    There is one rectangle of links for each wafer of the stage. Added to the links in use, they
    make a map of links cover all PEs of the stage.
    """
    planes, rect = np.array(stage.wafers, np.int64) * DIRECTIONS, stage.rect
    return rectangles_of(planes, rect.row, rect.row + rect.rows, rect.col, rect.col + rect.cols, 0)


def _uses(runs: Counter[CacheUse]) -> _Uses:
    """Group the runs of a phase by the KV-cache slots in use on the fullest row of PEs.

    Args:
        runs: Number of runs, keyed by (cache slots in use, tokens in each user's cache).

    Returns:
        Keyed by the slots in use in each stage (group of layers): the number of runs, and a list
        with each user's number of cached tokens before each of these runs.
    """
    counts: Counter[Slots] = Counter()
    all_lengths: defaultdict[Slots, list[int]] = defaultdict(list)
    for (slots, lengths), times in runs.items():
        counts[slots] += times
        all_lengths[slots] += list(lengths) * times
    return {slots: (times, all_lengths[slots]) for slots, times in counts.items()}


def _over_runs(traffic: Traffic, phase: Phase, step: int, uses: _Uses) -> I64:
    """Return the links that one step uses, with the words of all runs of the phase.

    The words of a cache shift depend on the number of cached tokens before every run. Other steps
    are computed once for each combination of cache slots, and their words are multiplied.

    Args:
        traffic: Traffic model of the Program.
        phase: Prefill chunk, decode pass or verification pass of the Program.
        step: Index of the step.
        uses: For each combination of cache slots in use, the number of runs, and the numbers of
            cached tokens before them.

    Returns:
        int64 ``[n, 9]``: rectangles of links with equal word counts, from
        ``link_map.rectangles_of``.
    """
    if TRANSFERS[phase.steps.code[step]].by_counters:
        parts = [
            traffic.shift_traffic(phase, step, slots, lengths).rectangles
            for slots, (_, lengths) in uses.items()
            if lengths
        ]
    else:
        parts = [
            scale_words(traffic.step_traffic(phase, step, slots).rectangles, times)
            for slots, (times, _) in uses.items()
        ]
    return _nonempty_rectangles(np.concatenate([NOTHING, *parts]))


def _nonempty_rectangles(rectangles: I64) -> I64:
    """Return the rectangles of links that are not empty and whose links carry words."""
    return rectangles[(links_of(rectangles) > 0) & (rectangles[:, WORDS] > 0)]


def _by_wafer(routes: Routes, layers: tuple[int, ...], rectangles: I64, regions: I64) -> Iterator[LayerLinks]:
    """Yield a map of the words that some layers send over the links of each wafer.

    Each map is cropped to the sending regions and the links in use.

    Args:
        routes: Physical links that words use.
        layers: Layers of the model with equal words on every link.
        rectangles: Links in use: rectangles of links with equal word counts.
        regions: Regions of PEs that send words, in the same format.
    """
    for wafer in np.unique(rectangles[:, PLANE] // DIRECTIONS).tolist():
        wafer_rectangles, wafer_regions = (
            part[part[:, PLANE] // DIRECTIONS == wafer] for part in (rectangles, regions)
        )
        if not routes.has_no_faults:
            yield _on_fabric(layers, wafer, routes.words_on(wafer, wafer_rectangles))
            continue
        links_and_regions = np.concatenate([wafer_rectangles, wafer_regions])
        row, col = (int(links_and_regions[:, side].min()) for side in (ROW, COL))
        end_row, end_col = ends_of(links_and_regions)
        rows, cols = end_row - row, end_col - col
        local_rectangles = wafer_rectangles - np.array([wafer * DIRECTIONS, row, row, col, col, 0, 0, 0, 0])
        words = link_map(local_rectangles, DIRECTIONS, rows, cols)
        yield LayerLinks(layers=layers, wafer=wafer, rect=Rect(row, col, rows, cols), words=words)


def _on_fabric(layers: tuple[int, ...], wafer: int, words: I64) -> LayerLinks:
    """Return a map of the words that layers send over physical links, cropped to links in use.

    Args:
        layers: Layers of the model with equal words on every link.
        wafer: Index of the wafer.
        words: int64 ``[4, rows, cols]``: words on the physical links of the wafer, per layer.
    """
    is_used = words.max(axis=0) > 0
    rows, cols = np.flatnonzero(is_used.any(axis=1)), np.flatnonzero(is_used.any(axis=0))
    row, end_row, col, end_col = (rows[0], rows[-1] + 1, cols[0], cols[-1] + 1) if len(rows) else (0, 1, 0, 1)
    rect = Rect(int(row), int(col), int(end_row - row), int(end_col - col))
    return LayerLinks(layers=layers, wafer=wafer, rect=rect, words=words[:, row:end_row, col:end_col])

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
from wse.backends.fabric.links.layer_moves import moves_of_phase
from wse.backends.fabric.links.link_map import COL, NOTHING, PLANE, ROW, ends_of, link_map, scale_words
from wse.backends.fabric.links.routes import DIRECTIONS, Routes
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import CacheUse
from wse.program.program import Program
from wse.program.steps import Phase, Slots, Steps
from wse_mappings.mesh.placement import Rect

Runs = Mapping[tuple[int, Slots, tuple[int, ...]], int]
"""Number of runs of a phase, by phase index and the two parts of a ``CacheUse``."""

Chosen = Mapping[int, Mapping[int, I64]]
"""Selected experts over all runs of a phase, by phase index and layer.

A value is either the number of tokens routed to each expert, int64 ``[experts]``, or the number of
runs that selected experts on each wafer, int64 ``[wafers]``.
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerLinks:
    """Words that one or more equal layers send over the links of one wafer.

    Layers are equal if they have the same word count on every link.

    Attributes:
        layers: Layers of the model, ascending; -1 stands for ops outside of layers.
        wafer: Index of the wafer.
        rect: The PEs that the map covers: the bounding box of all links with words and of the
            rectangles of PEs that run the layer. If PEs are dead, it is the bounding box of the
            links, in physical rows and columns.
        words: int64 ``[4, rect.rows, rect.cols]``: words on the four outgoing links of each PE, for
            one layer.
    """

    layers: tuple[int, ...]
    wafer: int
    rect: Rect
    words: I64


def layer_links(
    fabric: Fabric, runs: Runs, chosen_experts: Chosen, chosen_wafers: Chosen = MappingProxyType({})
) -> Iterator[LayerLinks]:
    """Yield a map of the words that each layer sends over links, summed over all runs.

    1. The transfers of each phase are divided into classes with equal traffic. The words of one
       transfer per class are computed.
    2. Layers with the same number of transfers of each class share one map.
    3. A layer is yielded once for each wafer on which it sends words. The words of all layers add
       up to the words on all links.

    Args:
        fabric: Timing model of the Program.
        runs: Number of runs, keyed by (phase index, cached tokens on the fullest row of PEs of each
            stage, tokens in each user's cache). A stage is a part of the model.
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
        moves_of_phase(
            fabric,
            phase,
            times,
            _total_counts(program, phase, chosen_experts),
            _total_counts(program, phase, chosen_wafers),
        )
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


def _total_counts(program: Program, phase: Phase, counts: Chosen) -> Mapping[int, I64]:
    """Add up counts of experts or wafers over all phases with the same steps as ``phase``.

    Args:
        program: The compiled Program.
        phase: Prefill chunk, decode pass or verification pass of the Program.
        counts: Counts to add up, by phase index and layer: the number of tokens routed to each
            expert, or the number of runs that selected experts on each wafer.

    Returns:
        For each layer, the sum of the counts.
    """
    totals: dict[int, I64] = {}
    for index, layers in counts.items():
        for layer, layer_counts in layers.items() if program.phases[index].steps is phase.steps else ():
            totals[layer] = totals[layer] + layer_counts if layer in totals else layer_counts
    return totals


def _by_wafer(routes: Routes, layers: tuple[int, ...], rectangles: I64, regions: I64) -> Iterator[LayerLinks]:
    """Yield, for each wafer, a map of the words that a layer sends over links.

    Each map is cropped to the links in use and to the rectangles of PEs that run the layer.

    Args:
        routes: Physical links that words use.
        layers: Layers to which the map applies, because their words are equal on every link.
        rectangles: Links in use: rectangles of links with equal word counts.
        regions: Rectangles of PEs that run the layer, in the same format, with 0 words.
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
    """Crop a map of the words on physical links to the links in use.

    Args:
        layers: Layers to which the map applies, because their words are equal on every link.
        wafer: Index of the wafer.
        words: int64 ``[4, rows, cols]``: words on the physical links of the wafer, for one layer.
    """
    is_used = words.max(axis=0) > 0
    rows, cols = np.flatnonzero(is_used.any(axis=1)), np.flatnonzero(is_used.any(axis=0))
    row, end_row, col, end_col = (rows[0], rows[-1] + 1, cols[0], cols[-1] + 1) if len(rows) else (0, 1, 0, 1)
    rect = Rect(int(row), int(col), int(end_row - row), int(end_col - col))
    return LayerLinks(layers=layers, wafer=wafer, rect=rect, words=words[:, row:end_row, col:end_col])

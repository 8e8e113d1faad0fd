"""Transfers of a phase in classes of equivalent steps, with their words on links over all runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wse.arrays import I64
from wse.backends.fabric.expert_columns import ExpertTokens, pairs_by_column
from wse.backends.fabric.links.link_map import NOTHING, WORDS, links_of, rectangles_of, scale_words
from wse.backends.fabric.links.routes import DIRECTIONS
from wse.backends.fabric.links.traffic import Traffic
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import CacheUse
from wse.backends.fabric.step_classes import by_slots
from wse.program.stage import Stage
from wse.program.steps import Phase, Slots, StepKind
from wse.program.transfers.transfer_types import TRANSFERS

_Uses = dict[Slots, tuple[int, list[int]]]
"""Number of runs, and cached tokens before each decode pass of each user, by cache slots in use."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Moves:
    """Transfers of a phase, grouped into classes, with the words that each class sends over links.

    A transfer is a step that moves words. Transfers of one class send the same words over links.

    Attributes:
        regions: For each class, the PEs that run such a step, stored as links with 0 words, so that
            maps of links also cover PEs that send nothing.
        rectangles: For each class, the links that one step uses, with their words summed over all
            runs of the phase (see ``link_map.rectangles_of``).
        counts: For each layer, the number of its steps in each class, int64 ``[classes]``.
    """

    regions: list[I64]
    rectangles: list[I64]
    counts: dict[int, I64]


def moves_of_phase(
    fabric: Fabric, phase: Phase, runs: Counter[CacheUse], expert_tokens: ExpertTokens, chosen_wafers: Mapping[int, I64]
) -> Moves:
    """Group the transfers of a phase into classes, and count the words of each class on links.

    Transfers of a class send the same words over links. The words are summed over all runs of the
    phase.

    Args:
        fabric: Timing model of the Program.
        phase: Prefill chunk, decode pass or verification pass of the Program.
        runs: Number of runs, keyed by (cache slots in use, tokens in each user's cache).
        expert_tokens: For each layer, the number of tokens routed to each expert.
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
    return Moves(
        regions=[_region(stage) for stage in stages],
        rectangles=[
            _routed_rectangles(fabric, phase, step, runs.total(), expert_tokens, chosen_wafers)
            if phase.steps.depends_on_experts[step]
            else _over_runs(fabric.traffic, phase, step, uses if grows[step] else in_all)
            for step in distinct.tolist()
        ],
        counts=dict(zip(layers.tolist(), counts, strict=True)),
    )


def _routed_rectangles(
    fabric: Fabric, phase: Phase, step: int, runs: int, expert_tokens: ExpertTokens, chosen_wafers: Mapping[int, I64]
) -> I64:
    """Return the links that a routed step uses, with the total words over all runs of the phase.

    A routed step is a step whose work depends on the experts to which tokens are routed.

    Args:
        fabric: Timing model of the Program.
        phase: Prefill chunk, decode pass or verification pass of the Program.
        step: Index of the step.
        runs: Number of runs of the phase.
        expert_tokens: For each layer, the number of tokens routed to each expert, summed over the
            runs.
        chosen_wafers: For each layer, the number of runs that selected experts on each wafer.

    Returns:
        Rectangles of links with equal word counts (see ``link_map.rectangles_of``).
    """
    if TRANSFERS[phase.steps.code[step]].leaves_wafer:
        return _nonempty_rectangles(_crossing_rectangles(fabric, phase, step, chosen_wafers))
    columns, empty = pairs_by_column(fabric.program, phase, step, expert_tokens), fabric.program.cache_slots(0)
    # Words that do not depend on the choice are sent in every run; those of one run are in `all_pairs` already.
    all_pairs = fabric.traffic.traffic_by_pairs(phase, step, empty, columns)
    without_pairs = fabric.traffic.traffic_by_pairs(phase, step, empty, np.zeros_like(columns))
    return _nonempty_rectangles(np.concatenate([all_pairs.rectangles, scale_words(without_pairs.rectangles, runs - 1)]))


def _crossing_rectangles(fabric: Fabric, phase: Phase, step: int, chosen_wafers: Mapping[int, I64]) -> I64:
    """Return the links that a step between wafers uses, with their words summed over all runs.

    The words to a wafer are counted only for the runs in which tokens were routed to experts on
    that wafer. The result contains rectangles of links with equal word counts.

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
    """Return links with 0 words that cover the PEs of a stage (group of layers).

    If they are added to the links in use, a map of these links also covers PEs that send nothing.
    The result has one rectangle of links for each wafer of the stage.
    """
    planes, rect = np.array(stage.wafers, np.int64) * DIRECTIONS, stage.rect
    return rectangles_of(planes, rect.row, rect.row + rect.rows, rect.col, rect.col + rect.cols, 0)


def _uses(runs: Counter[CacheUse]) -> _Uses:
    """Group the runs of a phase by the KV-cache slots in use on the fullest row of PEs.

    Args:
        runs: Number of runs, keyed by (cache slots in use, tokens in each user's cache).

    Returns:
        Keys are the slots in use in each stage (group of layers). Values are the number of runs,
        and a list of cached tokens: one number for each user of each of these runs.
    """
    counts: Counter[Slots] = Counter()
    all_lengths: defaultdict[Slots, list[int]] = defaultdict(list)
    for (slots, lengths), times in runs.items():
        counts[slots] += times
        all_lengths[slots] += list(lengths) * times
    return {slots: (times, all_lengths[slots]) for slots, times in counts.items()}


def _over_runs(traffic: Traffic, phase: Phase, step: int, uses: _Uses) -> I64:
    """Return the links that one step uses, with the total words over all runs of the phase.

    The words of a cache shift depend on the number of cached tokens, which differs between runs, so
    every run is computed. The words of other steps depend only on the cache slots in use. They are
    computed once for each combination of slots and multiplied by the number of runs.

    Args:
        traffic: Traffic model of the Program.
        phase: Prefill chunk, decode pass or verification pass of the Program.
        step: Index of the step.
        uses: For each combination of cache slots in use, the number of runs, and a list of cached
            tokens: one number for each user of each of these runs.

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
    """Return only the rectangles that contain links, and whose links carry words."""
    return rectangles[(links_of(rectangles) > 0) & (rectangles[:, WORDS] > 0)]

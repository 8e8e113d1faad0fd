"""Additional layouts that a search tries if the layouts of a mapping do not fit."""

from __future__ import annotations

from collections.abc import Sequence

from wse.compiler.options import MODEL
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.compiler.strategies import strategy
from wse_mappings.cuts.expert_groups import AUTO
from wse_mappings.regions.layout import Layout


def fallback_layouts(setup: TrialSetup, layouts: Sequence[Layout]) -> list[list[Layout]]:
    """Return additional layouts for a search to try, for example if the given layouts do not fit.

    The result has up to two lists. The search tries the first list before the second:

    1. Copies of the given layouts with other assignments of experts to columns of PEs.
    2. Variants of the first list in which feed-forward blocks may also be split between stages
       (rectangles of PEs). If there is no first list, they are variants of the given layouts.

    An empty list is omitted.
    """
    with_placements = with_other_expert_placements(setup, layouts)
    return [
        layout_list
        for layout_list in (with_placements, with_cut_blocks(setup, with_placements or layouts))
        if layout_list
    ]


def with_cut_blocks(setup: TrialSetup, layouts: Sequence[Layout]) -> list[Layout]:
    """Return variants of layouts in which feed-forward blocks may be split between stages.

    A stage is the part of a model that is stored on one rectangle of PEs. The result is empty in
    these cases:

    - the caller does not allow it (``whole_layers``)
    - baseline schedule, a single wafer, or a request to compile the layers only, without
      embedding and output head
    - models that normalise the output of blocks
    - mappings that already divide layers or experts over wafers
    """
    has_post_norms = any(map(setup.spec.has_post_norms, setup.spec.layers))
    one_wafer, stay_whole = setup.options.wafers == 1, setup.whole_layers or has_post_norms
    if setup.demand.as_released or setup.options.scope != MODEL or one_wafer or stay_whole:
        return []
    counts = strategy(setup.options.mapping).block_parts
    return [
        layout._replace(block_parts=count) for count in counts for layout in layouts if _stores_whole_layers(layout)
    ]


def with_other_expert_placements(setup: TrialSetup, layouts: Sequence[Layout]) -> list[Layout]:
    """Return copies of layouts with other assignments of experts to columns of PEs.

    There is one copy for each layout and each assignment that the requested mapping offers. The
    result is empty if the model has no experts, or if the request or the baseline schedule
    determines the assignment.
    """
    if setup.options.experts != AUTO or setup.spec.experts is None or setup.demand.as_released:
        return []
    placements = strategy(setup.options.mapping).expert_placements
    return [layout._replace(experts=placement) for placement in placements for layout in layouts]


def _stores_whole_layers(layout: Layout) -> bool:
    """Return whether a layout's mapping stores each layer, with its experts, in one region."""
    mapping = strategy(layout.mapping)
    return not (mapping.spans_wafers or mapping.experts_apart)

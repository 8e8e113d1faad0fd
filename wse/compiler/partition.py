"""Pass 1: which layers each stage holds, and on which wafer.

Layers go to stages in order, counts differing by at most one. The embedding is with the first stage; the head is
with the last, or with the embedding when they share their table, which is held once.
"""

from __future__ import annotations

from dataclasses import replace

from wse.compiler.options import MODEL
from wse.compiler.state import StagePlan, State
from wse_mappings.split import balanced_segments


def partition(state: State) -> State:
    """Fill ``plans``."""
    count = state.options.wafers * state.choice.stages_per_wafer
    whole = state.options.scope == MODEL
    head_stage = 0 if state.spec.tied_embedding else count - 1
    plans = tuple(
        StagePlan(
            wafer=index // state.choice.stages_per_wafer,
            first_layer=start,
            last_layer=start + layers,
            has_embedding=whole and index == 0,
            has_head=whole and index == head_stage,
        )
        for index, (start, layers) in enumerate(balanced_segments(state.spec.layer_count, count))
    )
    return replace(state, plans=plans)

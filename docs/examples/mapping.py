"""Print the layouts that a mapping strategy tries for a model, and the layers of each region in one of them.

Example:
    python docs/examples/mapping.py
"""

from __future__ import annotations

import sys

from wse_mappings.regions.demand import Demand
from wse_mappings.strategies.catalogue import bundled_strategies

DEMAND = Demand(
    layer_bytes=(1.0e6,) * 12,
    expert_bytes=(0.0,) * 12,
    embedding_bytes=2.0e6,
    head_bytes=None,
    experts=0,
    wafers=2,
    mesh_rows=48,
    mesh_cols=36,
)

pipeline = bundled_strategies()["pipeline"]
layouts = list(pipeline.layouts(DEMAND, ()))
for layout in layouts:
    rows, cols = layout.region(DEMAND)
    sys.stdout.write(f"{layout.bands} bands of {layout.per_band} regions of {rows}x{cols} PEs\n")
for share in pipeline.partition(DEMAND, layouts[1]):
    place = f"wafer {share.wafer}, band {share.band}"
    sys.stdout.write(f"{place}: layers {share.first_layer} to {share.last_layer - 1}\n")

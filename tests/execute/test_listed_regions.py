"""Regions that a request lists: logits are those of a plain decoder wherever rectangles lie, and every word counts."""

from __future__ import annotations

from tiny_model import tiny_spec
from wafer_runs import wafer_run

from wse_mappings.mesh.placement import Rect
from wse_mappings.regions.demand import ListedRegion

SPEC = tiny_spec(layers=3, tied=False)
APART = (
    ListedRegion(0, Rect(0, 5, 3, 2), 0, 0),  # the embedding alone
    ListedRegion(0, Rect(3, 0, 4, 5), 0, 1),  # touches it at a corner
    ListedRegion(1, Rect(2, 4, 5, 3), 1, 3),
    ListedRegion(1, Rect(0, 0, 2, 4), 3, 3),  # the head alone
)


def test_unequal_regions_on_two_wafers_give_the_logits_of_a_plain_decoder() -> None:
    run = wafer_run(SPEC, (7, 7), 2, [(5, 9, 31, 7, 12, 40, 2)], mapping="pipeline", listed=APART)
    assert [stage.rect for stage in run.program.stages] == [region.rect for region in APART]
    assert [stage.wafer for stage in run.program.stages] == [0, 0, 1, 1]
    run.check()

"""Widths of regions: no others leave fewer bytes on the fullest PE, and none could be smaller."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wse_mappings.cuts.split import ceil_div
from wse_mappings.cuts.widths import PRECISION, region_widths


@settings(max_examples=25, deadline=None)
@given(
    regions=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 20)), min_size=2, max_size=3), cols=st.integers(3, 12)
)
def test_the_fullest_pe_is_as_empty_as_can_be(regions: list[tuple[int, int]], cols: int) -> None:
    sizes = tuple(
        lambda n, weight=weight, extent=extent: float(weight * ceil_div(extent, n)) for weight, extent in regions
    )

    def fullest(widths: tuple[int, ...]) -> float:
        return max(size(width) for size, width in zip(sizes, widths, strict=True))

    widths = region_widths(sizes, cols)
    tried = [t for t in product(range(1, cols + 1), repeat=len(sizes)) if sum(t) <= cols]
    assert sum(widths) <= cols
    assert fullest(widths) == pytest.approx(min(map(fullest, tried)), rel=2 * PRECISION)
    for size, width in zip(sizes, widths, strict=True):
        assert width == 1 or size(width - 1) > fullest(widths)


def test_a_region_alone_has_all_columns() -> None:
    assert region_widths((lambda n: 1.0,), 7) == (7,)


@pytest.mark.parametrize("cols", [12, 50, 1170])
def test_where_more_columns_hold_more_bytes_all_regions_have_room(cols: int) -> None:
    """Experts in whole groups may have more bytes on a few more columns."""

    def bumpy(n: int) -> float:
        return 1000 / n + (500 if n > cols // 5 else 0) - (499 if n == cols // 5 else 0)

    widths = region_widths((bumpy,) * 5, cols)
    assert sum(widths) <= cols
    assert min(widths) >= 1

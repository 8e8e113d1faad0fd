"""Heights of bands: no others leave fewer bytes on the fullest PE, and none could be smaller."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from wse_mappings.cuts.heights import band_heights

BANDS = st.lists(st.integers(0, 9).map(float), min_size=1, max_size=3).map(tuple)


@settings(max_examples=25, deadline=None)
@given(
    by_wafer=st.lists(BANDS, min_size=1, max_size=2).map(tuple),
    parts=st.lists(st.integers(1, 12), min_size=3, max_size=9).map(tuple),
)
def test_the_fullest_pe_is_as_empty_as_can_be(by_wafer: tuple[tuple[float, ...], ...], parts: tuple[int, ...]) -> None:
    """This holds for any function of bytes per row.

    With scales of groups, a row may have more bytes if there are more rows.
    """
    rows = len(parts)

    def fullest(bands: tuple[float, ...], heights: tuple[int, ...]) -> float:
        return max(size * parts[height - 1] for size, height in zip(bands, heights, strict=True))

    heights = band_heights(by_wafer, parts)
    assert all(sum(of_wafer) <= rows for of_wafer in heights)
    got = max(fullest(bands, tuple(of_wafer)) for bands, of_wafer in zip(by_wafer, heights, strict=True))
    best = [
        min(fullest(bands, tried) for tried in product(range(1, rows + 1), repeat=len(bands)) if sum(tried) <= rows)
        for bands in by_wafer
    ]
    assert got == max(best)
    for bands, of_wafer in zip(by_wafer, heights, strict=True):
        for size, height in zip(bands, of_wafer, strict=True):
            assert all(size * part > got for part in parts[: height - 1])

"""Tests of the widths of regions, the heights of bands, and cuts of latent attention."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wse_mappings.cuts.latent_cut import LatentCut, latent_cut
from wse_mappings.cuts.split import blocks
from wse_mappings.cuts.widths import PRECISION, band_heights, region_widths
from wse_mappings.result_cache import ResultCache
from wse_mappings.rounding import ceil_div


@settings(max_examples=25, deadline=None)
@given(
    regions=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 20)), min_size=2, max_size=3), cols=st.integers(3, 12)
)
def test_region_widths_minimise_the_fullest_pe(regions: list[tuple[int, int]], cols: int) -> None:
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


def test_single_region_has_all_columns() -> None:
    assert region_widths((lambda n: 1.0,), 7) == (7,)


@pytest.mark.parametrize("cols", [12, 1170])
def test_region_widths_fit_if_more_columns_need_more_bytes(cols: int) -> None:
    """Experts in whole groups may need more bytes on a few more columns."""

    def bytes_on_columns(n: int) -> float:
        return 1000 / n + (500 if n > cols // 5 else 0) - (499 if n == cols // 5 else 0)

    widths = region_widths((bytes_on_columns,) * 5, cols)
    assert sum(widths) <= cols
    assert min(widths) >= 1


BANDS = st.lists(st.integers(0, 9).map(float), min_size=1, max_size=3).map(tuple)


@settings(max_examples=25, deadline=None)
@given(
    by_wafer=st.lists(BANDS, min_size=1, max_size=2).map(tuple),
    parts=st.lists(st.integers(1, 12), min_size=3, max_size=9).map(tuple),
)
def test_band_heights_minimise_the_fullest_pe(by_wafer: tuple[tuple[float, ...], ...], parts: tuple[int, ...]) -> None:
    """This holds for any function of bytes per row.

    With scales of groups, a row may have more bytes if there are more rows.
    """
    rows = len(parts)

    def fullest(bands: tuple[float, ...], heights: tuple[int, ...]) -> float:
        return max(size * parts[height - 1] for size, height in zip(bands, heights, strict=True))

    heights = band_heights(by_wafer, parts)
    assert all(sum(heights_on_wafer) <= rows for heights_on_wafer in heights)
    got = max(
        fullest(bands, tuple(heights_on_wafer)) for bands, heights_on_wafer in zip(by_wafer, heights, strict=True)
    )
    best = [
        min(fullest(bands, tried) for tried in product(range(1, rows + 1), repeat=len(bands)) if sum(tried) <= rows)
        for bands in by_wafer
    ]
    assert got == max(best)
    for bands, heights_on_wafer in zip(by_wafer, heights, strict=True):
        for size, height in zip(bands, heights_on_wafer, strict=True):
            assert all(size * part > got for part in parts[: height - 1])


SIZES = st.integers(1, 9)
Cut = tuple[LatentCut, dict[str, int]]


@st.composite
def cuts(draw: st.DrawFn) -> Cut:
    sizes = {name: draw(SIZES) for name in ("source", "latent", "hidden", "heads", "nope", "rope", "value")}
    others = {name: size for name, size in sizes.items() if name != "hidden"}
    hidden = blocks(sizes["hidden"], draw(st.integers(1, 12)), draw(st.integers(0, 4)))
    return latent_cut(hidden, draw(st.integers(1, 12)), **others, cache=ResultCache()), sizes


@given(cuts())
def test_latent_features_are_stored_once(cut_and_sizes: Cut) -> None:
    cut, sizes = cut_and_sizes
    for name in ("source", "latent", "hidden"):
        index = getattr(cut, name)
        assert sorted(index[index >= 0]) == list(range(sizes[name]))
    for name in ("nope", "rope", "value"):
        index = getattr(cut, name)
        assert sorted(index[index >= 0]) == list(range(sizes["heads"] * sizes[name]))


@given(
    hidden=st.integers(1, 60),
    rows=st.integers(1, 9),
    cols=st.integers(1, 9),
    group=st.integers(0, 9),
    source=st.integers(0, 5),
)
def test_columns_have_hidden_features_at_the_places_of_rows(
    hidden: int, rows: int, cols: int, group: int, source: int
) -> None:
    """The features that a row and a column have in common are then contiguous."""
    row_blocks = blocks(hidden, rows, group)
    cut = latent_cut(row_blocks, cols, source=source, latent=4, heads=2, nope=2, rope=2, value=2, cache=ResultCache())
    flat = row_blocks.reshape(-1)
    places = cut.hidden.reshape(-1)[: len(flat)]
    np.testing.assert_array_equal(places, flat[: len(places)])
    assert (cut.source is cut.hidden) == (source == 0)


@given(cuts())
def test_rows_have_only_features_of_their_heads_in_order(cut_and_sizes: Cut) -> None:
    cut, sizes = cut_and_sizes
    for name in ("nope", "rope", "value"):
        index = getattr(cut, name).reshape(*cut.heads.shape, -1)
        head = np.where(index >= 0, index // sizes[name], cut.heads[:, :, None])
        assert (head == cut.heads[:, :, None]).all()
    index = cut.rope.reshape(*cut.heads.shape, -1)
    place = cut.first_rotated + np.arange(index.shape[2])
    assert ((index < 0) | (index % sizes["rope"] == place[:, None])).all()

"""Division of latent attention: head features on one row each, shared features on one column."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wse_mappings.cuts.latent_cut import LatentCut, latent_cut
from wse_mappings.cuts.split import blocks
from wse_mappings.result_cache import ResultCache

SIZES = st.integers(1, 9)
Cut = tuple[LatentCut, dict[str, int]]


@st.composite
def cuts(draw: st.DrawFn) -> Cut:
    sizes = {name: draw(SIZES) for name in ("source", "latent", "hidden", "heads", "nope", "rope", "value")}
    others = {name: size for name, size in sizes.items() if name != "hidden"}
    hidden = blocks(sizes["hidden"], draw(st.integers(1, 12)), draw(st.integers(0, 4)))
    return latent_cut(hidden, draw(st.integers(1, 12)), **others, cache=ResultCache()), sizes


@given(cuts())
def test_everything_is_held_once(made: Cut) -> None:
    cut, sizes = made
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
def test_columns_have_hidden_features_where_rows_do(hidden: int, rows: int, cols: int, group: int, source: int) -> None:
    """The features that a row and a column have in common are then consecutive."""
    of_row = blocks(hidden, rows, group)
    cut = latent_cut(of_row, cols, source=source, latent=4, heads=2, nope=2, rope=2, value=2, cache=ResultCache())
    flat = of_row.reshape(-1)
    places = cut.hidden.reshape(-1)[: len(flat)]
    np.testing.assert_array_equal(places, flat[: len(places)])
    assert (cut.source is cut.hidden) == (source == 0)


@given(cuts())
def test_a_row_has_features_of_its_own_heads_alone_head_after_head(made: Cut) -> None:
    cut, sizes = made
    for name in ("nope", "rope", "value"):
        index = getattr(cut, name).reshape(*cut.heads.shape, -1)
        head = np.where(index >= 0, index // sizes[name], cut.heads[:, :, None])
        assert (head == cut.heads[:, :, None]).all()
    index = cut.rope.reshape(*cut.heads.shape, -1)
    place = cut.first_rotated + np.arange(index.shape[2])
    assert ((index < 0) | (index % sizes["rope"] == place[:, None])).all()

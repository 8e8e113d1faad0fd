"""How latent attention is cut: every feature of every head on one row, every shared feature on one column."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wse_mappings.cuts.latent_cut import LatentCut, latent_cut

SIZES = st.integers(1, 9)


@st.composite
def cuts(draw: st.DrawFn) -> tuple[LatentCut, dict[str, int]]:
    sizes = {name: draw(SIZES) for name in ("source", "latent", "hidden", "heads", "nope", "rope", "value")}
    return latent_cut(draw(st.integers(1, 12)), draw(st.integers(1, 12)), **sizes), sizes


@given(cuts())
def test_everything_is_held_once(made: tuple[LatentCut, dict[str, int]]) -> None:
    cut, sizes = made
    for name in ("source", "latent", "hidden"):
        index = getattr(cut, name)
        assert sorted(index[index >= 0]) == list(range(sizes[name]))
    for name in ("nope", "rope", "value"):
        index = getattr(cut, name)
        assert sorted(index[index >= 0]) == list(range(sizes["heads"] * sizes[name]))


@given(cuts())
def test_a_row_has_features_of_its_own_heads_alone_head_after_head(made: tuple[LatentCut, dict[str, int]]) -> None:
    cut, sizes = made
    for name in ("nope", "rope", "value"):
        index = getattr(cut, name).reshape(*cut.heads.shape, -1)
        head = np.where(index >= 0, index // sizes[name], cut.heads[:, :, None])
        assert (head == cut.heads[:, :, None]).all()
    index = cut.rope.reshape(*cut.heads.shape, -1)
    place = cut.first_rotated + np.arange(index.shape[2])
    assert ((index < 0) | (index % sizes["rope"] == place[:, None])).all()

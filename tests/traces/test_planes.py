"""Words on links by layer: what does not fit the mesh or the totals is reported, and not laid."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from wse_traces import TraceError, open_trace, problems
from wse_traces.planes import layer_link_words


@pytest.mark.parametrize(
    ("path", "row", "value", "message"),
    [
        ("links/patterns/rows", 0, 7, "links/patterns/rows[0]: 7, needed: 0 to the 6 of the mesh"),
        ("links/patterns/cols", 0, 2, "links/patterns/words[0]: words beyond its 2x2 PEs, needed: 0 there"),
        ("links/patterns/rows", 1, 5, "links/patterns/words[1]: words beyond its 5x5 PEs, needed: 0 there"),
        ("links/layers/pattern", 1, 3, "links/layers/pattern[1]: 3, needed: an index into 3 rows of 'pattern'"),
        ("links/layers/pattern", 1, -1, "links/layers/pattern[1]: -1, needed: an index into 3 rows of 'pattern'"),
        ("links/layers/wafer", 2, -1, "links/layers/wafer[2]: -1, needed: an index into 2 rows of 'wafer'"),
        ("links/layers/layer", 1, 0, "links/layers/layer[0]: layer 0 is on wafer 0 2 times, needed: once"),
        ("links/layers/row", 1, 5, "links/layers/row[1]: 2 rows from 5 leave the mesh of 6"),
        ("links/layers/col", 1, 3, "links/layers/col[1]: 3 cols from 3 leave the mesh of 5"),
        ("links/layers/row", 1, 3, "links/words[0]: not the sum of the layers' words on 24 links"),
        ("links/layers/wafer", 1, 1, "links/words[1]: not the sum of the layers' words on 24 links"),
    ],
)
def test_layers_that_do_not_fit_are_told(copy, path, row, value, message):
    with h5py.File(copy, "r+") as file:
        file[path][row] = value
    found = problems(copy)
    assert any(line.startswith(message) for line in found), found


def test_layers_need_not_add_up_in_an_unfinished_trace(copy):
    with h5py.File(copy, "r+") as file:
        file["links/words"][0, 1, 3, :2] += np.array([7, -7])
    assert problems(copy) == ["links/words[0]: not the sum of the layers' words on 2 links"]
    with h5py.File(copy, "r+") as file:
        file.attrs.modify("complete", np.bool_(0))
    assert problems(copy) == []


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("links/layers/pattern", 3, "pattern 3 is missing"),
        ("links/layers/row", 2**31 - 1, "row 0 leaves the mesh"),
        ("links/layers/col", -1, "row 0 leaves the mesh"),
        ("links/patterns/cols", 6, "row 0 leaves the mesh"),
    ],
)
def test_layers_outside_of_the_mesh_are_not_laid(copy, path, value, message):
    with h5py.File(copy, "r+") as file:
        file[path][0] = value
    with open_trace(copy) as trace, pytest.raises(TraceError, match=f"{message}; make the trace again"):
        layer_link_words(trace, wafer=0)

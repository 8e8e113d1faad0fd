"""Words on links by layer: what does not fit the mesh or the totals is reported, and not laid."""

from __future__ import annotations

import h5py
import pytest

from wse_traces import TraceError, open_trace
from wse_traces.reader.planes import layer_link_words


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

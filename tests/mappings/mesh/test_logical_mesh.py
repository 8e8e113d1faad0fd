"""Tests of the logical mesh: it is complete, and each of its links is a path over live PEs and links."""

from collections import defaultdict
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wse_mappings.mesh.faults import FabricFaults, shortest_route
from wse_mappings.mesh.logical_mesh import ALONG_COLUMNS, ALONG_ROWS, LogicalMesh, usable_shape
from wse_mappings.mesh.placement import Rect

Place = tuple[int, int]


@st.composite
def fabrics(draw: st.DrawFn, shape: tuple[int, int] | None = None) -> FabricFaults:
    """Return a fabric of up to 12x12 PEs with random dead PEs and links."""
    rows, cols = shape or (draw(st.integers(1, 12)), draw(st.integers(1, 12)))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    rates = [draw(st.sampled_from([0.0, 0.05, 0.2, 0.5])) for _ in range(3)]
    dead, east, south = (random.random((rows, cols)) < rate for rate in rates)
    east[:, -1], south[-1] = False, False
    return FabricFaults(dead=dead, east=east, south=south)


def graph_of(broken: FabricFaults) -> nx.Graph:
    """Return the graph of live PEs and working links, computed independently of the tested code."""
    rows, cols = broken.shape
    graph = nx.Graph()
    for row in range(rows):
        for col in range(cols):
            if broken.dead[row, col]:
                continue
            graph.add_node((row, col))
            if col + 1 < cols and not broken.dead[row, col + 1] and not broken.east[row, col]:
                graph.add_edge((row, col), (row, col + 1))
            if row + 1 < rows and not broken.dead[row + 1, col] and not broken.south[row, col]:
                graph.add_edge((row, col), (row + 1, col))
    return graph


def mesh_on(broken: FabricFaults) -> LogicalMesh | None:
    """Return the logical mesh on a fabric, or None if no PE is usable."""
    shape = usable_shape([broken])
    return LogicalMesh.on(broken, *shape) if all(shape) else None


def link_paths(mesh: LogicalMesh, axis: int) -> dict[Place, list[Place]]:
    """Return the PEs of the path of each logical link to the east or south, hop by hop."""
    found: dict[Place, list[Place]] = defaultdict(list)
    across = mesh.links(axis)[1]
    for link, row, col, down, right in np.stack(mesh.segments(axis), axis=1).tolist():
        path = found[divmod(link, across)]
        if path:
            assert path[-1] == (row, col), "a segment begins where the last one ended"
        else:
            path.append((row, col))
        for _ in range(abs(down) + abs(right)):
            row, col = row + np.sign(down), col + np.sign(right)
            path.append((int(row), int(col)))
    return found


@given(fabrics())
def test_unreachable_pes_are_all_outside_the_largest_connected_part(broken: FabricFaults) -> None:
    parts = sorted(map(len, nx.connected_components(graph_of(broken))))
    left = {tuple(place) for place in np.argwhere(~broken.unreachable).tolist()}
    assert len(left) == (parts[-1] if parts else 0)
    assert not left or nx.is_connected(graph_of(broken).subgraph(left))


@given(fabrics())
def test_logical_pes_are_distinct_live_pes_in_order(broken: FabricFaults) -> None:
    mesh = mesh_on(broken)
    if mesh is None:
        assert broken.unreachable.all()
        return
    assert (np.diff(mesh.row_of) > 0).all()
    assert (np.diff(mesh.col_of, axis=1) > 0).all()
    assert not broken.unreachable[mesh.row_of[:, None], mesh.col_of].any()


@given(fabrics())
def test_links_are_shortest_paths_over_live_pes_and_links(broken: FabricFaults) -> None:
    mesh = mesh_on(broken)
    if mesh is None:
        return
    graph = graph_of(broken)
    for axis in (ALONG_ROWS, ALONG_COLUMNS):
        found = link_paths(mesh, axis)
        rows, cols = mesh.links(axis)
        assert len(found) == rows * cols
        for (row, col), path in found.items():
            other = (row, col + 1) if axis == ALONG_ROWS else (row + 1, col)
            assert path[0] == (mesh.row_of[row], mesh.col_of[row, col])
            assert path[-1] == (mesh.row_of[other[0]], mesh.col_of[other])
            assert all(graph.has_edge(one, next_) for one, next_ in pairwise(path))
            assert len(path) - 1 == mesh.hops[axis][row, col] == nx.shortest_path_length(graph, path[0], path[-1])


@given(fabrics(), st.integers(0, 2**32))
def test_words_cross_the_links_of_the_paths_in_both_directions(broken: FabricFaults, seed: int) -> None:
    mesh = mesh_on(broken)
    if mesh is None:
        return
    rows, cols = mesh.shape
    words = np.random.default_rng(seed).integers(0, 1000, (4, rows, cols))
    words[0, 0], words[1, :, -1], words[2, -1], words[3, :, 0] = 0, 0, 0, 0  # no words leave the mesh
    expected = np.zeros((4, *broken.shape), np.int64)
    direction = {(-1, 0): 0, (0, 1): 1, (1, 0): 2, (0, -1): 3}
    for axis, (out, back) in ((ALONG_ROWS, (1, 3)), (ALONG_COLUMNS, (2, 0))):
        for (row, col), path in link_paths(mesh, axis).items():
            other = (row, col + 1) if axis == ALONG_ROWS else (row + 1, col)
            for one, two in pairwise(path):
                step = (two[0] - one[0], two[1] - one[1])
                expected[direction[step], *one] += words[out, row, col]
                expected[direction[-step[0], -step[1]], *two] += words[back, *other]
    np.testing.assert_array_equal(mesh.physical_words(words), expected)


@given(fabrics(), st.data())
def test_streams_are_the_paths_of_a_rectangle_that_share_a_link(broken: FabricFaults, data: st.DataObject) -> None:
    mesh = mesh_on(broken)
    if mesh is None:
        return
    top, left = (data.draw(st.integers(0, side - 1)) for side in mesh.shape)
    height, width = data.draw(st.integers(1, mesh.shape[0] - top)), data.draw(st.integers(1, mesh.shape[1] - left))
    for axis in (ALONG_ROWS, ALONG_COLUMNS):
        uses: dict[tuple[Place, Place], int] = defaultdict(int)
        for (row, col), path in link_paths(mesh, axis).items():
            last_row, last_col = row + (axis == ALONG_COLUMNS), col + (axis == ALONG_ROWS)
            if top <= row and last_row < top + height and left <= col and last_col < left + width:
                for hop in pairwise(path):
                    uses[hop] += 1
        assert mesh.streams(axis, Rect(top, left, height, width)) == max(uses.values(), default=1)


@given(st.lists(fabrics((7, 6)), min_size=1, max_size=3))
def test_usable_shape_maximises_the_pes_of_all_wafers(several: list[FabricFaults]) -> None:
    rows, cols = usable_shape(several)

    def usable_rows(width: int) -> int:
        return min(int(((~fabric.unreachable).sum(axis=1) >= width).sum()) for fabric in several)

    assert rows * cols == max(width * usable_rows(width) for width in range(1, 7))
    assert rows == (usable_rows(cols) if cols else 0)
    for fabric in several if rows else []:
        assert LogicalMesh.on(fabric, rows, cols).shape == (rows, cols)


def test_row_is_skipped_if_that_loses_fewer_pes() -> None:
    dead = np.zeros((6, 6), bool)
    dead[2, :4] = True  # skipping this row loses fewer PEs than skipping four columns
    dead[4, 1] = True
    broken = FabricFaults(dead=dead, east=np.zeros_like(dead), south=np.zeros_like(dead))
    mesh = LogicalMesh.on(broken, *usable_shape([broken]))
    assert mesh.shape == (5, 5)
    assert mesh.row_of.tolist() == [0, 1, 3, 4, 5]
    assert (mesh.col_of == [0, 2, 3, 4, 5]).all()  # all rows skip the column of the other dead PE
    assert mesh.hops[ALONG_ROWS][2].tolist() == [2, 1, 1, 1]  # straight path
    assert mesh.hops[ALONG_ROWS][3].tolist() == [4, 1, 1, 1]  # detour around the dead PE through a neighbouring row
    assert mesh.hops[ALONG_COLUMNS][1].tolist() == [10, 6, 4, 2, 2]  # through the skipped row
    assert mesh.hops[ALONG_COLUMNS][2].tolist() == [1, 1, 1, 1, 1]


def test_too_many_rows_and_unconnected_pes_are_refused() -> None:
    dead = np.zeros((2, 3), bool)
    dead[:, 1] = True
    broken = FabricFaults(dead=dead, east=np.zeros_like(dead), south=np.zeros_like(dead))
    with pytest.raises(ValueError, match="3x1 PEs need 3 rows with 1 live PEs; the fabric has 2"):
        LogicalMesh.on(broken, 3, 1)
    with pytest.raises(ValueError, match="no route from PE"):
        shortest_route(broken, (0, 0), (0, 2))

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.helpers import refusal
from wse.errors import BadMesh
from wse.hardware.load import load_wafer
from wse.hardware.mesh import mesh_on, parse_mesh


@given(rows=st.integers(1, 10_000), cols=st.integers(1, 10_000), sign=st.sampled_from("xX×"))
def test_rows_come_first(rows: int, cols: int, sign: str) -> None:
    assert parse_mesh(f"{rows}{sign}{cols}") == (rows, cols)
    assert parse_mesh(f" {rows} {sign} {cols} ") == (rows, cols)


def test_a_mesh_changes_only_the_sides() -> None:
    wafer = load_wafer("wse2")
    small = mesh_on(wafer, 16, 24)
    assert (small.mesh_rows, small.mesh_cols) == (16, 24)
    assert dataclasses.replace(small, mesh_rows=994, mesh_cols=750) == wafer
    assert mesh_on(wafer, 994, 750) == wafer


@pytest.mark.parametrize(
    ("rows", "cols", "remedy"),
    [(995, 750, "give a smaller mesh, or use more wafers"), (750, 994, "rows come first: 994x750 fits")],
)
def test_a_mesh_larger_than_the_wafer_is_refused_with_both_sizes(rows: int, cols: int, remedy: str) -> None:
    assert refusal(BadMesh, mesh_on, load_wafer("wse2"), rows, cols) == (
        f"mesh {rows}x{cols} is larger than wse2, which has 994x750 PEs; {remedy}"
    )


@pytest.mark.parametrize(("rows", "cols"), [(0, 4), (4, -1)])
def test_a_mesh_without_pes_is_refused(rows: int, cols: int) -> None:
    assert refusal(BadMesh, mesh_on, load_wafer("wse2"), rows, cols) == (
        f"mesh {rows}x{cols}: each side must be at least 1"
    )

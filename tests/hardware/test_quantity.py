"""Tests of reading quantities with units, factors and mesh sizes."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.helpers import refusal
from wse.errors import BadMesh
from wse.hardware.load import load_wafer
from wse.hardware.quantity import COUNT, TOKEN, read_factor, read_quantity, units_for, whole_number
from wse.hardware.spec import mesh_on, parse_mesh


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("875_000_000", "Hz", 875_000_000),
        ("1.1 GHz", "Hz", 1_100_000_000),
        ("96KiB", "byte/PE", 98_304),
        ("300GB/s", "byte/s", 300 * 10**9),
        ("0.5us", "s", 5e-7),
        ("0.5µs", "s", 5e-7),
        ("200 ms", "s", 0.2),
        ("5e-6", "s", 5e-6),
        (".5", "1", 0.5),
        ("-1", "cycle", -1),
        ("1k", "row", 1_000),
        ("4Ki", "row", 4_096),
        ("128k", TOKEN, 131_072),
        ("128Ki", TOKEN, 131_072),
        ("1M", TOKEN, 1_048_576),
        ("10k", COUNT, 10_000),
        ("2.5M", COUNT, 2_500_000),
        ("500ns", "µs", 0.5),
        ("2.4TB/s", "GB/s", 2_400),
        ("23kW", "W", 23_000),
        ("20k", "W", 20_000),
    ],
)
def test_quantity_is_a_number_in_the_unit_of_its_field(text: str, unit: str, value: float) -> None:
    read = read_quantity(text, unit)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize("text", ["", "fast", "1 THz", "1 GB", "1,5", "nan", "inf", "0x10", "1 2", "9" * 50, "١"])
def test_text_that_is_no_quantity_is_none(text: str) -> None:
    assert read_quantity(text, "Hz") is None


@pytest.mark.parametrize("text", ["48k", "96K", "1M"])
def test_bytes_need_a_unit_that_says_whether_k_is_1000_or_1024(text: str) -> None:
    assert read_quantity(text, "byte/PE") is None


@pytest.mark.parametrize(
    ("text", "unit", "number"),
    [
        ("9007199254740993", TOKEN, 9_007_199_254_740_993),
        ("-3", COUNT, -3),
        ("1.5k", COUNT, 1_500),
        ("1.5k", TOKEN, 1_536),
        ("0.3k", TOKEN, None),
        ("0.3k", COUNT, 300),
        ("4k", "", None),
        ("1_000", "", None),
        ("1_000", COUNT, None),
        ("1e3k", COUNT, None),
        ("-1k", COUNT, -1_000),
        ("9" * 20, COUNT, None),
        ("4 k", COUNT, 4_000),
        ("4m", COUNT, None),
    ],
)
def test_whole_number_may_have_prefixes_if_its_unit_is_known(text: str, unit: str, number: int | None) -> None:
    assert whole_number(text, unit) == number


def test_number_of_a_kind_without_units_has_none() -> None:
    assert units_for("cycle") == ()
    assert read_quantity("2", "cycle") == 2
    assert read_quantity("2 s", "cycle") is None


@pytest.mark.parametrize(("text", "factor"), [("x2", 2), ("×0.5", 0.5), ("* 1e3", 1000), ("x 2", 2)])
def test_factor_is_read(text: str, factor: float) -> None:
    assert read_factor(text) == factor


@pytest.mark.parametrize("text", ["2", "2x", "x", "x0", "x-2", "xx2", "x2GHz", "x1e999"])
def test_text_that_is_no_factor_is_none(text: str) -> None:
    assert read_factor(text) is None


@given(rows=st.integers(1, 10_000), cols=st.integers(1, 10_000), sign=st.sampled_from("xX×"))
def test_mesh_has_rows_first(rows: int, cols: int, sign: str) -> None:
    assert parse_mesh(f"{rows}{sign}{cols}") == (rows, cols)
    assert parse_mesh(f" {rows} {sign} {cols} ") == (rows, cols)


def test_mesh_changes_only_the_sides_of_a_wafer() -> None:
    wafer = load_wafer("wse2")
    small = mesh_on(wafer, 16, 24)
    assert (small.mesh_rows, small.mesh_cols) == (16, 24)
    assert dataclasses.replace(small, mesh_rows=994, mesh_cols=750) == wafer
    assert mesh_on(wafer, 994, 750) == wafer


@pytest.mark.parametrize(("rows", "cols"), [(0, 4), (4, -1)])
def test_a_mesh_without_pes_is_refused(rows: int, cols: int) -> None:
    assert refusal(BadMesh, mesh_on, load_wafer("wse2"), rows, cols) == (
        f"mesh {rows}x{cols}: each side must be at least 1"
    )

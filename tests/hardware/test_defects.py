"""Tests of dead PEs and links: reading files and rates, and refusing bad ones."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hardware.helpers import refusal
from wse.errors import BadDefects
from wse.hardware.defects import FILE_LIMIT_BYTES, read_defects
from wse.hardware.load import load_wafer
from wse.hardware.spec import mesh_on

WAFER = mesh_on(load_wafer("wse2"), 6, 8)


def write_csv(folder: Path, text: str) -> Path:
    """Write a CSV file and return its path."""
    path = folder / "dead.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_file_has_pes_and_links_of_all_wafers_or_of_one(tmp_path: Path) -> None:
    path = write_csv(tmp_path, "wafer,row,col,direction\n,1,2,\n1,3,4,\n,5,7,north\n0,0,3,west\n0, 2 ,0,east\n")
    defects = read_defects(str(path), 0, WAFER)
    first, second = defects.on(0), defects.on(1)
    assert np.argwhere(first.dead).tolist() == [[1, 2]]
    assert np.argwhere(second.dead).tolist() == [[1, 2], [3, 4]]
    # The link north of row 5 is the link south of row 4.
    assert np.argwhere(first.south).tolist() == np.argwhere(second.south).tolist() == [[4, 7]]
    assert np.argwhere(first.east).tolist() == [[0, 2], [2, 0]]
    assert not second.east.any()
    assert (first.links, second.links) == (3, 1)


def test_file_may_have_two_columns_and_no_defects(tmp_path: Path) -> None:
    assert np.argwhere(read_defects(str(write_csv(tmp_path, "col,row\n7,5\n")), 0, WAFER).on(3).dead).tolist() == [
        [5, 7]
    ]
    assert not read_defects(str(write_csv(tmp_path, "row,col\n")), 0, WAFER).on(0).dead.any()


def test_corner_has_the_defects_of_its_part_of_the_wafer(tmp_path: Path) -> None:
    path = write_csv(tmp_path, "row,col,direction\n1,2,\n2,3,east\n3,1,south\n5,5,\n")
    corner = read_defects(str(path), 0, WAFER).on(0).corner(4, 4)
    assert np.argwhere(corner.dead).tolist() == [[1, 2]]
    assert corner.links == 0  # both links lead out of the corner


def test_rate_draws_each_pe_of_each_wafer_independently() -> None:
    large = mesh_on(load_wafer("wse2"), 400, 500)
    drawn = [read_defects("0.01", seed, large).on(wafer).dead for seed, wafer in ((0, 0), (0, 1), (1, 0), (0, 0))]
    np.testing.assert_array_equal(drawn[0], drawn[3])
    for one in drawn[:3]:
        assert abs(int(one.sum()) - 2000) < 5 * np.sqrt(2000)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (drawn[one] & drawn[other]).sum() < 60  # the expected number is 20 if wafers are independent
    assert not read_defects("0", 0, large).on(0).dead.any()


@pytest.mark.parametrize("rate", ["nan", "inf", "-inf", "-1e-9", "1", "1.5"])
def test_rate_outside_of_0_to_1_is_refused(rate: str) -> None:
    message = refusal(BadDefects, read_defects, rate, 0, WAFER)
    assert message == f"--defects {rate}: give a rate of at least 0 and below 1, such as 1e-4, or a CSV file"


BAD: list[tuple[str, str]] = [
    ("row,col\n6,0\n", " line 2: row = 6: wse2 has rows 0 to 5"),
    ("row,col\n-1,0\n", " line 2: row = '-1': give a whole number of at least 0"),
    ("row,col,wafer\n1,1,x\n", " line 2: wafer = 'x': give a number below 10,000 or nothing"),
    ("row,col,direction\n1,1,up\n", " line 2: direction = 'up': give north, east, south, west or nothing"),
    ("row,col,direction\n0,1,north\n", " line 2: PE 0,1 has no neighbour north on wse2; give a link between PEs"),
    ("row,col,direction\n1,7,east\n", " line 2: PE 1,7 has no neighbour east on wse2; give a link between PEs"),
    ("row,col\n1,1\n2,2\n1,1\n", " line 4: names a PE that line 2 names already; leave one of them out"),
    ("row,col,wafer\n1,1,0\n1,1,\n", " line 3: names a PE that line 2 names already; leave one of them out"),
    ("row,col,direction\n1,1,east\n1,2,west\n", " line 3: names a link that line 2 names already"),
    ("row,col\n1\n", " line 2: has another number of values than the header"),
    ("", ": has the header ''; give row,col and, where wanted, direction and wafer, each once"),
    ("row,col,col\n", ": has the header 'row,col,col'; give row,col and, where wanted, direction and wafer, each once"),
    ('row,col\n"1,2\n', ": not CSV: unexpected end of data; give lines such as 3,5 under the header row,col"),
]


@pytest.mark.parametrize(("text", "tail"), BAD)
def test_bad_file_is_refused_with_its_line(text: str, tail: str, tmp_path: Path) -> None:
    path = write_csv(tmp_path, text)
    assert refusal(BadDefects, read_defects, str(path), 0, WAFER).startswith(f"{path}{tail}")


def test_same_pe_on_two_wafers_is_no_repetition(tmp_path: Path) -> None:
    path = write_csv(tmp_path, "row,col,wafer\n1,1,0\n1,1,1\n")
    assert [int(read_defects(str(path), 0, WAFER).on(wafer).dead.sum()) for wafer in range(3)] == [1, 1, 0]


def test_missing_binary_and_large_files_are_refused(tmp_path: Path) -> None:
    missing = tmp_path / "none.csv"
    assert refusal(BadDefects, read_defects, str(missing), 0, WAFER) == (
        f"{missing}: does not exist; give the path of a CSV file of dead PEs and links, or a rate such as 1e-4"
    )
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"row,col\n\xff\xfe\n")
    assert refusal(BadDefects, read_defects, str(binary), 0, WAFER).startswith(f"{binary}: not CSV: 'utf-8' codec")
    large = tmp_path / "large.csv"
    with large.open("wb") as stream:
        stream.truncate(FILE_LIMIT_BYTES + 1)
    assert "is over 16,777,216 bytes" in refusal(BadDefects, read_defects, str(large), 0, WAFER)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.one_of(
        st.binary(max_size=60), st.text(alphabet='row,cl\n"0123456789-e \0wafr', max_size=60).map(str.encode)
    )
)
def test_any_other_bytes_are_refused_or_read(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "any.csv"
    path.write_bytes(b"row,col\n" + data)
    try:
        defects = read_defects(str(path), 0, WAFER)
    except BadDefects:
        refusal(BadDefects, read_defects, str(path), 0, WAFER)  # checks that the message is one line
    else:
        assert defects.on(0).dead.shape == (6, 8)

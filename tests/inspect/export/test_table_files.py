"""Tests of the export of traces as CSV, Parquet and PNG files."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import image
from tiers import slow_but

from tests.inspect.runs import export
from tests.traces.conftest import HEADER, write
from wse.tracing.export import maps
from wse_traces import Token, TraceWriter
from wse_traces.schema import BY_PATH, CAUSES, DIRECTIONS, KINDS

FORMULA = '=cmd|"/c calc"!A0'


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return write(tmp_path / "sample.h5")


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read_rows(to: str, folder: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of an exported table with all values as strings, so that CSV and Parquet can be compared."""
    if to == "csv":
        return read_csv(folder / f"{table}.csv")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    rows = parquet.read_table(folder / f"{table}.parquet").to_pylist()
    return [{name: str(value) for name, value in row.items()} for row in rows]


@pytest.mark.parametrize("to", slow_but(["csv", "parquet"], "csv"))
def test_steps_and_tokens_equal_those_read_with_h5py(to: str, sample: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    facts = export(sample, to, out)
    with h5py.File(sample) as f:
        steps = {name: column[:] for name, column in f["steps"].items()}
        texts, ends = bytes(f["tokens/text"][:]), f["tokens/text_end"][:].tolist()
        names = [name.decode() for name in f["strings/names"][:]]
        wall = f["passes/wall_s"][:].tolist()
    rows = read_rows(to, out, "step")
    assert [int(row["start_cycle"]) for row in rows] == steps["start_cycle"].tolist()
    assert [row["kind"] for row in rows] == [KINDS[code] for code in steps["kind"]]
    assert [row["name_text"] for row in rows] == [names[i] for i in steps["name"]]
    assert [[int(row[f"cycles_by_{cause}"]) for cause in CAUSES] for row in rows] == steps["cycles_by"].tolist()
    tokens = read_rows(to, out, "token")
    assert [row["text"] for row in tokens] == [texts[a:b].decode() for a, b in zip([0, *ends], ends, strict=False)]
    assert {row["is_prompt"] for row in tokens} == {"prompt", "generated"}
    assert [float(row["wall_s"]) for row in read_rows(to, out, "pass")] == wall
    if to == "csv":
        run = json.loads((out / "run.json").read_text())
        assert run["model"] == HEADER.model
        assert run["report"]["text"] == "é"
        assert run["options"] == dict(HEADER.options)
    assert facts.rows > len(rows)


@pytest.mark.parametrize("to", slow_but(["csv", "parquet"], "csv"))
def test_planes_have_one_row_per_pe(to: str, sample: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(sample, to, out, planes=True)
    with h5py.File(sample) as f:
        words = f["links/words"][:]
        busy = f["pe/busy_cycles"][:]
    for row in (rows := read_rows(to, out, "links_words")):
        place = tuple(int(row[name]) for name in ("wafer", "row", "col"))
        assert [int(row[f"{d}_words"]) for d in DIRECTIONS] == words[place[0], :, place[1], place[2]].tolist()
    assert len(rows) == words[:, 0].size
    assert [int(row["busy_cycles"]) for row in read_rows(to, out, "pe_busy_cycles")] == busy.ravel().tolist()


def test_columns_csv_describes_every_column(sample: Path, tmp_path: Path) -> None:
    export(sample, "csv", tmp_path / "out", planes=True)
    descriptions = read_csv(tmp_path / "out" / "columns.csv")
    for path in (tmp_path / "out").glob("*.csv"):
        if path.name != "columns.csv":
            with path.open(encoding="utf-8", newline="") as file:
                assert next(csv.reader(file)) == [row["column"] for row in descriptions if row["file"] == path.name]
    cycles = next(row for row in descriptions if (row["file"], row["column"]) == ("step.csv", "cycles_by_hops"))
    assert (cycles["unit"], cycles["dataset"]) == ("cycle", "steps/cycles_by")
    assert cycles["meaning"] == BY_PATH["steps/cycles_by"].doc


@pytest.mark.slow
def test_parquet_fields_have_their_units(sample: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    export(sample, "parquet", tmp_path / "out", what="step,crossing")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["crossing.parquet", "step.parquet"]
    schema = parquet.read_schema(tmp_path / "out" / "crossing.parquet")
    assert schema.field("bytes").metadata[b"unit"] == b"B"
    assert schema.field("bytes").metadata[b"doc"].decode() == BY_PATH["crossings/bytes"].doc
    assert json.loads(schema.metadata[b"run"])["model"] == HEADER.model


def test_csv_escapes_texts_that_look_like_formulas(tmp_path: Path) -> None:
    path = tmp_path / "hostile.h5"
    with TraceWriter(path, HEADER) as trace:
        trace.append("op", {"name": [FORMULA, "<script>"], "kind": ["-1+2", "a\nb"], "layer": [0, 1], "stage": [0, 0]})
        trace.append_tokens(
            Token(token_id=1, text=b"@SUM(A1)\x1b[2J\xff", is_prompt=True, pass_index=-1, position=0, sequence=0)
        )
        trace.write_summary({"wall_s": float("inf")})
    export(path, "csv", tmp_path / "out", what="op,token")
    ops, tokens = (read_csv(tmp_path / "out" / f"{name}.csv") for name in ("op", "token"))
    assert [(row["name"], row["kind"]) for row in ops] == [(f"'{FORMULA}", "'-1+2"), ("<script>", "a\\nb")]
    assert tokens[0]["text"] == "'@SUM(A1)\\x1b[2J�"
    assert tokens[0]["pass"] == "-1"  # numbers are not escaped


ROWS, COLS = 7, 5


def write_planes(path: Path, rows: int, cols: int, **options: Any) -> Path:
    """Write a trace of one wafer whose planes (links, busy cycles, SRAM) contain multiples of the index of the PE."""
    header = replace(HEADER, rows=rows, cols=cols, wafers=1, options=options, model="$x_$ <b>\n")
    numbers = np.arange(rows * cols).reshape(rows, cols)
    with TraceWriter(path, header) as trace:
        place = {"wafer": [0], "row": [1], "col": [1], "rows": [2], "cols": [2], "first_layer": [0], "last_layer": [0]}
        trace.append("stage", {**place, "stage_bytes": np.zeros((1, 6), int)})
        trace.append_plane("links/words", np.stack([numbers * 0, numbers, 3 * numbers[::-1], 5 * numbers]))
        trace.append_plane("pe/busy_cycles", numbers + 2**40)
        used = np.stack([numbers, numbers, numbers * 0, numbers * 0, numbers * 0, 1000 - 2 * numbers])
        trace.append_plane("sram/bytes_per_pe", used)
        trace.write_summary({})
    return path


def draw(trace: Path, out: Path, what: str | None = None) -> dict[str, Any]:
    """Export a trace as PNG files; return the images by file name without suffix."""
    export(trace, "png", out, what=what)
    return {path.stem: image.imread(path) for path in sorted(out.iterdir())}


def pixel(picture: Any, row: int, col: int, rows: int, cols: int) -> Any:
    """Return the colour of a PE, at a quarter of its size, because the name of a stage may cover the middle."""
    scale = max(1, maps.MAX_SIDE_PX // max(rows, cols))
    y = maps.TOP + int((row + 0.25) * scale)
    return picture[y, maps.LEFT + int((col + 0.25) * scale), :3]


@pytest.mark.parametrize(("rows", "cols"), [(ROWS, COLS), pytest.param(300, 1000, marks=pytest.mark.slow)])
def test_pixels_have_the_colour_of_their_value(rows: int, cols: int, tmp_path: Path) -> None:
    pictures = draw(write_planes(tmp_path / "t.h5", rows, cols), tmp_path / "out")
    assert set(pictures) == {f"wafer-0-{k}" for k in ("sram", "busy", "links", "north", "east", "south", "west")}
    numbers = np.arange(rows * cols).reshape(rows, cols)
    expected = {
        "sram": 2 * numbers / 1000,
        "links": (6 * numbers + 3 * numbers[::-1]) / (6 * numbers + 3 * numbers[::-1]).max(),
        "east": numbers / numbers.max(),
        "south": numbers[::-1] / numbers.max(),
        "north": numbers * 0.0,
    }
    colours = mpl.colormaps["viridis"]
    for kind, values in expected.items():
        for row, col in ((0, 0), (0, cols - 1), (rows - 1, 0), (rows - 1, cols - 1), (rows // 2, cols // 2)):
            if (rows, cols) == (ROWS, COLS) or 0 < row < rows - 1:  # a line covers the pixels at the edge
                found = pixel(pictures[f"wafer-0-{kind}"], row, col, rows, cols)
                assert np.abs(found - colours(float(values[row, col]))[:3]).max() < 0.02, (kind, row, col)


def test_full_wafer_is_drawn_with_one_pixel_per_pe(tmp_path: Path) -> None:
    picture = draw(write_planes(tmp_path / "t.h5", 994, 750), tmp_path / "out", "east")["wafer-0-east"]
    height, width = 994 + maps.TOP + maps.BOTTOM, 750 + maps.LEFT + maps.RIGHT
    assert picture.shape[:2] == (height, width)

"""Dead PEs and links of wafers, read from a file or randomly drawn.

A file is CSV with the columns ``row`` and ``col`` and, optionally, ``direction`` and ``wafer``. A
line without a direction is a dead PE. A line with a direction (north, east, south or west) is the
dead link between a PE and that neighbour, in both directions. A line without a wafer applies to all
wafers. Rows and columns count from 0 at the north-west corner of the full wafer. A smaller mesh is
this corner; defects outside it do not matter.

With a rate, every PE of every wafer is independently dead with this probability. Links are not
drawn, because published redundancy figures count faults per core.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import numpy as np
import numpy.typing as npt
import pydantic

from wse.errors import BadDefects
from wse.files import read_file
from wse.hardware.spec import WaferSpec
from wse_mappings.mesh.faults import FabricFaults

FILE_LIMIT_BYTES: Final = 2**24
MAX_WAFERS: Final = 10_000
LARGEST_SEED: Final = 2**63 - 1
_COLUMNS: Final = ("row", "col", "direction", "wafer")
_ALL_WAFERS: Final = -1

I64 = npt.NDArray[np.int64]


class _Line(pydantic.BaseModel):
    """Checked values of one line of a defect CSV file: a dead PE, or a dead link of a PE."""

    model_config = pydantic.ConfigDict(extra="forbid")

    row: Annotated[int, pydantic.Field(ge=0)]
    col: Annotated[int, pydantic.Field(ge=0)]
    direction: Literal["", "north", "east", "south", "west"] = ""
    wafer: Annotated[int, pydantic.Field(ge=0, lt=MAX_WAFERS)] | Literal[""] = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Defects:
    """Dead PEs and dead links of wafers of one type.

    Attributes:
        option: The file or the rate, as given to ``--defects``.
        rows, cols: Size of the full wafer.
        rate: Probability that a PE is dead; None if a file lists the defects.
        seed: Seed for the random choice of dead PEs.
        listed_defects: int64 [n, 4]. The columns are the wafer (-1 for all wafers), row, column,
            and what is dead: 0 for the PE, 1 for the link to its east, 2 for the link to its south.
    """

    option: str
    rows: int
    cols: int
    rate: float | None
    seed: int
    listed_defects: I64

    def on(self, wafer: int) -> FabricFaults:
        """Return the dead PEs and links of one wafer, given its index.

        If only a rate is known, the dead PEs are drawn at random, always the same for the same
        index.
        """
        planes = np.zeros((3, self.rows, self.cols), bool)
        if self.rate is not None:
            planes[0] = np.random.default_rng([self.seed, wafer]).random((self.rows, self.cols)) < self.rate
        on_wafer = self.listed_defects[np.isin(self.listed_defects[:, 0], (wafer, _ALL_WAFERS))]
        planes[on_wafer[:, 3], on_wafer[:, 1], on_wafer[:, 2]] = True
        return FabricFaults(dead=planes[0], east=planes[1], south=planes[2])


def check_seed(seed: int) -> None:
    """Raise BadDefects if a seed is outside the accepted range."""
    if not 0 <= seed <= LARGEST_SEED:
        raise BadDefects(f"--defects-seed {seed}: give a whole number from 0 to {LARGEST_SEED}")


def read_defects(option: str | Path, seed: int, wafer: WaferSpec) -> Defects:
    """Return the defects that the value of ``--defects`` describes.

    Args:
        option: Probability that a PE is dead, such as 1e-4, or the path of a CSV file that lists
            dead PEs and links.
        seed: Seed for the random choice of dead PEs.
        wafer: The full wafer.

    Raises:
        BadDefects: The probability is not at least 0 and below 1, the seed is out of range, the
            file cannot be read, or a PE or link in it is outside the wafer or listed twice.
    """
    check_seed(seed)
    rows, cols = wafer.mesh_rows, wafer.mesh_cols
    try:
        rate = float(str(option))
    except ValueError:
        listed_defects = _read_list(Path(option), wafer)
        return Defects(option=str(option), rows=rows, cols=cols, rate=None, seed=seed, listed_defects=listed_defects)
    if not math.isfinite(rate) or not 0 <= rate < 1:
        raise BadDefects(f"--defects {option}: give a rate of at least 0 and below 1, such as 1e-4, or a CSV file")
    return Defects(
        option=str(option), rows=rows, cols=cols, rate=rate, seed=seed, listed_defects=np.zeros((0, 4), np.int64)
    )


def _read_list(path: Path, wafer: WaferSpec) -> I64:
    """Return the defects that a CSV file lists, int64 [n, 4].

    The columns are the same as in ``Defects.listed_defects``.

    Raises:
        BadDefects: The file cannot be read, or a line is invalid or repeats a defect.
    """
    data = read_file(path, FILE_LIMIT_BYTES, BadDefects, "a CSV file of dead PEs and links, or a rate such as 1e-4")
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig")), strict=True)
        header = [name.strip() for name in reader.fieldnames or ()]
        _check_header(path, header)
        reader.fieldnames = header
        lines_of_place: dict[tuple[int, int, int], dict[int, int]] = {}  # place -> wafer -> number of its line
        for line in reader:
            line_name = f"{path} line {reader.line_num}"
            wafer_index, *place = _place(line_name, _parse_line(line_name, line), wafer)
            lines = lines_of_place.setdefault((place[0], place[1], place[2]), {})
            earlier_line = (
                lines.get(wafer_index, lines.get(_ALL_WAFERS))
                if wafer_index != _ALL_WAFERS
                else next(iter(lines.values()), None)
            )
            if earlier_line is not None:
                kind = "link" if place[2] else "PE"
                raise BadDefects(
                    f"{line_name}: names a {kind} that line {earlier_line} names already; leave one of them out"
                )
            lines[wafer_index] = reader.line_num
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadDefects(f"{path}: not CSV: {error}; give lines such as 3,5 under the header row,col") from error
    defects = [(wafer_index, *place) for place, lines in lines_of_place.items() for wafer_index in lines]
    return np.array(defects, np.int64).reshape(-1, 4)


def _check_header(path: Path, header: list[str]) -> None:
    """Check the header of a defect file: the line that names its columns.

    Raises:
        BadDefects: ``row`` or ``col`` is missing, or a column is unknown or repeated.
    """
    missing_names = [name for name in _COLUMNS[:2] if name not in header]
    unknown_names = [name for name in header if name not in _COLUMNS]
    if missing_names or unknown_names or len(set(header)) < len(header):
        shown_header = ",".join(header)[:80]
        raise BadDefects(
            f"{path}: has the header {shown_header!r}; give row,col and, where wanted, direction and wafer, each once"
        )


def _parse_line(line_name: str, line: dict[str, str | None]) -> _Line:
    """Check one line of a defect file, a CSV file of dead PEs and links, and return its values.

    Args:
        line_name: File and line number, for messages.
        line: Text of each column, keyed by column name.

    Raises:
        BadDefects: The line has more or fewer values than the header, or a value is invalid.
    """
    if None in line or None in line.values():
        raise BadDefects(
            f"{line_name}: has another number of values than the header; give one for each column, or nothing there"
        )
    try:
        return _Line.model_validate({name: (text or "").strip() for name, text in line.items()})
    except pydantic.ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name, value = fault["loc"][0], repr(fault["input"])[:80]
        kinds = {
            "direction": "north, east, south, west or nothing",
            "wafer": f"a number below {MAX_WAFERS:,} or nothing",
        }
        allowed = kinds.get(str(name), "a whole number of at least 0")
        raise BadDefects(f"{line_name}: {name} = {value}: give {allowed}") from error


def _place(line_name: str, line: _Line, wafer: WaferSpec) -> tuple[int, int, int, int]:
    """Return which PE or link is dead according to one line of a defect file.

    Returns:
        (wafer, row, column, type) with the meaning of the columns of ``Defects.listed_defects``.
        For example, the link to the west of a PE is the link to the east of its western neighbour.

    Raises:
        BadDefects: The PE or the link is outside the wafer.
    """
    wafer_index, row, col = (_ALL_WAFERS if line.wafer == "" else line.wafer), line.row, line.col
    for name, value, count in (("row", row, wafer.mesh_rows), ("col", col, wafer.mesh_cols)):
        if value >= count:
            raise BadDefects(f"{line_name}: {name} = {value}: {wafer.name} has {name}s 0 to {count - 1:,}")
    step = {"north": (-1, 0), "west": (0, -1), "south": (1, 0), "east": (0, 1)}.get(line.direction)
    if step is None:
        return wafer_index, row, col, 0
    if not (0 <= row + step[0] < wafer.mesh_rows and 0 <= col + step[1] < wafer.mesh_cols):
        raise BadDefects(
            f"{line_name}: PE {row},{col} has no neighbour {line.direction} on {wafer.name}; give a link between PEs"
        )
    return wafer_index, row + min(step[0], 0), col + min(step[1], 0), 1 if step[1] else 2

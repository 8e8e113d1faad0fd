"""Dead PEs and links of wafers: read from a file, or drawn at a rate.

A file is CSV with the columns ``row`` and ``col``, and maybe ``direction`` and ``wafer``. A line with a direction
(north, east, south or west) is the link of a PE to that neighbour, both ways; one without is a PE. A line without a
wafer holds for all. Rows and columns count from 0 at the north-west corner of the whole wafer; of a smaller mesh, which
is that corner, only what lies on it matters.

At a rate every PE of every wafer is dead with that probability, independently; links are not drawn: what is published
of redundancy counts faults by core.
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
MOST_WAFERS: Final = 10_000
LARGEST_SEED: Final = 2**63 - 1
_COLUMNS: Final = ("row", "col", "direction", "wafer")
_EVERY: Final = -1

I64 = npt.NDArray[np.int64]


class _Line(pydantic.BaseModel):
    """A line of a file, from texts."""

    model_config = pydantic.ConfigDict(extra="forbid")

    row: Annotated[int, pydantic.Field(ge=0)]
    col: Annotated[int, pydantic.Field(ge=0)]
    direction: Literal["", "north", "east", "south", "west"] = ""
    wafer: Annotated[int, pydantic.Field(ge=0, lt=MOST_WAFERS)] | Literal[""] = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Defects:
    """Defects: PEs and links that are dead on wafers of one kind.

    Attributes:
        option: The file or the rate, as ``--defects`` has it.
        rows, cols: Of the whole wafer.
        rate: Probability of each PE; None where a file lists them.
        seed: Of what is drawn.
        listed: int64 ``[n, 4]``: wafer or -1 for all, row, column, and 0 for a PE, 1 for the link east, 2 for the one
            south of it.
    """

    option: str
    rows: int
    cols: int
    rate: float | None
    seed: int
    listed: I64

    def on(self, wafer: int) -> FabricFaults:
        """Return the PEs and links that are dead on one whole wafer."""
        planes = np.zeros((3, self.rows, self.cols), bool)
        if self.rate is not None:
            planes[0] = np.random.default_rng([self.seed, wafer]).random((self.rows, self.cols)) < self.rate
        on_wafer = self.listed[np.isin(self.listed[:, 0], (wafer, _EVERY))]
        planes[on_wafer[:, 3], on_wafer[:, 1], on_wafer[:, 2]] = True
        return FabricFaults(dead=planes[0], east=planes[1], south=planes[2])


def check_seed(seed: int) -> None:
    """Raise BadDefects for a seed that no generator of dead PEs takes, whether or not any are drawn."""
    if not 0 <= seed <= LARGEST_SEED:
        message = f"--defects-seed {seed}: give a whole number from 0 to {LARGEST_SEED}"
        raise BadDefects(message)


def read_defects(option: str | Path, seed: int, wafer: WaferSpec) -> Defects:
    """Return the defects of ``FILE|RATE`` on wafers of a kind.

    Raises:
        BadDefects: a rate outside of 0 to 1, a seed below 0, a file that cannot be read, a place that the wafer does
            not have or that is given twice.
    """
    check_seed(seed)
    rows, cols = wafer.mesh_rows, wafer.mesh_cols
    try:
        rate = float(str(option))
    except ValueError:
        listed = _read_list(Path(option), wafer)
        return Defects(option=str(option), rows=rows, cols=cols, rate=None, seed=seed, listed=listed)
    if not math.isfinite(rate) or not 0 <= rate < 1:
        message = f"--defects {option}: give a rate of at least 0 and below 1, such as 1e-4, or a CSV file"
        raise BadDefects(message)
    return Defects(option=str(option), rows=rows, cols=cols, rate=rate, seed=seed, listed=np.zeros((0, 4), np.int64))


def _read_list(path: Path, wafer: WaferSpec) -> I64:
    data = read_file(path, FILE_LIMIT_BYTES, BadDefects, "a CSV file of dead PEs and links, or a rate such as 1e-4")
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig")), strict=True)
        header = [name.strip() for name in reader.fieldnames or ()]
        _check_header(path, header)
        reader.fieldnames = header
        listed: dict[tuple[int, int, int], dict[int, int]] = {}  # the line that names each place, by wafer
        for line in reader:
            where = f"{path} line {reader.line_num}"
            on, *place = _place(where, _parse_line(where, line), wafer)
            lines = listed.setdefault((place[0], place[1], place[2]), {})
            before = lines.get(on, lines.get(_EVERY)) if on != _EVERY else next(iter(lines.values()), None)
            if before is not None:
                kind = "link" if place[2] else "PE"
                message = f"{where}: names a {kind} that line {before} names already; leave one of them out"
                raise BadDefects(message)
            lines[on] = reader.line_num
    except (UnicodeDecodeError, csv.Error) as error:
        message = f"{path}: not CSV: {error}; give lines such as 3,5 under the header row,col"
        raise BadDefects(message) from error
    broken = [(on, *place) for place, lines in listed.items() for on in lines]
    return np.array(broken, np.int64).reshape(-1, 4)


def _check_header(path: Path, header: list[str]) -> None:
    needed = [name for name in _COLUMNS[:2] if name not in header]
    unknown = [name for name in header if name not in _COLUMNS]
    if needed or unknown or len(set(header)) < len(header):
        shown = ",".join(header)[:80]
        message = f"{path}: has the header {shown!r}; give row,col and, where wanted, direction and wafer, each once"
        raise BadDefects(message)


def _parse_line(where: str, line: dict[str, str | None]) -> _Line:
    """Return a line's values."""
    if None in line or None in line.values():
        message = f"{where}: has another number of values than the header; give one for each column, or nothing there"
        raise BadDefects(message)
    try:
        return _Line.model_validate({name: (text or "").strip() for name, text in line.items()})
    except pydantic.ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name, value = fault["loc"][0], repr(fault["input"])[:80]
        kinds = {
            "direction": "north, east, south, west or nothing",
            "wafer": f"a number below {MOST_WAFERS:,} or nothing",
        }
        wanted = kinds.get(str(name), "a whole number of at least 0")
        message = f"{where}: {name} = {value}: give {wanted}"
        raise BadDefects(message) from error


def _place(where: str, line: _Line, wafer: WaferSpec) -> tuple[int, int, int, int]:
    """Return a line as Defects has it."""
    on, row, col = (_EVERY if line.wafer == "" else line.wafer), line.row, line.col
    for name, value, count in (("row", row, wafer.mesh_rows), ("col", col, wafer.mesh_cols)):
        if value >= count:
            message = f"{where}: {name} = {value}: {wafer.name} has {name}s 0 to {count - 1:,}"
            raise BadDefects(message)
    away = {"north": (-1, 0), "west": (0, -1), "south": (1, 0), "east": (0, 1)}.get(line.direction)
    if away is None:
        return on, row, col, 0
    if not (0 <= row + away[0] < wafer.mesh_rows and 0 <= col + away[1] < wafer.mesh_cols):
        message = f"{where}: PE {row},{col} has no neighbour {line.direction} on {wafer.name}; give a link between PEs"
        raise BadDefects(message)
    return on, row + min(away[0], 0), col + min(away[1], 0), 1 if away[1] else 2

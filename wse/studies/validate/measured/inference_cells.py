"""Checks of the cells in the table `inference`: decode, prefill, memory and transfers on a wafer.

The rows of this table are runs of whole models or of parts of them on blocks (rectangles of PEs). A
wrong cell does not end the reading of the file. Its fault is stored with the row and reported with
the line number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from wse.studies.validate.measured.text_numbers import LARGEST_NUMBER, read_whole

_RUN: Final = "id model phase machine wafers block_rows block_cols n_blocks n_stages layers_per_stage batch"
_LENGTHS: Final = "context_min context_max context_mean prompt_len gen_tokens dtype_weights dtype_act dtype_kv"
_VALUE: Final = "settings metric value unit repeats spread clock_note_mhz kind"
_SOURCE: Final = "source_path source_version remark_trust group"

COLUMNS: Final = (*_RUN.split(), *_LENGTHS.split(), *_VALUE.split(), *_SOURCE.split())
"""Columns of the table."""

_COUNTS: Final = {
    "wafers": (1, 10_000),
    "block_rows": (1, 4_096),
    "block_cols": (1, 4_096),
    "n_blocks": (1, 10**6),
    "n_stages": (1, 10**6),
    "batch": (1, 10**6),
    "context_min": (0, 10**7),
    "context_max": (0, 10**7),
    "context_mean": (0, 10**7),
    "prompt_len": (0, 10**7),
    "gen_tokens": (0, 10**7),
}
"""Columns with numbers, which may be empty, and the smallest and largest allowed number."""

REQUIRED: Final = ("id", "model", "phase", "machine", "metric", "value", "unit", "kind", "group")
"""Columns that a file must have and whose cells must be filled."""

MAX_LAYERS: Final = 1_000
NOT_UTF_8: Final = "\N{REPLACEMENT CHARACTER}"
"""Character in place of bytes that are not UTF-8."""

_TEXTS: Final = ("metric", "unit", "settings")
"""Columns with texts that contain numbers."""

_DIGITS: Final = re.compile(r"(?<![\w.])[0-9][0-9,]{12,}")
_LAYERS: Final = re.compile(r"\s*[0-9]+(\s*-\s*[0-9]+)?(\s*\(.*\))?\s*", re.DOTALL)
_UNIT: Final = re.compile(
    r"[km]?cycles?|[mµun]?s|[mgk]?hz|[kmg]?i?b|bytes?|tok|tokens?|percent|ratio|wavelets?|elements?|words?",
    re.IGNORECASE,
)
_KINDS: Final = re.compile(r"measured|sum of measured|derived|fit|compiled|simulated|estimate|predicted", re.IGNORECASE)


class InferenceCells(NamedTuple):
    """Numbers and faults of a row in the table `inference`.

    Attributes:
        sizes: Numbers of the row, keyed by column. Empty cells have no key.
        value: The measured value; None if it is missing or wrong.
        fault: What is wrong or missing, and what is allowed. Empty if the row is complete.
    """

    sizes: dict[str, int]
    value: float | None
    fault: str


def check_cells(row: Mapping[str, str]) -> InferenceCells:
    """Check all cells of a row and convert the numbers.

    Args:
        row: Texts of the row, keyed by column name.
    """
    sizes: dict[str, int] = {}
    faults = [f"column {column} is empty; this table needs it" for column in REQUIRED if not row[column].strip()]
    for column, (low, high) in _COUNTS.items():
        text = row[column].strip()
        if not text:
            continue
        number = _number(text)
        if number is None or not low <= number <= high or (number != int(number) and column != "context_mean"):
            number_kind = "number" if column == "context_mean" else "whole number"
            faults.append(
                f"column {column} = {_quote(text)}: give a {number_kind} from {low} to {high:,}, or leave it empty"
            )
        else:
            sizes[column] = round(number)
    value = _number(row["value"])
    if value is None and row["value"].strip():
        faults.append(f"column value = {_quote(row['value'])}: not a finite number; give one such as 12.5")
    faults += _text_faults(row, value)
    low_context, high_context = sizes.get("context_min"), sizes.get("context_max")
    if low_context is not None and high_context is not None and low_context > high_context:
        faults.append(f"context_min = {low_context} is larger than context_max = {high_context}; swap them")
    return InferenceCells(sizes, None if faults else value, "; ".join(faults))


def _text_faults(row: Mapping[str, str], value: float | None) -> list[str]:
    """Return error messages for wrong texts in a row, and for a negative value."""
    faults = []
    layers, unit, kind = row["layers_per_stage"], row["unit"], row["kind"]
    if layers.strip() and not _LAYERS.fullmatch(layers):
        faults.append(f"column layers_per_stage = {_quote(layers)}: give a number such as 9, or a range such as 2-4")
    elif layers.strip():
        numbers = [read_whole(number) for number in re.findall(r"[0-9]+", layers.partition("(")[0])]
        if not all(number and number <= MAX_LAYERS for number in numbers):
            faults.append(f"column layers_per_stage = {_quote(layers)}: give numbers from 1 to {MAX_LAYERS:,}")
    for column in _TEXTS:
        for number in _DIGITS.findall(row[column]):
            if read_whole(number) is None:
                faults.append(f"column {column}: the number {_quote(number)} is larger than {LARGEST_NUMBER:,}")
    faults += [
        f"column {column}: has bytes that are not UTF-8; save the file as UTF-8"
        for column, cell in row.items()
        if NOT_UTF_8 in cell
    ]
    if unit.strip() and not any(_UNIT.fullmatch(word) for word in re.findall(r"[^\W\d_]+", unit)):
        faults.append(f"column unit = {_quote(unit)}: names no known unit; give one such as cycles, us, bytes per PE")
    if kind.strip() and not _KINDS.match(kind.strip()):
        faults.append(f"column kind = {_quote(kind)}: give measured, sum of measured, derived, fit or compiled")
    if value is not None and value < 0 and not re.match("change|difference", row["metric"].strip(), re.IGNORECASE):
        faults.append(f"column value = {_quote(row['value'])}: negative; only the metric of a change may be")
    return faults


def _number(cell: str) -> float | None:
    """Convert a text to a finite number, or return None if it is not one."""
    try:
        number = float(cell) if "_" not in cell else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _quote(cell: str) -> str:
    """Quote the text of a cell for a message, shortened to 40 characters."""
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")

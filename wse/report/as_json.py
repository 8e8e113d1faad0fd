"""One JSON object for machines."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from wse.report.result import Result, plain

Report = dict[str, Any]
"""A report as plain values, with the JSON keys that the command line promises."""


def as_json(report: Result | dict[str, Any]) -> str:
    """``report`` as strict JSON with a line end. A number that is none (NaN, infinity) becomes null."""
    return json.dumps(_strict(plain(report)), allow_nan=False) + "\n"


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return _strict(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

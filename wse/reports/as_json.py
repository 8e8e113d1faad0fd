"""JSON of results: one object on one line."""

from __future__ import annotations

import json
from typing import Any

from wse.reports.result import Result, plain

Report = dict[str, Any]
"""A report as plain values, with the JSON keys that the command line promises."""


def as_json(report: Result | dict[str, Any]) -> str:
    """``report`` as strict JSON with a line end."""
    return json.dumps(plain(report), allow_nan=False) + "\n"

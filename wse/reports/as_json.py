"""JSON of results: one object on one line."""

from __future__ import annotations

import json
from typing import Any

from wse.reports.result import Result, plain

Report = dict[str, Any]
"""Report as plain values, with the documented JSON keys of the command line."""


def as_json(report: Result | dict[str, Any]) -> str:
    """Return a report as strict JSON, without NaN or infinity and with a final newline."""
    return json.dumps(plain(report), allow_nan=False) + "\n"

"""Main results of a run or an estimate with their grades. The page shows them first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from wse.reports.as_json import Report
from wse_traces.reader.read import Trace
from wse_traces.schema import CAUSES

FIGURES: Final = {
    "user_rate": "decode.tokens_per_s_per_user",
    "token_s": "latency.tpot_s",
    "first_token_s": "latency.ttft_s",
    "prompt_rate": "prefill.tokens_per_s",
    "joules": "energy.joules_per_token",
    "joules_low": "energy.range.0",
    "joules_high": "energy.range.1",
    "usd": "cost.usd_per_million_tokens",
    "usd_low": "cost.range.0",
    "usd_high": "cost.range.1",
    "bound_ratio": "bounds.token.ratio",
    "bound_cycles": "bounds.token.cycles",
}
"""Dotted path in the report of each number on the page. Reports of runs lack the last ones."""
GRADED: Final = {
    "user_rate": "decode.tokens_per_s_per_user",
    "first_token_s": "latency.ttft_s",
    "prompt_rate": "prefill.tokens_per_s",
    "joules": "energy.joules_per_token",
    "usd": "cost.usd_per_million_tokens",
}
"""Numbers that have an evidence grade, with their key in ``grades`` of the report."""
LONGEST_TEXT: Final = 200


def answer_data(trace: Trace) -> Report:
    """Return the main results of a trace, shown at the top of the page.

    Numbers missing from the trace's report are omitted. For example, the report of a run contains
    no dollars. The report is text from a file, so every value in it is checked before use.

    Args:
        trace: Trace of a run or estimate.

    Returns:
        A dict with the key ``answer``. Its entries are ``numbers``, keyed by name; their evidence
        ``grades``; ``bound``, the resource that limits the speed of token generation; and ``gap``,
        a list with the ``cycles`` above the lower bound and the ``reason`` for each cause.
    """
    report = trace.report()
    numbers = {name: _number(_at(report, path)) for name, path in FIGURES.items()}
    grades = _mapping(report.get("grades"))
    graded = {name: _grade(grades.get(path)) for name, path in GRADED.items()}
    graded["bound"] = _grade(
        {"grade": _at(report, "bounds.token.bound_grade"), "source": _at(report, "bounds.token.bound_source")}
    )
    return {
        "answer": {
            "numbers": {name: number for name, number in numbers.items() if number is not None},
            "grades": {name: grade for name, grade in graded.items() if grade is not None},
            "bound": _text(_at(report, "bounds.token.limit")),
            "gap": _gap(_at(report, "bounds.gap")),
        }
    }


def _gap(rows: object) -> list[Report]:
    """Return the cycles above the lower bound for each cause, in report order.

    Each item has the keys ``cause``, ``cycles`` and ``reason``. Malformed rows are skipped.
    """
    found = []
    for row in rows if isinstance(rows, list) else ():
        cause, cycles = _mapping(row).get("cause"), _number(_mapping(row).get("cycles"))
        if cause in CAUSES and cycles is not None:
            found.append({"cause": cause, "cycles": cycles, "reason": _text(_mapping(row).get("reason")) or ""})
    return found[: len(CAUSES)]


def _at(report: object, path: str) -> object:
    """Return the value at a dotted path of keys and list indices, or None if it does not exist."""
    for name in path.split("."):
        if isinstance(report, list) and name.isdigit():
            report = report[int(name)] if int(name) < len(report) else None
        else:
            report = _mapping(report).get(name)
    return report


def _mapping(value: object) -> Mapping[str, Any]:
    """Return ``value`` if it is a dictionary, else an empty dictionary."""
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float | None:
    """Return ``value`` as a float if it is a finite, non-negative number, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _text(value: object) -> str | None:
    """Return ``value`` truncated to ``LONGEST_TEXT`` characters if it is a string, else None."""
    return value[:LONGEST_TEXT] if isinstance(value, str) else None


def _grade(value: object) -> Report | None:
    """Return an evidence grade (a letter) for the page, or None if ``value`` does not contain one.

    The source of the number and the weakest constant behind it are included if they are known.
    """
    letter = _mapping(value).get("grade")
    if not isinstance(letter, str) or len(letter) != 1:
        return None
    names = {name: _text(_mapping(value).get(name)) for name in ("source", "weakest")}
    return {"grade": letter, **{name: text for name, text in names.items() if text}}

"""The main results of a run or an estimate: the figures that the page shows first, each with its grade."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from wse.reports.as_json import Report
from wse_traces.read import Trace
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
"""Numbers of a report that the page shows, by where they are; the report of a run has the first ones alone."""
GRADED: Final = {
    "user_rate": "decode.tokens_per_s_per_user",
    "first_token_s": "latency.ttft_s",
    "prompt_rate": "prefill.tokens_per_s",
    "joules": "energy.joules_per_token",
    "usd": "cost.usd_per_million_tokens",
}
"""Their grades, by where ``grades`` of a report has them."""
LONGEST_TEXT: Final = 200


def answer_data(trace: Trace) -> Report:
    """Return ``answer``: ``numbers`` by name, their ``grades``, the ``bound`` of a token, and the ``gap`` by cause.

    What the report lacks, as that of a run lacks dollars, is left out: a report is a file's own text, and nothing in it
    is taken for what it should be. ``gap`` has the ``cycles`` beyond the bound and the ``reason`` of each cause.
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
    """Return the cycles beyond the bound by cause, in the order of the report."""
    found = []
    for row in rows if isinstance(rows, list) else ():
        cause, cycles = _mapping(row).get("cause"), _number(_mapping(row).get("cycles"))
        if cause in CAUSES and cycles is not None:
            found.append({"cause": cause, "cycles": cycles, "reason": _text(_mapping(row).get("reason")) or ""})
    return found[: len(CAUSES)]


def _at(report: object, path: str) -> object:
    """Return the value at a dotted path of names and list indices; None without one."""
    for name in path.split("."):
        if isinstance(report, list) and name.isdigit():
            report = report[int(name)] if int(name) < len(report) else None
        else:
            report = _mapping(report).get(name)
    return report


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float | None:
    """Return a finite number of at least 0; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _text(value: object) -> str | None:
    return value[:LONGEST_TEXT] if isinstance(value, str) else None


def _grade(value: object) -> Report | None:
    """Return a grade for the page: its letter, and where known the source and the constant that it comes from."""
    letter = _mapping(value).get("grade")
    if not isinstance(letter, str) or len(letter) != 1:
        return None
    names = {name: _text(_mapping(value).get(name)) for name in ("source", "weakest")}
    return {"grade": letter, **{name: text for name, text in names.items() if text}}

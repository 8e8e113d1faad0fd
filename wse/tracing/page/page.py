"""The page of ``wse view``: its data, read from traces and checked, and the page with its scripts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import matplotlib as mpl

from wse.errors import BadInput, BadTrace
from wse.reports.page.inline_page import inline_page
from wse.reports.result import Doc, Report, Result
from wse.tracing.page.pack import Pack, Packer
from wse.tracing.page.planes import layer_data, memory_data, move_data, plane_data
from wse.tracing.page.timeline import timeline_data
from wse.tracing.page.work import work_data
from wse.tracing.query.places.stages import mesh_of
from wse.tracing.query.summary import tokens_by_layer
from wse.tracing.query.two_traces.compare import is_trace
from wse.tracing.query.view import outcome_of, trace_at
from wse_traces.reader.read import Trace
from wse_traces.schema import CAUSES, DIRECTIONS, KINDS, PHASES, USES

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
GRADED: Final = ("user_rate", "first_token_s", "prompt_rate", "joules", "usd")
"""Numbers that have an evidence grade, in ``grades`` of the report under the path of the number."""
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
    graded = {name: _grade(grades.get(FIGURES[name])) for name in GRADED}
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
    """Return why a token takes more cycles than the lower bound: the extra cycles of each cause.

    Each item has the keys ``cause``, ``cycles`` and ``reason``. Malformed rows are skipped. The
    items are in the order of the report.
    """
    causes = []
    for row in rows if isinstance(rows, list) else ():
        cause, cycles = _mapping(row).get("cause"), _number(_mapping(row).get("cycles"))
        if cause in CAUSES and cycles is not None:
            causes.append({"cause": cause, "cycles": cycles, "reason": _text(_mapping(row).get("reason")) or ""})
    return causes[: len(CAUSES)]


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

    The grade says how well a number is known. If the report states them, the source of the number
    is included, and the constant with the lowest grade on which the number depends.
    """
    letter = _mapping(value).get("grade")
    if not isinstance(letter, str) or len(letter) != 1:
        return None
    names = {name: _text(_mapping(value).get(name)) for name in ("source", "weakest")}
    return {"grade": letter, **{name: text for name, text in names.items() if text}}


MAX_TRACES: Final = 2
MAX_EXPERTS: Final = 1 << 16
"""Maximum number of experts of one layer. The largest models have a few hundred."""


def check_names(names: list[str]) -> list[Path]:
    """Return the paths of the one or two traces to show.

    Raises:
        BadInput: There are more than two names, or one of them does not end in a trace suffix.
    """
    if len(names) > MAX_TRACES:
        raise BadInput(f"{len(names)} traces: a page shows one trace, or two side by side; give one or two")
    for name in names:
        if not is_trace(name):
            raise BadInput(f"{name!r}: is not the name of a trace; give a file that wse run wrote, which ends in .h5")
    return [Path(name) for name in names]


def view_trace(path: Path, pack: Pack) -> Report:
    """Return all trace data that the page shows.

    Args:
        path: File written by ``wse run`` or ``wse estimate``, complete or not.
        pack: Function that packs each array, or returns None if there is no room left for it. The
            most important arrays are packed first, and the maps of the last wafers last.

    Raises:
        BadTrace: The file does not exist, is not a trace, or is damaged.
    """
    notes: list[str] = []
    with trace_at(path) as trace:
        if not trace.complete:
            notes.append(f"Incomplete, {outcome_of(trace.ending)}: this is what was written up to the last flush.")
        return {
            **_header(trace),
            **answer_data(trace),
            **memory_data(trace, notes),
            **work_data(trace, pack, notes),
            **timeline_data(trace, pack, notes),
            **plane_data(trace, pack, notes),
            **layer_data(trace, pack, notes),
            **move_data(trace, pack, notes),
            "experts": _experts(trace),
            "crossing_bytes": int(trace.column("crossings/bytes").sum()),
            "notes": notes,
        }


def _header(trace: Trace) -> dict[str, Any]:
    """Return the facts about a run that the page shows: names, sizes and options.

    If there are dead PEs, ``mesh`` is the size of the live-PE mesh that programs see.
    """
    header = trace.header
    mesh = mesh_of(trace)
    names = ("created_by", "model", "wafer", "mapping", "seed", "program_digest", "wafers", "rows", "cols", "clock_hz")
    return {
        "trace": str(trace.path),
        "name": trace.path.name,
        "complete": trace.complete,
        **{name: getattr(header, name) for name in names},
        "options": dict(header.options),
        **({"mesh": mesh} if mesh != (header.rows, header.cols) else {}),
    }


def _experts(trace: Trace) -> list[Report]:
    """Return the number of tokens routed to each expert in each layer.

    Each item contains the index ``layer`` and the list ``tokens``. Layers are in ascending order.

    Raises:
        BadTrace: A layer index, an expert index or a count is out of range.
    """
    table = "expert_load" if trace.rows("expert_load") else "routed"  # expert_load is written at the end of a run
    rows = trace.table(table)
    for name, limit in (("layer", 1 << 31), ("expert", MAX_EXPERTS), ("tokens", 1 << 53)):
        if len(rows[name]) and not 0 <= rows[name].min() <= rows[name].max() < limit:
            path = f"{'routed' if table == 'routed' else 'experts'}/{name}"
            values = f"values from {rows[name].min()} to {rows[name].max()}"
            raise BadTrace(f"{trace.path}: {path}: {values}, allowed: 0 to {limit - 1}; make the trace again")
    loads = tokens_by_layer(rows, int(rows["expert"].max(initial=-1)) + 1)
    return [{"layer": layer, "tokens": tokens.tolist()} for layer, tokens in loads.items()]


SCRIPTS: Final = (
    "names.js",
    "data.js",
    "place.js",
    "steering.js",
    "fold.js",
    "wafer/heatmap.js",
    "timeline/lanes.js",
    "quantities.js",
    "placement.js",
    "wafer/sram.js",
    "wafer/map_input.js",
    "wafer/map_axes.js",
    "wafer/map_controls.js",
    "wafer/replay.js",
    "wafer/wafer.js",
    "treemap/squarify.js",
    "treemap/cycle_groups.js",
    "treemap/treemap.js",
    "timeline/lane_steps.js",
    "timeline/tokens.js",
    "timeline/timeline_draw.js",
    "timeline/timeline_input.js",
    "timeline/timeline.js",
    "table.js",
    "steps.js",
    "summary.js",
    "experts.js",
    "page.js",
)
"""Scripts of the page in the order of concatenation. Each uses only those before it."""
COLOUR_MAP: Final = "viridis"


class ViewResult(Result):
    """Report of ``wse view``: the page written, its size, and the traces it shows.

    The report is printed as JSON if ``--json`` is specified.
    """

    page: Annotated[str, Doc("path of the page")]
    bytes: Annotated[int, Doc("size of the page", "byte")]
    traces: Annotated[tuple[str, ...], Doc("paths of the traces that the page shows")]


def view_page(paths: list[Path]) -> bytes:
    """Return the UTF-8 HTML page of one trace, or of two traces side by side.

    Raises:
        BadTrace: A trace cannot be read.
    """
    pack = Packer()
    colours: Any = mpl.colormaps[COLOUR_MAP](range(256), bytes=True)
    traces = [view_trace(path, pack) for path in paths]
    data = {
        "traces": traces,
        "blobs": pack.blobs,
        "causes": CAUSES,
        "uses": USES,
        "directions": DIRECTIONS,
        "phases": PHASES,
        "kinds": KINDS,
        "colours": bytes(colours[:, :3].tobytes()).hex(),
    }
    return inline_page(
        "wse.tracing.page",
        scripts=[f"script/{name}" for name in SCRIPTS],
        data=data,
        title=" and ".join(f"{trace['model']} on {trace['wafer']}" for trace in traces),
    )

"""Tokens, and the steps of the passes that made them: each sequence of steps once, as the trace has them."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.reports.as_json import Report
from wse.tracing.page.median import DECODE, kind_cycles, median_data
from wse.tracing.page.pack import Array, Pack, check_index, checked_table, packed_columns
from wse.tracing.page.work import op_kinds
from wse_traces.executed_steps import cache_shifts, schedule_rows
from wse_traces.read import Columns, Trace

MOST_STEPS: Final = 120_000
"""Steps of all timelines of the page; the first sequence is cut there, later ones that find no room are left out."""
MOST_TOKENS: Final = 10_000
SHOWN: Final = ("op", "stage", "layer", "wafer", "kind", "name", "start_cycle", "cycles", "cycles_by", "words", "hops")
AREA: Final = ("row", "col", "rows", "cols")


def timeline_data(trace: Trace, pack: Pack, notes: list[str]) -> Report:
    """Return ``tokens``, the ``schedules`` on the page, and the columns ``steps`` and ``shifts``.

    ``median`` is the median decoded token; it and each of ``schedules`` has ``by_kind``, cycles of all its steps.

    A token's ``schedule`` is the index of an item of ``schedules``, -1 where its steps are not on the page; its
    ``phase`` and ``pass_cycles`` are those of the pass that read or generated it, -1 and 0: none. Its ``shifts`` are
    rows of ``shifts``, from one to another: what steps send in its pass besides what they send in every one.

    Raises:
        BadTrace: a token or pass points nowhere.
        TraceError: a schedule leaves the table of steps.
    """
    passes, schedules = checked_table(trace, "pass"), trace.table("schedule")
    tokens = checked_table(trace, "token", MOST_TOKENS)
    texts = trace.token_texts()
    if trace.rows("token") > MOST_TOKENS:
        notes.append(f"Of {trace.rows('token'):,} tokens the page has the first {MOST_TOKENS:,}.")
    of_token = np.append(passes["schedule"], -1)[tokens["pass"]]
    phase = np.append(schedules["phase"].astype(int), -1)[of_token]
    took = np.append(schedules["cycles"], 0)[of_token]
    begins, counts = schedule_rows(trace)
    check_index(trace.path, "steps/op", trace.column("steps/op"), trace.rows("op"))
    by_kind = kind_cycles(trace, begins, counts, op_kinds(trace)[1])
    shown, rows = _chosen_sequences(of_token, np.where(phase == DECODE, took, -1), counts, notes)
    columns = _steps(trace, begins[shown], rows)
    packed = packed_columns(columns, pack)
    if packed is None:
        notes.append("The steps of tokens found no room on this page; see wse inspect --steps.")
        shown = []
    number = {schedule: at for at, schedule in enumerate(shown)}
    first = np.cumsum([0, *rows]).tolist()
    start = np.append(passes["start_cycle"], 0)[tokens["pass"]]
    places = {schedule: (first[at], rows[at]) for schedule, at in number.items()}
    shifts, ends = _shifts(trace, passes["schedule"], places)
    sent = packed_columns(shifts, pack)
    if sent is None and shown:
        notes.append("What cache shifts of single tokens send found no room on this page; see wse inspect --by token.")
    ends = ends if sent else 0 * ends
    from_row, to_row = (np.append(end, 0)[tokens["pass"]] for end in (ends[:-1], ends[1:]))
    return {
        "tokens": [
            {
                "id": int(tokens["id"][i]),
                "text": texts[i],
                "prompt": bool(tokens["is_prompt"][i]),
                "user": int(tokens["sequence"][i]),
                "position": int(tokens["position"][i]),
                "cycles": int(tokens["cycles"][i]),
                "pass_cycles": int(took[i]),
                "start_cycle": int(start[i]),
                "phase": int(phase[i]),
                "schedule": number.get(int(of_token[i]), -1),
                "shifts": [int(from_row[i]), int(to_row[i])],
            }
            for i in range(len(tokens["id"]))
        ],
        "schedules": _shown_schedules(schedules, shown, first, rows, by_kind),
        "median": median_data(phase, took, of_token, by_kind, schedules["kv_slots"]),
        "steps": packed,
        "shifts": sent,
    }


def _shown_schedules(
    schedules: Columns, shown: list[int], first: list[int], rows: list[int], by_kind: Array
) -> list[Report]:
    """Return the schedules on the page; the steps of each are ``rows`` of the page's from ``first`` on."""
    return [
        {
            "phase": int(schedules["phase"][schedule]),
            "kv_slots": int(schedules["kv_slots"][schedule]),
            "cycles": int(schedules["cycles"][schedule]),
            "first": first[at],
            "steps": rows[at],
            "by_kind": by_kind[schedule].tolist(),
        }
        for at, schedule in enumerate(shown)
    ]


def _chosen_sequences(of_token: Array, cycles: Array, counts: Array, notes: list[str]) -> tuple[list[int], list[int]]:
    """Choose the sequences that fit and how many steps of each: the slowest decoded token first, then in order."""
    wanted = of_token[of_token >= 0]
    slowest = of_token[np.argsort(-cycles, kind="stable")[:1]]
    order = list(dict.fromkeys([int(s) for s in (*slowest, *wanted) if s >= 0]))
    shown: list[int] = []
    rows: list[int] = []
    room = MOST_STEPS
    for schedule in order:
        steps = int(counts[schedule])
        if steps > room and shown:
            continue
        if steps > room:
            notes.append(f"Of the {steps:,} steps of the slowest token the timeline has the first {room:,}.")
        shown.append(schedule)
        rows.append(min(steps, room))
        room -= rows[-1]
    if len(shown) < len(order):
        notes.append(
            f"Of {len(order):,} sequences of steps that tokens share, the page has {len(shown):,}, the slowest's first."
        )
    return shown, rows


def _steps(trace: Trace, begins: Array, rows: list[int]) -> Columns:
    spans = list(zip(begins.tolist(), rows, strict=True))
    return {
        name: np.concatenate(
            [trace.column(f"steps/{name}", 0, 0), *(trace.column(f"steps/{name}", at, at + n) for at, n in spans)]
        )
        for name in (*SHOWN, *AREA)
    }


def _shifts(trace: Trace, schedule_of: Array, shown: dict[int, tuple[int, int]]) -> tuple[Columns, Array]:
    """Return the cache shifts by pass where their steps are on the page, and the row range of each pass.

    ``shown`` has the schedules that are, each with the row of its first step there and how many it has.
    """
    shifts = cache_shifts(trace)
    first, rows = np.zeros((2, trace.rows("schedule")), np.int64)
    for schedule, place in shown.items():
        first[schedule], rows[schedule] = place
    of = schedule_of[shifts["pass"]]
    shift_rows = np.flatnonzero(shifts["step"] < rows[of])
    shift_rows = shift_rows[np.argsort(shifts["pass"][shift_rows], kind="stable")]
    ends = np.searchsorted(shifts["pass"][shift_rows], np.arange(len(schedule_of) + 1))
    return {
        "step": first[of[shift_rows]] + shifts["step"][shift_rows],
        "words": shifts["words"][shift_rows],
        "hops": shifts["hops"][shift_rows],
    }, ends

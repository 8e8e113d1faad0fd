"""Tokens and the steps of their passes. Each schedule is stored once, as in the trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from wse.reports.result import Report
from wse.tracing.page.pack import Array, Pack, check_index, checked_table, packed_columns
from wse.tracing.page.work import DECODE, kind_cycles, median_data, op_kinds
from wse_traces.reader.executed_steps import cache_shifts, rows_of, schedule_rows
from wse_traces.reader.read import Trace

MAX_STEPS: Final = 120_000
"""Maximum number of steps on the page.

The first schedule is cut to this length. Each additional schedule is omitted if it does not fit.
"""
MAX_TOKENS: Final = 10_000
SHOWN: Final = ("op", "stage", "layer", "wafer", "kind", "name", "start_cycle", "cycles", "cycles_by", "words", "hops")
AREA: Final = ("row", "col", "rows", "cols")


def timeline_data(trace: Trace, pack: Pack, notes: list[str]) -> Report:
    """Return the tokens of a trace, and the steps of the passes that read or generated them.

    A schedule is a sequence of steps that the passes of many tokens share.

    Args:
        trace: An open trace.
        pack: Packs an array for the page.
        notes: Receives notes for the reader about tokens and steps that are left out.

    Returns:
        - ``tokens``: For each token, its text and times. ``schedule`` is an index in ``schedules``,
          or -1 if its steps are not on the page. ``phase`` and ``pass_cycles`` describe its pass;
          they are -1 and 0 if it has none. ``shifts`` is its range of rows in ``shifts``.
        - ``schedules``: The schedules on the page; ``by_kind`` is the cycles by kind of op.
        - ``median``: The median decoded token, with ``by_kind``.
        - ``steps``: Columns of the steps of all schedules on the page.
        - ``shifts``: Columns of the cache shifts: words and hops that a step sends in a single
          pass, in addition to the words and hops of every pass.

    Raises:
        BadTrace: A token or pass refers to a row that does not exist.
        TraceError: A schedule extends beyond the table of steps.
    """
    passes, schedules = checked_table(trace, "pass"), trace.table("schedule")
    tokens = checked_table(trace, "token", MAX_TOKENS)
    if trace.rows("token") > MAX_TOKENS:
        notes.append(f"Of {trace.rows('token'):,} tokens the page has the first {MAX_TOKENS:,}.")
    token_schedules = np.append(passes["schedule"], -1)[tokens["pass"]]
    phase = np.append(schedules["phase"].astype(int), -1)[token_schedules]
    pass_cycles = np.append(schedules["cycles"], 0)[token_schedules]
    begins, counts = schedule_rows(trace)
    check_index(trace.path, "steps/op", trace.column("steps/op"), trace.rows("op"))
    by_kind = kind_cycles(trace, begins, counts, op_kinds(trace)[1])
    decode_cycles = np.where(phase == DECODE, pass_cycles, -1)
    shown_schedules, rows = _chosen_sequences(token_schedules, decode_cycles, counts, notes)
    packed_steps = _packed_steps(trace, rows_of(begins[shown_schedules], np.array(rows, np.int64)), pack, notes)
    if packed_steps is None:
        shown_schedules = []
    number = {schedule: at for at, schedule in enumerate(shown_schedules)}
    first = np.cumsum([0, *rows]).tolist()
    places = {schedule: (first[at], rows[at]) for schedule, at in number.items()}
    packed_shifts, ends = _packed_shifts(trace, passes["schedule"], places, pack, notes)
    from_row, to_row = (np.append(end, 0)[tokens["pass"]] for end in (ends[:-1], ends[1:]))
    token_columns = {
        "id": tokens["id"],
        "text": trace.token_texts(),
        "prompt": tokens["is_prompt"].astype(bool),
        "user": tokens["sequence"],
        "position": tokens["position"],
        "cycles": tokens["cycles"],
        "pass_cycles": pass_cycles,
        "start_cycle": np.append(passes["start_cycle"], 0)[tokens["pass"]],
        "phase": phase,
        "schedule": np.array([number.get(schedule, -1) for schedule in token_schedules.tolist()], np.int64),
        "shifts": np.stack([from_row, to_row], axis=1),
    }
    schedule_columns = {
        **{name: schedules[name][shown_schedules] for name in ("phase", "kv_slots", "cycles")},
        "first": np.array(first[:-1]),
        "steps": np.array(rows),
        "by_kind": by_kind[shown_schedules],
    }
    return {
        "tokens": _records(token_columns, len(tokens["id"])),
        "schedules": _records(schedule_columns, len(shown_schedules)),
        "median": median_data(phase, pass_cycles, token_schedules, by_kind, schedules["kv_slots"]),
        "steps": packed_steps,
        "shifts": packed_shifts,
    }


def _packed_steps(trace: Trace, rows: Array, pack: Pack, notes: list[str]) -> dict[str, object] | None:
    """Pack rows of the table of steps for the page, or return None and add a note if there is no room."""
    packed_steps = packed_columns({name: trace.column(f"steps/{name}")[rows] for name in (*SHOWN, *AREA)}, pack)
    if packed_steps is None:
        notes.append("The steps of tokens found no room on this page; see wse inspect --steps.")
    return packed_steps


def _records(columns: Mapping[str, Array | list[str]], rows: int) -> list[Report]:
    """Convert the first rows of a table to dicts of plain values, keyed by column name."""
    lists = [column if isinstance(column, list) else column.tolist() for column in columns.values()]
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*(values[:rows] for values in lists), strict=True)
    ]


def _chosen_sequences(
    token_schedules: Array, cycles: Array, counts: Array, notes: list[str]
) -> tuple[list[int], list[int]]:
    """Select the schedules to show on the page, with at most `MAX_STEPS` steps in total.

    A schedule is a sequence of steps that the passes of several tokens share. The first one is the
    schedule of the slowest decoded token. If it has too many steps, only its first steps are shown.
    The other schedules follow in the order of their tokens. A schedule that does not fit is
    omitted.

    Args:
        token_schedules: int ``[token]``: schedule of each token's pass, or -1.
        cycles: int ``[token]``: cycle count of that pass for decoded tokens, else -1.
        counts: int ``[schedule]``: number of steps.
        notes: List to which notes for the reader about omitted steps are added.

    Returns:
        Indices of the selected schedules, and the number of steps to show for each.
    """
    used_schedules = token_schedules[token_schedules >= 0]
    slowest_schedule = token_schedules[np.argsort(-cycles, kind="stable")[:1]]
    order = list(dict.fromkeys([int(s) for s in (*slowest_schedule, *used_schedules) if s >= 0]))
    shown_schedules: list[int] = []
    rows: list[int] = []
    free_steps = MAX_STEPS
    for schedule in order:
        steps = int(counts[schedule])
        if steps > free_steps and shown_schedules:
            continue
        if steps > free_steps:
            notes.append(f"Of the {steps:,} steps of the slowest token the timeline has the first {free_steps:,}.")
        shown_schedules.append(schedule)
        rows.append(min(steps, free_steps))
        free_steps -= rows[-1]
    if len(shown_schedules) < len(order):
        notes.append(
            f"Of {len(order):,} sequences of steps that tokens share, the page has {len(shown_schedules):,}, "
            "the slowest's first."
        )
    return shown_schedules, rows


def _packed_shifts(
    trace: Trace, schedule_of: Array, shown_ranges: dict[int, tuple[int, int]], pack: Pack, notes: list[str]
) -> tuple[dict[str, object] | None, Array]:
    """Pack the words and hops of cache shifts for the page.

    A cache shift moves KV-cache entries between rows of PEs. It is part of a step, but only in some
    passes, so it is stored separately from the steps.

    Args:
        trace: An open trace.
        schedule_of: int ``[pass]``: schedule of each pass.
        shown_ranges: For each schedule on the page, the index of its first step on the page and its
            number of steps.
        pack: Function that packs an array for the page.
        notes: List to which a note for the reader is added if the page has no room for the shifts.

    Returns:
        The packed columns ``step``, ``words`` and ``hops``, with one row per shift, sorted by pass;
        and an int array ``[pass + 1]`` with the index of the first row of each pass. If the page
        has no room, None and zeros.
    """
    shifts = cache_shifts(trace)
    first, rows = np.zeros((2, trace.rows("schedule")), np.int64)
    for schedule, place in shown_ranges.items():
        first[schedule], rows[schedule] = place
    shift_schedules = schedule_of[shifts["pass"]]
    shift_rows = np.flatnonzero(shifts["step"] < rows[shift_schedules])
    shift_rows = shift_rows[np.argsort(shifts["pass"][shift_rows], kind="stable")]
    ends = np.searchsorted(shifts["pass"][shift_rows], np.arange(len(schedule_of) + 1))
    columns = {
        "step": first[shift_schedules[shift_rows]] + shifts["step"][shift_rows],
        "words": shifts["words"][shift_rows],
        "hops": shifts["hops"][shift_rows],
    }
    packed_shifts = packed_columns(columns, pack)
    if packed_shifts is None and shown_ranges:
        notes.append("What cache shifts of single tokens send found no room on this page; see wse inspect --by token.")
    return packed_shifts, ends if packed_shifts else 0 * ends

"""Where the cycles went: steps summed over the run, by place for a table, by layer and kind of op for areas."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.inspect.page.packing import Array, Pack, checked, packed_columns
from wse.inspect.query.work import Work
from wse.report.as_json import Report
from wse_traces.read import Columns, Trace
from wse_traces.schema import CAUSES, PHASES

MOST_PLACES: Final = 12_000
"""Rows of the page's table of steps, costliest first; a sort takes a few milliseconds."""


def work_facts(trace: Trace, pack: Pack, notes: list[str]) -> Report:
    """``phases``, ``op_names``, ``op_kinds``, ``kinds``, ``names``, ``work``, ``stage_work`` and ``places``.

    ``places`` are the rows of ``Trace.top_steps``, summed over the run. ``work`` has a row for each phase, layer and
    kind of op: ``cycles`` by cause. ``stage_work`` has a row for each stage and kind of op: cycles in which its PEs
    compute, and hops of its words.

    Raises:
        BadTrace: an index points to no op or name.
    """
    path = trace.path
    ops = trace.texts("graph/ops/kind")
    numbers: dict[str, int] = {}
    kind_of = np.array([numbers.setdefault(kind, len(numbers)) for kind in ops] + [-1], np.int64)
    work = Work(trace)
    places = work.steps
    checked(path, "steps/op", places["op"], len(ops))
    checked(path, "steps/name", places["name"], trace.rows("name"))
    checked(path, "steps/stage", places["stage"], trace.rows("stage"))
    checked(path, "schedules/phase", places["phase"], len(PHASES))
    op_kind = kind_of[places["op"]]
    by_cause = np.stack([places[f"{cause}_cycles"] for cause in CAUSES], axis=1)
    return {
        "phases": _phases(work),
        "op_names": trace.texts("graph/ops/name"),
        "op_kinds": kind_of[:-1].tolist(),
        "kinds": list(numbers),
        "names": trace.texts("strings/names"),
        "work": _work(places, op_kind, by_cause),
        "stage_work": _stage_work(places, op_kind),
        "places": _places(places, by_cause, pack, notes),
    }


def _phases(work: Work) -> Report:
    """By phase that ran: passes, cycles of all steps by cause, words and hops."""
    sums = work.sums(np.zeros(len(work.steps["phase"]), np.int64), 1)
    return {
        phase: {
            "passes": work.passes[phase],
            "cycles_by": sums.by[code, 0].tolist(),
            "words": int(sums.words[code, 0]),
            "hops": int(sums.hops[code, 0]),
        }
        for code, phase in enumerate(PHASES)
        if work.passes[phase]
    }


def _work(places: Columns, op_kind: Array, by_cause: Array) -> list[Report]:
    keys = np.stack([places["phase"], places["layer"], op_kind], axis=1)
    found, group = np.unique(keys, axis=0, return_inverse=True)
    sums = np.zeros((len(found), len(CAUSES)), np.int64)
    np.add.at(sums, group.ravel(), by_cause)
    return [
        {"phase": phase, "layer": layer, "kind": kind, "cycles": cycles}
        for (phase, layer, kind), cycles in zip(found.tolist(), sums.tolist(), strict=True)
    ]


def _stage_work(places: Columns, op_kind: Array) -> list[Report]:
    keys = np.stack([places["stage"], op_kind], axis=1)
    found, group = np.unique(keys, axis=0, return_inverse=True)
    sums = np.zeros((len(found), 2), np.int64)
    np.add.at(sums, group.ravel(), np.stack([places["compute_cycles"], places["hops"]], axis=1))
    return [
        {"stage": stage, "kind": kind, "compute": compute, "hops": hops}
        for (stage, kind), (compute, hops) in zip(found.tolist(), sums.tolist(), strict=True)
    ]


def _places(places: Columns, by_cause: Array, pack: Pack, notes: list[str]) -> Report | None:
    rows = len(places["cycles"])
    kept = {name: column[:MOST_PLACES] for name, column in places.items() if not name.endswith("_cycles")}
    if rows > MOST_PLACES:
        total = int(places["cycles"].sum())
        part = int(kept["cycles"].sum()) / max(1, total)
        notes.append(
            f"The table has the {MOST_PLACES:,} costliest of {rows:,} steps, with {100 * part:.1f} % of all cycles."
        )
    columns = packed_columns({**kept, "cycles_by": by_cause[:MOST_PLACES]}, pack)
    if columns is None:
        notes.append("The table of steps found no room on this page; see wse inspect --steps.")
    return columns

"""Cycle counts of a run by step and by kind of op, and its median decoded token."""

from __future__ import annotations

from typing import Final

import numpy as np

from wse.reports.result import Report
from wse.tracing.page.pack import Array, Pack, check_index, packed_columns
from wse.tracing.query.costs.kinds import read_kinds
from wse.tracing.query.costs.step_sums import StepSums
from wse_traces.reader.executed_steps import rows_of
from wse_traces.reader.groups import distinct_rows, group_sums
from wse_traces.reader.read import Trace
from wse_traces.schema import CAUSES, PHASES

MAX_PLACES: Final = 12_000
"""Maximum rows in the page's table of steps, costliest first. Sorting them takes milliseconds."""


def work_data(trace: Trace, pack: Pack, notes: list[str]) -> Report:
    """Return the cycle counts of a run by step, op and stage, and the names that the page needs.

    Args:
        trace: An open trace.
        pack: Function that packs an array for the page.
        notes: List to which notes for the reader about omitted steps are added.

    Returns:
        - ``phases``: totals of each phase
        - ``op_names``, ``op_kinds``, ``kinds``, ``names``: for each op, its name and the index of
          its kind; the names of the kinds; and the names of kernels and patterns
        - ``places``: the costliest rows of ``Trace.top_steps``, summed over the run
        - ``work``: sets of ops with equal cycles (``EqualOps``) in each phase and op kind, with
          ``cycles`` broken down by cause, ranges of ``layers``, and ``steps`` broken down by kernel
          or pattern
        - ``stage_work``: for each stage and op kind, the compute cycles of its PEs and the hops of
          its words

    Raises:
        BadTrace: An index refers to no op, name or stage.
    """
    path, (kinds, kind_of) = trace.path, op_kinds(trace)
    sums = StepSums(trace)
    steps = sums.steps
    check_index(path, "steps/op", steps["op"], len(kind_of) - 1)
    check_index(path, "steps/name", steps["name"], trace.rows("name"))
    check_index(path, "steps/stage", steps["stage"], trace.rows("stage"))
    check_index(path, "schedules/phase", steps["phase"], len(PHASES))
    op_kind = kind_of[steps["op"]]
    return {
        "phases": _phases(sums),
        "op_names": trace.texts("graph/ops/name"),
        "op_kinds": kind_of[:-1].tolist(),
        "kinds": kinds,
        "names": trace.texts("strings/names"),
        "work": _work(sums, kinds),
        "stage_work": _stage_work(sums, op_kind),
        "places": _places(sums, pack, notes),
    }


def op_kinds(trace: Trace) -> tuple[list[str], Array]:
    """Return the kinds of ops, such as ``norm``, and for each op the index of its kind.

    Kinds are ordered by their first op. The index array ends with an additional -1 for steps
    without an op.
    """
    numbers: dict[str, int] = {}
    kind_of = [numbers.setdefault(kind, len(numbers)) for kind in trace.texts("graph/ops/kind")]
    return list(numbers), np.array([*kind_of, -1], np.int64)


def _phases(sums: StepSums) -> Report:
    """Return the totals of each phase that ran, keyed by phase name.

    They are the numbers of passes, cycles, words and hops, and the cycles by cause.
    """
    totals = sums.by_phase()
    names = ("cycles", "cycles_by", "words", "hops")
    return {
        phase: {"passes": sums.passes[phase], **{name: getattr(totals, name)[code, 0].tolist() for name in names}}
        for code, phase in enumerate(PHASES)
        if sums.passes[phase]
    }


def _work(sums: StepSums, kinds: list[str]) -> list[Report]:
    """Return a record for each group of ops that have the same name and the same cycles.

    Such ops are usually the same op in several layers. There are separate records for each phase
    and op kind. The keys of a record include ``cycles`` (by cause), ``layers`` and ``steps``.
    ``kind`` is -1 for steps that belong to no op.
    """
    return [
        {
            "phase": PHASES.index(phase),
            "kind": kinds.index(kind.kind) if kind.kind in kinds else -1,
            "op": equal.op,
            "layers": equal.layers,
            "count": equal.count,
            "cycles": list(equal.cycles_by.values()),
            "steps": [
                {"name": step.name or step.kind, "cycles": list(step.cycles_by.values())}
                for step in equal.steps
                if step.cycles
            ],
        }
        for phase, found in read_kinds(sums).items()
        for kind in found
        for equal in kind.ops
        if equal.cycles
    ]


def _stage_work(sums: StepSums, op_kind: Array) -> list[Report]:
    """Return the compute cycles of PEs and the hops of words, for each stage and kind of op.

    A stage is a part of the model, stored on one region of PEs.
    """
    keys, group = distinct_rows([sums.steps["stage"], op_kind])
    totals = sums.by_group(group, len(keys))
    compute = totals.cycles_by[:, :, CAUSES.index("compute")].sum(axis=0).tolist()
    rows = zip(keys.tolist(), compute, totals.hops.sum(axis=0).tolist(), strict=True)
    return [{"stage": stage, "kind": kind, "compute": cycles, "hops": hops} for (stage, kind), cycles, hops in rows]


def _places(sums: StepSums, pack: Pack, notes: list[str]) -> Report | None:
    """Return a table of the costliest steps for the page, or None if there is no room for it.

    Args:
        sums: Steps of a trace, summed over the run.
        pack: Function that packs an array for the page.
        notes: List to which notes for the reader about omitted steps are added.
    """
    steps = {name: column for name, column in sums.steps.items() if not name.endswith("_cycles")}
    steps["cycles_by"] = np.stack([sums.steps[f"{cause}_cycles"] for cause in CAUSES], axis=1)
    rows = len(steps["cycles"])
    first = {name: column[:MAX_PLACES] for name, column in steps.items()}
    if rows > MAX_PLACES:
        fraction = int(first["cycles"].sum()) / max(1, int(steps["cycles"].sum()))
        notes.append(
            f"The table has the {MAX_PLACES:,} costliest of {rows:,} steps, with {100 * fraction:.1f} % of all cycles."
        )
    columns = packed_columns(first, pack)
    if columns is None:
        notes.append("The table of steps found no room on this page; see wse inspect --steps.")
    return columns


DECODE: Final = PHASES.index("decode")


def median_data(phase: Array, cycles: Array, schedule: Array, by_kind: Array, kv_slots: Array) -> Report | None:
    """Return the decoded token whose pass takes the median number of cycles.

    If the number of decoded tokens is even, the lower of the two middle ones is used.

    Args:
        phase: int ``[token]``: phase of the pass that read or generated each token, or -1.
        cycles: int ``[token]``: number of cycles that the pass takes.
        schedule: int ``[token]``: schedule (sequence of steps) of that pass.
        by_kind: int ``[schedule, kind]``: cycle count of each op kind, from ``kind_cycles``.
        kv_slots: int ``[schedule]``: number of KV-cache slots in use.

    Returns:
        A dict with ``token`` (its index), ``cycles``, ``kv_slots`` and ``by_kind`` (cycles of each
        op kind), or None if no token was decoded.
    """
    decoded = np.flatnonzero(phase == DECODE)
    if not len(decoded):
        return None
    token = int(decoded[np.argsort(cycles[decoded], kind="stable")[(len(decoded) - 1) // 2]])
    at = int(schedule[token])
    return {
        "token": token,
        "cycles": int(cycles[token]),
        "kv_slots": int(kv_slots[at]),
        "by_kind": by_kind[at].tolist(),
    }


def kind_cycles(trace: Trace, begins: Array, counts: Array, kind_of: Array) -> Array:
    """Return the cycles that each op kind takes in each schedule (sequence of steps).

    Args:
        trace: An open trace.
        begins: int ``[schedule]``: first row of each schedule in the step table.
        counts: int ``[schedule]``: number of rows of each schedule.
        kind_of: int ``[op + 1]``: kind of each op, followed by -1 for steps without an op.

    Returns:
        int64 ``[schedule, kind]``. The last kind represents steps without an op.
    """
    kinds = int(kind_of.max(initial=-1)) + 2
    owner = np.full(trace.rows("step"), -1, np.int64)
    owner[rows_of(begins, counts)] = np.repeat(np.arange(len(begins)), counts)
    kind = kind_of[trace.column("steps/op")]
    cell = owner * kinds + np.where(kind < 0, kinds - 1, kind)
    has_owner = owner >= 0
    cycles = trace.column("steps/cycles").astype(np.int64)
    return group_sums(cycles[has_owner], cell[has_owner], len(begins) * kinds).reshape(len(begins), kinds)

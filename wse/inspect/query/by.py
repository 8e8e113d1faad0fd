"""Cycles added up by op, layer, cause, token or wafer, for each phase, the largest first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from wse.errors import BadTrace, UnknownName
from wse.inspect.query.opened import Facts
from wse.inspect.query.work import Work
from wse_traces.executed import cache_shifts, schedule_rows
from wse_traces.read import Array
from wse_traces.schema import CAUSES, PHASES

_ROW_BYTES: Final = 1 << 10  # of a row of facts in memory


def check_group(by: str) -> None:
    """Raise UnknownName for what cycles are not added up by."""
    if by not in _ROWS:
        raise UnknownName("group", by, _ROWS, where="--by")


def group_facts(work: Work, by: str, top: int | None) -> list[Facts]:
    """A row for each group of each phase, its ``top`` largest or all; ``fraction`` is of the cycles of the phase."""
    rows = _ROWS[by](work)
    found: list[Facts] = []
    for phase in PHASES:
        mine = [row for row in rows if row["phase"] == phase]
        total, passes = sum(row["cycles"] for row in mine) or 1, max(1, work.passes[phase])
        for row in sorted(mine, key=lambda each: -int(each["cycles"]))[:top]:
            share: Facts = {"fraction": row["cycles"] / total}
            found.append({**row, "cycles_per_pass": row["cycles"] / passes, **share} if by != "token" else row | share)
    return found


def _ops(work: Work) -> list[Facts]:
    trace = work.trace
    names, kinds = trace.texts("graph/ops/name"), trace.texts("graph/ops/kind")
    layers = trace.column("graph/ops/layer").tolist()
    known = [{"op": n, "kind": k, "layer": at} for n, k, at in zip(names, kinds, layers, strict=True)]
    op = work.steps["op"]
    op = np.where((op >= 0) & (op < len(names)), op, len(names))
    return _grouped(work, op, [*known, {"op": ""}])


def _layers(work: Work) -> list[Facts]:
    layers, group = np.unique(work.steps["layer"], return_inverse=True)
    return _grouped(work, group, [{"layer": layer} for layer in layers.tolist()])


def _wafers(work: Work) -> list[Facts]:
    wafers, group = np.unique(work.steps["wafer"], return_inverse=True)
    return _grouped(work, group, [{"wafer": wafer} for wafer in wafers.tolist()])


def _grouped(work: Work, group: Array, heads: list[Facts]) -> list[Facts]:
    sums = work.sums(group, len(heads))
    return [
        {
            "phase": phase,
            **head,
            **{name: int(getattr(sums, name)[code, at]) for name in ("cycles", "words", "hops")},
            "mostly": CAUSES[int(sums.by[code, at].argmax())] if sums.cycles[code, at] else "",
        }
        for code, phase in enumerate(PHASES)
        for at, head in enumerate(heads)
        if sums.cycles[code, at] or sums.words[code, at]
    ]


def _causes(work: Work) -> list[Facts]:
    """Each cause with the op that has most of its cycles; words and hops belong to steps, not to causes."""
    names = work.trace.texts("graph/ops/name")
    by = work.sums(work.steps["op"], len(names)).by
    totals = work.sums(np.zeros(len(work.steps["op"]), np.int64), 1).by[:, 0]
    found: list[Facts] = []
    for code, phase in enumerate(PHASES):
        for at, cause in enumerate(CAUSES):
            if cycles := int(totals[code, at]):
                most: Facts = {}
                if names and (largest := int(by[code, :, at].max())):
                    most = {"most_in": names[int(by[code, :, at].argmax())], "most_fraction": largest / cycles}
                found.append({"phase": phase, "cause": cause, "cycles": cycles, **most})
    return found


def _tokens(work: Work) -> list[Facts]:
    """A row for each pass, named by the first token that it read or generated; cycles from its start to its end."""
    trace, most = work.trace, work.trace.limit_bytes // _ROW_BYTES
    if trace.rows("pass") > most:
        message = f"{trace.path}: {trace.rows('pass'):,} passes, at most {most:,} are listed by token; take --by op"
        raise BadTrace(message)
    tokens, texts = trace.table("token"), trace.token_texts()
    schedule, start = trace.column("passes/schedule"), trace.column("passes/start_cycle")
    phase, cycles = trace.column("schedules/phase"), trace.column("schedules/cycles")
    first, steps = schedule_rows(trace)
    ends = np.stack([first, first + steps], axis=1)
    sums = {name: _between(trace.column(f"steps/{name}"), ends)[schedule] for name in ("words", "hops", "cycles_by")}
    shifts = cache_shifts(trace)
    for name in ("words", "hops"):
        np.add.at(sums[name], shifts["pass"], shifts[name])
    of_pass = np.unique(tokens["pass"], return_index=True, return_counts=True)
    served = {index: (at, count) for index, at, count in zip(*(each.tolist() for each in of_pass), strict=True)}
    found: list[Facts] = []
    for index, of in enumerate(schedule.tolist()):
        if phase[of] >= len(PHASES):
            continue
        token, count = served.get(index, (-1, 0))
        by = sums["cycles_by"][index]
        found.append(
            {
                "phase": PHASES[phase[of]],
                "token": token,
                "tokens": count,
                "text": texts[token] if token >= 0 else "",
                "pass": index,
                "start_cycle": int(start[index]),
                "cycles": int(cycles[of]),
                "words": int(sums["words"][index]),
                "hops": int(sums["hops"][index]),
                "mostly": CAUSES[int(by.argmax())] if by.any() else "",
            }
        )
    return found


def _between(column: Array, ends: Array) -> Array:
    """Sums of a column's rows from one end to the other."""
    below = np.concatenate([np.zeros((1, *column.shape[1:]), np.int64), np.cumsum(column, axis=0)])
    found: Array = below[ends[:, 1]] - below[ends[:, 0]]
    return found


_ROWS: Final[dict[str, Callable[[Work], list[Facts]]]] = {
    "op": _ops,
    "layer": _layers,
    "cause": _causes,
    "token": _tokens,
    "wafer": _wafers,
}

"""ProfileResult: where this computer's own time goes during a run, by kind of step, op and kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from wse.backends.execute.step_times import StepTimes
from wse.program.program import Program
from wse.program.transfers.kinds import TRANSFERS
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, more_rows, number
from wse.reports.terminal import NARROW, WIDEST, bar, in_bytes, percent, seconds
from wse.tracing.record.steps import step_names

MOST_ROWS: Final = 10
"""Rows of each table that are shown."""


class TimedStep(NamedTuple):
    """A step of a phase with its time and its bytes over all passes.

    Attributes:
        phase: ``prefill``, ``decode`` or ``verify``.
        kind: ``compute``, or the kind of transfer.
        op: The op in the graph that it belongs to.
        op_kind: The op's kind.
        kernel: The kernel that it runs, or the pattern that it executes.
        s: Its seconds.
        bytes: The bytes of its operands.
    """

    phase: str
    kind: str
    op: str
    op_kind: str
    kernel: str
    s: float
    bytes: int


@dataclass(frozen=True, kw_only=True)
class ProfileRow(Result):
    """The steps of one kind, op or kernel."""

    name: Annotated[str, Doc("kind of step, op or kernel")]
    s: Annotated[float, Doc("time of its steps", "s")]
    share: Annotated[float, Doc("share of the time of all passes")]
    bytes: Annotated[int, Doc("what its steps read and write at least: operands of kernels, words moved", "bytes")]
    bound_fraction: Annotated[float, Doc("time in which memory is read at its bandwidth, over the time that it took")]


@dataclass(frozen=True, kw_only=True)
class ProfileResult(Result):
    """The time of this computer during the passes of a run."""

    passes_s: Annotated[float, Doc("time of all passes", "s")]
    read_bytes_per_s: Annotated[float, Doc("rate at which all cores read the largest arena", "bytes/s")]
    by_kind: Annotated[tuple[ProfileRow, ...], Doc("by kind of step, the longest first")]
    by_op: Annotated[tuple[ProfileRow, ...], Doc("by kind of op, the longest first")]
    by_kernel: Annotated[tuple[ProfileRow, ...], Doc("by kernel or pattern, the longest first")]
    output: Annotated[str, Doc("path of the flame graph")]


def timed_steps(program: Program, times: StepTimes) -> list[TimedStep]:
    """Return every step that was run, with its totals; phases that go through the same steps are one."""
    found = []
    for of_steps in times:
        steps = of_steps.phase.steps
        for index, kernel in enumerate(step_names(program, steps)):
            op = int(steps.op[index])
            kind = "compute" if steps.computes(index) else TRANSFERS[steps.code[index]].name
            of_op = of_steps.phase.name, kind, program.op_names[op], program.op_kinds[op]
            found.append(TimedStep(*of_op, kernel, float(of_steps.s[index]), int(of_steps.bytes[index])))
    return found


def profile_result(steps: Sequence[TimedStep], times: StepTimes, output: Path) -> ProfileResult:
    """Return the totals of the steps of a run, whose flame graph is at ``output``; reads memory to time it."""
    passes_s, read_bytes_per_s = times.passes_s, times.read_bytes_per_s()

    def rows(name_of: Callable[[TimedStep], str]) -> tuple[ProfileRow, ...]:
        sums: dict[str, tuple[float, int]] = {}
        for step in steps:
            s, size = sums.get(name_of(step), (0.0, 0))
            sums[name_of(step)] = s + step.s, size + step.bytes
        return tuple(
            ProfileRow(
                name=name,
                s=s,
                share=s / passes_s,
                bytes=size,
                bound_fraction=size / (s * read_bytes_per_s) if s else 0.0,
            )
            for name, (s, size) in sorted(sums.items(), key=lambda item: -item[1][0])
        )

    return ProfileResult(
        passes_s=passes_s,
        read_bytes_per_s=read_bytes_per_s,
        by_kind=rows(lambda step: step.kind),
        by_op=rows(lambda step: step.op_kind),
        by_kernel=rows(lambda step: step.kernel),
        output=str(output),
    )


def profile_tables(profile: ProfileResult, *, width: int = WIDEST) -> tuple[Table, ...]:
    """Time by kind of step, op and kernel, each the longest first."""
    by_name = {"kind of step": profile.by_kind, "op": profile.by_op, "kernel or pattern": profile.by_kernel}
    tables = [_rows_table(name, rows, width) for name, rows in by_name.items()]
    total = f"{seconds(profile.passes_s)} of passes"
    bound = f"memory read by all cores at {profile.read_bytes_per_s / 1e9:.1f} GB/s, measured after the run"
    return (
        replace(tables[0], note=total),
        *tables[1:-1],
        replace(tables[-1], footer=(*tables[-1].footer, ("bound", bound))),
    )


def _rows_table(name: str, rows: Sequence[ProfileRow], width: int) -> Table:
    columns = (
        Column(key="name", title=name),
        Column(key="bar", cell=lambda row: bar(row.share, 8 if width < NARROW else 24), priority=1),
        number("share", "share", percent),
        number("s", "time", seconds),
        number("bytes", "bytes", in_bytes),
        number("bound_fraction", "of the bound", percent),
    )
    title, footer = f"This computer's time by {name}", more_rows(rows, MOST_ROWS)
    return Table(columns=columns, rows=rows[:MOST_ROWS], title=title, footer=footer)

"""ProfileResult: breakdown of this computer's time during a run, and its flame graph as a file.

Format of the flame graph: https://www.speedscope.app/file-format-schema.json. The profile is of
type ``sampled``: a list of weighted stacks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from wse.backends.execute.step_times import StepTimes
from wse.program.program import Program
from wse.program.transfers.transfer_types import TRANSFERS
from wse.reports.number_text import in_bytes, percent, seconds
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, more_rows, number
from wse.reports.terminal import NARROW, WIDEST, bar
from wse.tracing.record.steps import step_names

MAX_ROWS: Final = 10
"""Maximum number of rows printed per table."""


class TimedStep(NamedTuple):
    """A step of a Program (a kernel or a transfer) and its run time on this computer.

    Time and bytes are summed over all passes that execute the step.

    Attributes:
        phase: ``prefill``, ``decode`` or ``verify``.
        kind: ``compute``, or the name of the transfer type.
        op: Name of the model-graph op to which the step belongs.
        op_kind: Type of op, such as a matrix product or attention.
        kernel: Name of the kernel or of the communication pattern.
        s: Time in seconds.
        bytes: Total size of all operands in bytes.
    """

    phase: str
    kind: str
    op: str
    op_kind: str
    kernel: str
    s: float
    bytes: int


class ProfileRow(Result):
    """A row of a profile: total time and bytes of the steps of one type, op or kernel."""

    name: Annotated[str, Doc("type of step, op or kernel")]
    s: Annotated[float, Doc("time of these steps", "s")]
    share: Annotated[float, Doc("fraction of the time of all passes")]
    bytes: Annotated[int, Doc("minimum bytes read and written: operands of kernels, and words moved", "bytes")]
    bound_fraction: Annotated[float, Doc("time to read these bytes at memory bandwidth, over the measured time")]


class ProfileResult(Result):
    """Profile of a run: how long this computer spent on each type of step, op and kernel."""

    passes_s: Annotated[float, Doc("time of all passes", "s")]
    read_bytes_per_s: Annotated[float, Doc("measured memory bandwidth of all cores", "bytes/s")]
    by_kind: Annotated[tuple[ProfileRow, ...], Doc("by type of step, the longest time first")]
    by_op: Annotated[tuple[ProfileRow, ...], Doc("by kind of op, the longest time first")]
    by_kernel: Annotated[tuple[ProfileRow, ...], Doc("by kernel or pattern, the longest time first")]
    output: Annotated[str, Doc("path of the flame graph")]


def timed_steps(program: Program, times: StepTimes) -> list[TimedStep]:
    """Return all executed steps with their times and bytes, summed over all passes.

    If several phases consist of the same steps, as for prompt chunks of equal size, each step is
    returned once.
    """
    found = []
    for phase_times in times:
        steps = phase_times.phase.steps
        for index, kernel in enumerate(step_names(program, steps)):
            op = int(steps.op[index])
            kind = "compute" if steps.computes(index) else TRANSFERS[steps.code[index]].name
            labels = phase_times.phase.name, kind, program.op_names[op], program.op_kinds[op]
            found.append(TimedStep(*labels, kernel, float(phase_times.s[index]), int(phase_times.bytes[index])))
    return found


def profile_result(steps: Sequence[TimedStep], times: StepTimes, output: Path) -> ProfileResult:
    """Summarise a run's measured times by step type, op and kernel.

    Each time is also compared with the minimum time that this computer's memory bandwidth allows.

    Args:
        steps: The steps, with their total times.
        times: Measured times, including the total time of all passes and the memory bandwidth.
        output: Path of the flame graph, which is only reported in the result.
    """
    passes_s, read_bytes_per_s = times.passes_s, times.read_bytes_per_s()

    def rows(name_of: Callable[[TimedStep], str]) -> tuple[ProfileRow, ...]:
        """Group the steps by name and return one row per group, longest total time first."""
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
    """Build three tables of the longest times: by step type, by op, and by kernel."""
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
    title, footer = f"This computer's time by {name}", more_rows(rows, MAX_ROWS)
    return Table(columns=columns, rows=rows[:MAX_ROWS], title=title, footer=footer)


PROFILE_OPTION = "--profile-output"
SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(name: str, steps: Sequence[TimedStep]) -> bytes:
    """Return a flame graph of step times, as the content of a speedscope file.

    Each step is a stack of three frames (phase, op and kernel), weighted by its time in seconds.

    Args:
        name: Title of the flame graph.
        steps: The steps of the run, in order.
    """
    frames: dict[str, int] = {}
    samples, weights = [], []
    for step in steps:
        samples.append([frames.setdefault(frame, len(frames)) for frame in (step.phase, step.op, step.kernel)])
        weights.append(step.s)
    profile = {
        "type": "sampled",
        "name": name,
        "unit": "seconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    content = {"$schema": SCHEMA, "name": name, "shared": {"frames": [{"name": frame} for frame in frames]}}
    return json.dumps({**content, "profiles": [profile]}).encode()

"""What a timeline is made of: slices on tracks, and counters, all in cycles from the start of the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from wse.report.as_json import Report
from wse_traces.schema import HOST

RUN: Final = HOST - 1
"""Processes are numbers: of a wafer its own, of the host that which it has in a trace, of the run as a whole this."""


def process_name(process: int) -> str:
    """What a process is called.

    >>> process_name(0), process_name(HOST), process_name(RUN)
    ('wafer 0', 'host', 'run')
    """
    return {RUN: "run", HOST: "host"}.get(process, f"wafer {process}")


@dataclass(frozen=True, slots=True)
class Track:
    """A line of a timeline: the process that it belongs to, its name there, and its place among the others."""

    process: int
    name: str
    order: int


@dataclass(frozen=True, slots=True)
class Slice:
    """Something that takes time. Slices of one track never overlap."""

    track: Track
    name: str
    kind: str
    start_cycle: int
    cycles: int
    facts: Report = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Count:
    """The value of a counter of a process from a cycle on, and the unit that it is in."""

    process: int
    name: str
    unit: str
    cycle: int
    value: float


Event = Slice | Count

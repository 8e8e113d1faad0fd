"""Outcome of a pattern on a line: which PE stores whose words after all messages, and what collective that is.

Messages are executed in their order on labels instead of words: for each PE and part of its words, the set of
PEs whose words are in it. A sum that has the words of a PE twice or not at all is reported, and so is a copy that does
not arrive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from wse_mappings.schedule import COMBINING, Arrival, LineSchedule

Collective = Literal["reduce", "all_reduce", "broadcast", "gather", "all_gather"]

MOST_NAMED: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a pattern on a line: its kind, its root, or its fault.

    Attributes:
        collective: The name of it; None where it does none, or one in part alone.
        root: The PE that has the result of a reduce or gather, or whose words are sent; 0 where all have the result.
        fault: What is wrong, in words; empty where nothing is.
    """

    collective: Collective | None = None
    root: int = 0
    fault: str = ""


@dataclass(frozen=True, slots=True)
class _Held:
    """The PEs whose words a place of each PE has, as bit sets: all of them, and those included more than once."""

    once: list[int]
    twice: list[int]


def outcome_of(schedule: LineSchedule) -> Outcome:
    """Return what the first line of a schedule computes in its first round, for distinct words on every PE.

    A pattern whose words are cut into parts gathers if each part has an owner of its own.
    """
    fault = _faulty_messages(schedule)
    if fault:
        return Outcome(fault=fault)
    parts = _held_of_parts(schedule)
    if np.isin(schedule.of_line(0)[:, 2], COMBINING).any():
        return _of_sum(schedule, parts)
    return _of_copies(schedule, parts)


def _faulty_messages(schedule: LineSchedule) -> str:
    """Return the first invalid message as text; empty where all are valid."""
    messages = schedule.of_line(0)
    if messages.ndim != 2 or messages.shape[1] != 3 or not len(messages):
        return f"its messages have the shape {messages.shape}; each is a source, a target and an Arrival"
    off = np.asarray(((messages[:, :2] < 0) | (messages[:, :2] >= schedule.length)).any(axis=1))
    unknown = ~np.isin(messages[:, 2], list(Arrival))
    alone = (messages[:, 0] == messages[:, 1]) & (messages[:, 2] != Arrival.COPY)
    for index in np.flatnonzero(off | unknown | alone)[:1].tolist():
        source, target, arrival = messages[index].tolist()
        where = f"message {index} goes from PE {source} to PE {target}"
        if off[index]:
            return f"{where}, on a line of PEs 0 to {schedule.length - 1}"
        return f"{where}, which is the same" if alone[index] else f"message {index} arrives as {arrival}, no Arrival"
    way = np.sign(messages[:, 1] - messages[:, 0])
    again = (messages[1:, 2] == Arrival.MULTICAST) & (messages[1:, 2] == messages[:-1, 2]) & (way[1:] == way[:-1])
    for index in np.flatnonzero(again & (messages[1:, 0] == messages[:-1, 0]))[:1].tolist():
        pe = messages[index, 0]
        return (
            f"messages {index} and {index + 1} are multicasts of PE {pe} the same way; one to the farther end does both"
        )
    colours = schedule.of_variant(int(schedule.variants[0, 0]))[1]
    if colours is not None and (len(colours) != len(messages) or colours.min() < 0):
        return f"{len(colours)} message colours, from {colours.min()}, for {len(messages)} messages; one each, from 0"
    if colours is not None and colours.max() >= schedule.colours:
        return f"a message has colour {colours.max()}, and colours = {schedule.colours}: one more than the highest"
    return ""


def _held_of_parts(schedule: LineSchedule) -> list[_Held]:
    """Return what every PE has of each part after all messages."""
    messages, _, part = schedule.of_variant(int(schedule.variants[0, 0]))
    of_part = np.zeros(len(messages), np.int32) if part is None else part
    order = np.argsort(of_part, kind="stable")
    cuts = np.searchsorted(of_part[order], np.arange(schedule.parts + 1))
    rows = messages[order].tolist()
    return [_carry_out(schedule.length, rows[cuts[i] : cuts[i + 1]]) for i in range(schedule.parts)]


def _carry_out(length: int, messages: list[list[int]]) -> _Held:
    held = _Held([1 << pe for pe in range(length)], [0] * length)
    once, twice = held.once, held.twice
    for source, target, arrival in messages:
        if arrival in COMBINING:
            twice[target] |= twice[source] | (once[target] & once[source])
            once[target] |= once[source]
        elif arrival == Arrival.REPLACE:
            once[target], twice[target] = once[source], twice[source]
        elif arrival == Arrival.MULTICAST:
            step = 1 if target > source else -1
            for pe in range(source + step, target + step, step):
                once[pe], twice[pe] = once[source], twice[source]
    return held


def _of_sum(schedule: LineSchedule, parts: list[_Held]) -> Outcome:
    """Return a reduce or an all-reduce."""
    everybody = (1 << schedule.length) - 1
    pes = range(schedule.length)
    complete = [pe for pe in pes if all(held.once[pe] == everybody and not held.twice[pe] for held in parts)]
    if len(complete) == schedule.length:
        return Outcome(collective="all_reduce")
    messages = schedule.of_line(0)
    for_all = bool(np.isin(messages[:, 2], (Arrival.REPLACE, Arrival.MULTICAST)).any())
    if complete and not for_all:
        return Outcome(collective="reduce", root=complete[0])
    if complete:
        lacking = sorted(set(pes) - set(complete))
        return Outcome(fault=f"the sum of all is on PE {complete[0]} and not on PE {_pes(lacking)}")
    at = int(messages[np.flatnonzero(np.isin(messages[:, 2], COMBINING))[-1], 1])  # where the last sum is taken
    for held in parts:
        if held.twice[at]:
            return Outcome(fault=f"the sum on PE {at} has the words of PE {_pes(_bits(held.twice[at]))} more than once")
    held = next(held for held in parts if held.once[at] != everybody)
    return Outcome(fault=f"the sum on PE {at} lacks the words of PE {_pes(_bits(everybody & ~held.once[at]))}")


def _of_copies(schedule: LineSchedule, parts: list[_Held]) -> Outcome:
    """Return a broadcast, a gather or an all-gather."""
    pes = range(schedule.length)
    if schedule.parts == 1:
        roots = {parts[0].once[pe] for pe in pes}
        if len(roots) == 1:
            return Outcome(collective="broadcast", root=roots.pop().bit_length() - 1)
        source = int(schedule.of_line(0)[0, 0])
        lacking = [pe for pe in pes if parts[0].once[pe] != 1 << source]
        return Outcome(fault=f"the words of PE {source} do not reach PE {_pes(lacking)}")
    owners = [int(source) for source in _first_sources(schedule)]
    having = [pe for pe in pes if all(held.once[pe] == 1 << owners[i] for i, held in enumerate(parts))]
    if having and len(set(owners)) == schedule.length == schedule.parts:
        everywhere = len(having) == schedule.length
        return Outcome(collective="all_gather" if everywhere else "gather", root=0 if everywhere else having[0])
    if not having:
        return Outcome(fault="no PE gets all parts of the words")
    return Outcome(fault=f"{len(set(owners))} of {schedule.length} PEs have a part of the words; give each PE one")


def _first_sources(schedule: LineSchedule) -> list[int]:
    """Return the PE at which each part begins: the source of its first message.

    Of one that nobody sends the last target.
    """
    messages, _, part = schedule.of_variant(int(schedule.variants[0, 0]))
    assert part is not None
    sources = dict(zip(part[::-1].tolist(), messages[::-1, 0].tolist(), strict=True))
    return [sources.get(i, int(messages[-1, 1])) for i in range(schedule.parts)]


def _bits(mask: int) -> list[int]:
    return [pe for pe in range(mask.bit_length()) if mask >> pe & 1]


def _pes(pes: list[int]) -> str:
    """Return some PEs as text, the first few of them."""
    more = f" and {len(pes) - MOST_NAMED} more" if len(pes) > MOST_NAMED else ""
    return ", ".join(map(str, pes[:MOST_NAMED])) + more

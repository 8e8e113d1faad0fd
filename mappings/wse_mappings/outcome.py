"""Outcome of a pattern on a line: whose words each PE ends up with, and the resulting collective.

The messages are executed in order on sets instead of words: each PE has, for each part of the
words, the set of PEs whose words are included. A sum that includes a PE's words twice or not at all
is reported as a fault, as is a copy that does not arrive.

The words that messages send over the links of a line are counted here as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from wse_mappings.schedule import COMBINING, Arrival, LineSchedule

Collective = Literal["reduce", "all_reduce", "broadcast", "gather", "all_gather"]

MAX_NAMED: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternOutcome:
    """Effect of a pattern, which is a list of messages between the PEs of a line.

    The pattern performs a collective operation, or contains an error.

    Attributes:
        collective: Name of the collective operation; None if the pattern does not complete any.
        root: PE that gets the result of a reduce or gather, or whose words are broadcast; 0 if all
            PEs get the result.
        fault: Description of the error; empty if there is none.
    """

    collective: Collective | None = None
    root: int = 0
    fault: str = ""


@dataclass(frozen=True, slots=True)
class _Contents:
    """For each PE of a line, the PEs whose words have reached it, for one part of the words.

    A pattern may send the words of a PE in several parts. Sets of PEs are stored as bit sets.

    Attributes:
        included: For each PE, the set of PEs whose words have been copied or added into its words.
        repeated: For each PE, the set of PEs whose words have been added more than once.
    """

    included: list[int]
    repeated: list[int]


def outcome_of(schedule: LineSchedule) -> PatternOutcome:
    """Return which collective operation a pattern of messages performs along a line of PEs.

    Only the first line is examined and, if the pattern is executed in several rounds, only the
    first round. All PEs are assumed to start with different words. If the words are divided into
    parts, the pattern is a gather only if each PE owns exactly one part.
    """
    fault = _faulty_messages(schedule)
    if fault:
        return PatternOutcome(fault=fault)
    parts = _contents_of_parts(schedule)
    if np.isin(schedule.line_messages(0)[:, 2], COMBINING).any():
        return _sum_outcome(schedule, parts)
    return _copy_outcome(schedule, parts)


def _faulty_messages(schedule: LineSchedule) -> str:
    """Return a message that describes the first invalid message, or "" if all messages are valid.

    The checks are:

    1. The array of messages has three columns and at least one row.
    2. Sources and targets are on the line, sources differ from targets except in local copies, and
       the arrival codes are known.
    3. A PE does not multicast twice in a row in the same direction.
    4. Every message has a colour, from 0 to the number of colours minus 1.
    """
    messages = schedule.line_messages(0)
    # 1
    if messages.ndim != 2 or messages.shape[1] != 3 or not len(messages):
        return f"its messages have the shape {messages.shape}; give a row (source, target, Arrival) for each"
    # 2
    is_outside = np.asarray(((messages[:, :2] < 0) | (messages[:, :2] >= schedule.length)).any(axis=1))
    has_unknown_arrival = ~np.isin(messages[:, 2], list(Arrival))
    is_to_itself = (messages[:, 0] == messages[:, 1]) & (messages[:, 2] != Arrival.COPY)
    for index in np.flatnonzero(is_outside | has_unknown_arrival | is_to_itself)[:1].tolist():
        source, target, arrival = messages[index].tolist()
        message_text = f"message {index} goes from PE {source} to PE {target}"
        if is_outside[index]:
            return f"{message_text}, on a line of PEs 0 to {schedule.length - 1}"
        if is_to_itself[index]:
            return f"message {index} goes from PE {source} to itself; only an Arrival.COPY may do that"
        return f"message {index} arrives as {arrival}, which is not an Arrival"
    # 3
    direction = np.sign(messages[:, 1] - messages[:, 0])
    repeats = (
        (messages[1:, 2] == Arrival.MULTICAST)
        & (messages[1:, 2] == messages[:-1, 2])
        & (direction[1:] == direction[:-1])
    )
    for index in np.flatnonzero(repeats & (messages[1:, 0] == messages[:-1, 0]))[:1].tolist():
        pe = messages[index, 0]
        return (
            f"messages {index} and {index + 1} are multicasts from PE {pe} in the same direction; "
            "give one multicast to the farther end"
        )
    # 4
    colours = schedule.variant_messages(int(schedule.variants[0, 0]))[1]
    if colours is not None and (len(colours) != len(messages) or colours.min() < 0):
        return f"{len(messages)} messages have {len(colours)} colours from {colours.min()} on; give one each, from 0"
    if colours is not None and colours.max() >= schedule.colours:
        return f"a message has colour {colours.max()}, but colours = {schedule.colours}; give {colours.max() + 1}"
    return ""


def _contents_of_parts(schedule: LineSchedule) -> list[_Contents]:
    """Execute all messages, and return which PEs' words each PE then has.

    There is one result for each part into which words are divided.
    """
    messages, _, part = schedule.variant_messages(int(schedule.variants[0, 0]))
    part_of_message = np.zeros(len(messages), np.int32) if part is None else part
    order = np.argsort(part_of_message, kind="stable")
    cuts = np.searchsorted(part_of_message[order], np.arange(schedule.parts + 1))
    rows = messages[order].tolist()
    return [_execute_messages(schedule.length, rows[cuts[i] : cuts[i + 1]]) for i in range(schedule.parts)]


def _execute_messages(length: int, messages: list[list[int]]) -> _Contents:
    """Execute messages along a line, and return which PEs' words each PE then has.

    Args:
        length: Number of PEs in the line.
        messages: (source, target, arrival) of each message.
    """
    contents = _Contents([1 << pe for pe in range(length)], [0] * length)
    included, repeated = contents.included, contents.repeated
    for source, target, arrival in messages:
        if arrival in COMBINING:
            repeated[target] |= repeated[source] | (included[target] & included[source])
            included[target] |= included[source]
        elif arrival == Arrival.REPLACE:
            included[target], repeated[target] = included[source], repeated[source]
        elif arrival == Arrival.MULTICAST:
            step = 1 if target > source else -1
            for pe in range(source + step, target + step, step):
                included[pe], repeated[pe] = included[source], repeated[source]
    return contents


def _sum_outcome(schedule: LineSchedule, parts: list[_Contents]) -> PatternOutcome:
    """Return the outcome of a pattern that adds up words: a reduce, an all-reduce or an error.

    Args:
        schedule: Messages of the pattern.
        parts: Origins of each PE's words after all messages, for each part of the words.
    """
    everybody = (1 << schedule.length) - 1
    pes = range(schedule.length)
    complete = [
        pe for pe in pes if all(contents.included[pe] == everybody and not contents.repeated[pe] for contents in parts)
    ]
    if len(complete) == schedule.length:
        return PatternOutcome(collective="all_reduce")
    messages = schedule.line_messages(0)
    sends_result = bool(np.isin(messages[:, 2], (Arrival.REPLACE, Arrival.MULTICAST)).any())
    if complete and not sends_result:
        return PatternOutcome(collective="reduce", root=complete[0])
    if complete:
        lacking = sorted(set(pes) - set(complete))
        return PatternOutcome(fault=f"the sum of all is on PE {complete[0]} and not on PE {_pes(lacking)}")
    last_sum = np.flatnonzero(np.isin(messages[:, 2], COMBINING))[-1]
    pe = int(messages[last_sum, 1])
    for contents in parts:
        if contents.repeated[pe]:
            repeated = _pes(_bits(contents.repeated[pe]))
            return PatternOutcome(fault=f"the sum on PE {pe} has the words of PE {repeated} more than once")
    contents = next(contents for contents in parts if contents.included[pe] != everybody)
    return PatternOutcome(
        fault=f"the sum on PE {pe} lacks the words of PE {_pes(_bits(everybody & ~contents.included[pe]))}"
    )


def _copy_outcome(schedule: LineSchedule, parts: list[_Contents]) -> PatternOutcome:
    """Return the outcome of a pattern without sums: a broadcast, (all-)gather or an error.

    Args:
        schedule: Messages of the pattern.
        parts: Origins of each PE's words after all messages, for each part of the words.
    """
    pes = range(schedule.length)
    if schedule.parts == 1:
        roots = {parts[0].included[pe] for pe in pes}
        if len(roots) == 1:
            return PatternOutcome(collective="broadcast", root=roots.pop().bit_length() - 1)
        source = int(schedule.line_messages(0)[0, 0])
        lacking = [pe for pe in pes if parts[0].included[pe] != 1 << source]
        return PatternOutcome(fault=f"the words of PE {source} do not reach PE {_pes(lacking)}")
    owners = [int(source) for source in _first_sources(schedule)]
    having = [pe for pe in pes if all(contents.included[pe] == 1 << owners[i] for i, contents in enumerate(parts))]
    if having and len(set(owners)) == schedule.length == schedule.parts:
        all_have = len(having) == schedule.length
        return PatternOutcome(collective="all_gather" if all_have else "gather", root=0 if all_have else having[0])
    if not having:
        return PatternOutcome(fault="no PE gets all parts of the words")
    return PatternOutcome(
        fault=f"{len(set(owners))} of {schedule.length} PEs have a part of the words; give each PE one"
    )


def _first_sources(schedule: LineSchedule) -> list[int]:
    """Return, for each part of the words, the PE that owns this part at the start of the pattern.

    The owner is the PE that sends the part first. A part that is never sent belongs to the PE that
    receives the last message.
    """
    messages, _, part = schedule.variant_messages(int(schedule.variants[0, 0]))
    assert part is not None
    sources = dict(zip(part[::-1].tolist(), messages[::-1, 0].tolist(), strict=True))
    return [sources.get(i, int(messages[-1, 1])) for i in range(schedule.parts)]


def _bits(mask: int) -> list[int]:
    """Return the indices of the set bits of a mask."""
    return [pe for pe in range(mask.bit_length()) if mask >> pe & 1]


def _pes(pes: list[int]) -> str:
    """Return a message that lists up to MAX_NAMED PEs, followed by the number of remaining PEs."""
    ending = f" and {len(pes) - MAX_NAMED} more" if len(pes) > MAX_NAMED else ""
    return ", ".join(map(str, pes[:MAX_NAMED])) + ending


def words_on_links(
    pattern: LineSchedule, words: int, variant: npt.NDArray[np.integer], line: npt.NDArray[np.integer], lines: int
) -> npt.NDArray[np.int64]:
    """Count the words that a communication pattern sends over each link between neighbouring PEs.

    A pattern consists of variants, which are lists of messages. A line is a row or column of PEs.
    Line ``line[k]`` executes the messages of variant ``variant[k]``; a line may execute several
    variants.

    Args:
        pattern: Variants of the pattern, with their messages.
        words: Number of words per PE. Messages send all of them, or one of several parts.
        variant: Integers ``[n]``: index of the variant of each execution.
        line: Integers ``[n]``: index of the line of each execution.
        lines: Number of lines.

    Returns:
        int64 ``[2, lines, length]``: words to the next PE (index 0 of the first axis) and to the
        previous PE (index 1).
    """
    counts = pattern.first[variant + 1] - pattern.first[variant]
    starts = np.repeat(pattern.first[variant] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    executed = starts + np.arange(int(counts.sum()))
    message, message_words = pattern.messages[executed], pattern.words_of_messages(words)[executed]
    line_of_message = np.repeat(line, counts)
    on_fabric = message[:, 2] != Arrival.COPY
    source, target, line_of_message, message_words = (
        message[on_fabric, 0],
        message[on_fabric, 1],
        line_of_message[on_fabric],
        message_words[on_fabric],
    )
    change = np.zeros((2, lines, pattern.length + 2), np.int64)
    is_onward = target > source
    np.add.at(change[0], (line_of_message[is_onward], source[is_onward]), message_words[is_onward])
    np.add.at(change[0], (line_of_message[is_onward], target[is_onward]), -message_words[is_onward])
    is_backward = target < source
    np.add.at(change[1], (line_of_message[is_backward], target[is_backward] + 1), message_words[is_backward])
    np.add.at(change[1], (line_of_message[is_backward], source[is_backward] + 1), -message_words[is_backward])
    return np.asarray(change.cumsum(axis=2)[:, :, : pattern.length], np.int64)

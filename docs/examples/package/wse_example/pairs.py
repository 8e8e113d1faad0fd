"""Reduce in pairs: every odd PE sends to its western neighbour, then the even PEs form a chain to PE 0."""

from __future__ import annotations

from wse_mappings.patterns.pattern import LineReduce, Pattern, Terms, line_terms
from wse_mappings.patterns.sampling import line_case
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule


def pairs(length: int, lines: int, arrival: Arrival) -> LineSchedule:
    """Reduce ``arrival`` over every line of ``length`` PEs into PE 0."""
    messages = [(pe, pe - 1, arrival) for pe in range(1, length, 2)]
    heads = range(2 * ((length - 1) // 2), 0, -2)
    messages += [(pe, pe - 2, arrival) for pe in heads]
    colours = [2] * (length // 2) + [(pe // 2) % 2 for pe in heads]
    return uniform_schedule("pairs", length, lines, messages, colours=3, message_colours=colours)


def terms(length: int, words: int) -> Terms:
    """Return the terms of the closed form: a head receives the words of its pair and those of the chain."""
    heads = (length - 1) // 2
    energy = words * (length // 2 + 2 * heads)
    return line_terms(length, contention=2 * words, energy=energy, depth=1 + heads)


PATTERN = Pattern(
    name="pairs",
    samples={"pairs": lambda sizes: line_case("pairs", pairs(sizes.length, 1, Arrival.ADD), sizes)},
    reduce=LineReduce(label="pairs", make=lambda _: pairs, terms=lambda length, words, _: terms(length, words)),
)

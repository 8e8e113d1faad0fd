"""The verdict of a comparison, in two or three sentences that follow from its rows by rule.

1. On how many wafers one user is fastest, and on how many a wafer, and with that a dollar, serves the most tokens.
2. What more wafers than the fewest do to one user, and the cause with the largest part in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from wse.reports.terminal import count, hertz, percent, plural, ranged
from wse.tracing.query.two_traces.comparison_row import ComparisonRow

CAUSE_WORDS: Final = {
    "hops": "words on their way",
    "relays": "relays of partial sums",
    "compute": "vector operations",
    "launch": "starts of steps",
    "crossing": "crossings between wafers",
    "host": "waiting for the host",
}
"""Causes of a token's time in the words of a verdict."""
NO_CHANGE: Final = 0.0005
"""A relative change below which two rates read the same."""
WORTH_TELLING: Final = 0.005
"""A part of a token's time below which a cause that works against the change is left out."""


def verdict(rows: Sequence[ComparisonRow]) -> tuple[str, ...]:
    """Return the verdict on the rows that can be, at least one, over the wafers' own links."""
    fastest = _fastest_by_wafers(own_link(rows))
    counts = sorted(fastest)
    user = max(fastest.values(), key=speed)
    cheapest = min(own_link(rows), key=lambda row: row.usd_per_million_tokens or 0.0)
    sentences = [_best_places(user, cheapest, counts)]
    if len(counts) == 1:
        sentences.append(f"What limits one user there is {(user.limit or '').partition(';')[0]}.")
        return tuple(sentences)
    sentences.append(_more_wafers([fastest[wafers] for wafers in counts], rows))
    return tuple(sentences)


def change_of_runs(first: ComparisonRow, second: ComparisonRow) -> str:
    """The change to one user from the first of two runs to the second, and its cause: other cycles, another clock."""
    change = speed(second) / speed(first) - 1 if speed(first) else 0.0
    if abs(change) < NO_CHANGE:
        return f"One user gets {rate(speed(first))} in both runs."
    text = f"One user is {_change_text(change)} in the second run, {rate(speed(second))} after {rate(speed(first))}"
    first_clock_hz, second_clock_hz = (_cycles(row) / (row.tpot_s or 1.0) for row in (first, second))
    if not math.isclose(first_clock_hz, second_clock_hz, rel_tol=NO_CHANGE):
        text += f", at {hertz(second_clock_hz)} in place of {hertz(first_clock_hz)}"
        longer = _cycles(second) / (_cycles(first) or 1.0) - 1
        if abs(longer) < NO_CHANGE:
            return f"{text}."
        text += f"; a token takes {percent(abs(longer))} {'more' if longer > 0 else 'fewer'} cycles"
        return f"{text}{_reason(first, second, slower=longer > 0)}."
    return f"{text}{_reason(first, second, slower=change < 0)}."


def _cycles(row: ComparisonRow) -> float:
    """Return the cycles of a token of a run."""
    return sum((row.cycles_by or {}).values())


def _best_places(user: ComparisonRow, cheapest: ComparisonRow, counts: Sequence[int]) -> str:
    """Return the row where one user is fastest, and the row where a wafer and a dollar serve the most tokens.

    Args:
        user: The row where one user is fastest.
        cheapest: The row with the lowest cost per token.
        counts: The numbers of wafers that were compared.
    """
    first = f"{_of_counts(counts)} user is fastest on {place(user)} with {rate(speed(user))}"
    cost, low, high = (
        number or 0.0
        for number in (
            cheapest.usd_per_million_tokens,
            cheapest.usd_per_million_tokens_low,
            cheapest.usd_per_million_tokens_high,
        )
    )
    serves = (
        f"{rate(cheapest.tokens_per_s or 0.0)} for {plural(cheapest.users or 0, 'user')}, "
        f"{ranged(cost, low, high, '{:,.2f}'.format)} USD a million"
    )
    praise = "the most tokens per wafer and, at any price, per dollar"
    if cheapest is user:
        return f"{first}, which also serves {praise}: {serves}."
    return f"{first}; {praise} are served on {place(cheapest)}: {serves}."


def _of_counts(counts: Sequence[int]) -> str:
    """Return the begin of a sentence that says between which numbers of wafers a row is the best."""
    if len(counts) == 1:
        return "One"
    *others, last = map(str, counts)
    return f"Of {', '.join(others)} and {last} wafers compared, one"


def _more_wafers(fastest: Sequence[ComparisonRow], rows: Sequence[ComparisonRow]) -> str:
    """The change to one user by the next larger number of wafers and its cause, and the change by the largest."""
    base, next_row, *larger_rows = fastest
    change = speed(next_row) / speed(base) - 1
    text = f"{_capital(plural(next_row.wafers, 'wafer'))} instead of {base.wafers}"
    if abs(change) < NO_CHANGE:
        text += f" make no difference to one user ({rate(speed(next_row))})"
    else:
        text += f" make one user {_change_text(change)} ({rate(speed(next_row))}{_other_links(base, next_row, rows)})"
        text += _reason(base, next_row, slower=change < 0)
    if larger_rows:
        largest = larger_rows[-1]
        change = speed(largest) / speed(base) - 1
        effect = "make no difference" if abs(change) < NO_CHANGE else f"make it {_change_text(change)}"
        text += f"; {largest.wafers} {effect}"
    return f"{text}."


def _reason(base: ComparisonRow, next_row: ComparisonRow, *, slower: bool) -> str:
    """Return the cause with the largest part in a change and the one most against it, in parts of a token's time."""
    if base.cycles_by is None or next_row.cycles_by is None:
        return ""
    total = sum(base.cycles_by.values())
    parts = {cause: (next_row.cycles_by[cause] - base.cycles_by[cause]) / total for cause in base.cycles_by}
    longest, shortest = max(parts, key=lambda cause: parts[cause]), min(parts, key=lambda cause: parts[cause])
    adds = f"{CAUSE_WORDS[longest]} add {percent(parts[longest])}"
    saves = f"{CAUSE_WORDS[shortest]} save {percent(-parts[shortest])}"
    main, against = (adds, saves) if slower else (saves, adds)
    opposed = -parts[shortest] if slower else parts[longest]
    also = f" and {against}" if opposed >= WORTH_TELLING else ""
    return f", because {main} of a token's time{also}"


def _other_links(base: ComparisonRow, next_row: ComparisonRow, rows: Sequence[ComparisonRow]) -> str:
    """Return the range of the same change over the other links that were compared."""
    links = {row.link for row in rows if row.possible and row.wafers == next_row.wafers} - {next_row.link}
    changes = []
    for link in links:
        next_on_link = max(
            (r for r in rows if r.possible and r.wafers == next_row.wafers and r.link == link), key=speed
        )
        base_on_link = base if base.wafers == 1 else _fastest_over(rows, base.wafers, link)
        if base_on_link is not None:
            changes.append(speed(next_on_link) / speed(base_on_link) - 1)
    if not changes:
        return ""
    low, high = (f"{change:+.1%}".replace("%", " %").replace("-", "−") for change in (min(changes), max(changes)))
    return f"; over other links {low}" if low == high else f"; over other links {low} to {high}"


def _fastest_over(rows: Sequence[ComparisonRow], wafers: int, link: object) -> ComparisonRow | None:
    candidates = [row for row in rows if row.possible and row.wafers == wafers and row.link == link]
    return max(candidates, key=speed, default=None)


def _fastest_by_wafers(rows: Sequence[ComparisonRow]) -> dict[int, ComparisonRow]:
    """Return the row with the fastest single user on each number of wafers."""
    fastest: dict[int, ComparisonRow] = {}
    for row in rows:
        if row.wafers not in fastest or speed(row) > speed(fastest[row.wafers]):
            fastest[row.wafers] = row
    return fastest


def own_link(rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    """Return the rows that can be over the first link that has any, and those of one wafer, which needs none."""
    first = next((row.link for row in rows if row.possible and row.wafers > 1), None)
    return [row for row in rows if row.possible and (row.wafers == 1 or row.link == first)]


def speed(row: ComparisonRow) -> float:
    """Return the tokens a second of one user."""
    return row.tokens_per_s_per_user or 0.0


def place(row: ComparisonRow) -> str:
    """Return the number of wafers, the mapping, and the objective of the layout."""
    return f"{plural(row.wafers, 'wafer')} ({row.chosen or row.mapping}{row.purpose})"


def rate(tokens_per_s: float) -> str:
    """Return the tokens a second, in full from a hundred on."""
    return f"{tokens_per_s:,.0f} tokens/s" if tokens_per_s >= 100 else f"{tokens_per_s:.3g} tokens/s"


def _change_text(change: float) -> str:
    """Return a relative change in words: percent faster or slower, or a multiple."""
    if change >= 1:
        return f"{count(1 + change)} times as fast"
    return f"{percent(abs(change))} {'slower' if change < 0 else 'faster'}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

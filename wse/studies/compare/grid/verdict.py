"""Verdict on a comparison of wafers: two sentences derived from its rows.

1. The wafer count at which one user is fastest, and the wafer count with the most tokens per wafer
   and per dollar.
2. The effect of additional wafers on one user, and its main cause.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from wse.reports.intervals import interval_text
from wse.reports.number_text import (
    count,
    hertz,
    percent,
    plural,
    range_text,
    ranged,
    rate_and_latency,
    seconds,
    three_figures,
    words_with_and,
)
from wse.reports.shared_tables import CAUSES
from wse.tracing.query.two_traces.comparison_row import ComparisonRow

NO_CHANGE: Final = 0.0005
"""Relative change below which two rates are considered equal."""
WORTH_TELLING: Final = 0.005
"""Minimum change of a cause, as a fraction of a token's time, for the cause to be mentioned."""


def verdict(rows: Sequence[ComparisonRow]) -> tuple[str, ...]:
    """Return two sentences about the best wafer counts in a comparison.

    The first sentence names the wafer count with which one user is fastest, and the one with which
    tokens are cheapest. The second states how additional wafers affect one user, or what limits the
    user if only one wafer count was compared.

    Args:
        rows: Rows of the comparison, of which at least one describes a possible combination. Rows
            with other links than the first one are used only to state the effect of links. If
            there are several links, the first sentence names the first one.
    """
    rows_on_link = on_first_link(rows)
    fastest_by_wafers = _fastest_by_wafers(rows_on_link)
    counts = sorted(fastest_by_wafers)
    best_for_one_user = max(fastest_by_wafers.values(), key=speed)
    cheapest = min(rows_on_link, key=lambda row: row.usd_per_million_tokens or 0.0)
    links = {row.link for row in rows if row.possible and row.wafers > 1}
    link_text = link_words(next(row for row in rows_on_link if row.wafers > 1)) if len(links) > 1 else ""
    sentences = [_best_places(best_for_one_user, cheapest, counts, link_text)]
    if len(counts) == 1:
        sentences.append(f"What limits one user there is {(best_for_one_user.limit or '').partition(';')[0]}.")
        return tuple(sentences)
    sentences.append(_more_wafers([fastest_by_wafers[wafers] for wafers in counts], rows))
    return tuple(sentences)


def change_of_runs(first: ComparisonRow, second: ComparisonRow) -> str:
    """Return a sentence that compares one user's speed in two runs.

    The sentence states how much faster or slower the second run is, and whether this is due to a
    different number of cycles per token, a different clock, or both.

    Args:
        first: Row of the first run.
        second: Row of the second run.
    """
    change = speed(second) / speed(first) - 1 if speed(first) else 0.0
    if abs(change) < NO_CHANGE:
        return f"One user gets {rate(speed(first))} in both runs."
    text = f"One user is {_change_text(change)} in the second run, {rate(speed(second))} after {rate(speed(first))}"
    first_clock_hz, second_clock_hz = (_cycles(row) / (row.tpot_s or 1.0) for row in (first, second))
    if not math.isclose(first_clock_hz, second_clock_hz, rel_tol=NO_CHANGE):
        text += f", at {hertz(second_clock_hz)} instead of {hertz(first_clock_hz)}"
    reason = _reason(first, second, slower=_cycles(second) > _cycles(first))
    return f"{text}{reason and f'; {reason}'}."


def _cycles(row: ComparisonRow) -> float:
    """Return the cycles per token of a row, summed over all causes."""
    return sum((row.cycles_by or {}).values())


def _best_places(user: ComparisonRow, cheapest: ComparisonRow, counts: Sequence[int], link_text: str) -> str:
    """Return a sentence that names the fastest machine for one user, and the cheapest per token.

    Args:
        user: The row with the fastest single user.
        cheapest: The row with the lowest cost per token.
        counts: The wafer counts that were compared.
        link_text: The links of the wafers; empty if there are no rows with other links.
    """
    ranges = user.ranges or {}
    interval = interval_text(ranges.get("tokens_per_s_per_user"), count)
    user_rate = f"{rate(speed(user))} {interval}".rstrip()
    best_text = f"{_counts_text(counts, link_text)}{place(user)} {_is_or_are(user)}"
    first = f"{best_text} fastest for one user in decode: {user_rate}"
    cost_interval = interval_text((cheapest.ranges or {}).get("usd_per_million_tokens"), three_figures)
    cost, low, high = (
        number or 0.0
        for number in (
            cheapest.usd_per_million_tokens,
            cheapest.usd_per_million_tokens_low,
            cheapest.usd_per_million_tokens_high,
        )
    )
    unit = " USD per million tokens"
    cost_text = f"{three_figures(cost)}{unit} {cost_interval}"
    if not cost_interval:
        cost_text = ranged(cost, low, high, three_figures, unit)
    total = f"{rate(cheapest.tokens_per_s or 0.0)} for {plural(cheapest.users or 0, 'user')}"
    by_wafer = "" if cheapest.wafers == 1 else f" ({count((cheapest.tokens_per_s or 0.0) / cheapest.wafers)} per wafer)"
    serves = f"{total}{by_wafer}, {cost_text}"
    if cheapest is user:
        return f"{first}. Tokens are also cheapest there, whatever a wafer costs: {serves}."
    layouts = "layouts over these links" if link_text else "layouts compared"
    cheapest_text = f"Of the {layouts}, {place(cheapest)} {_is_or_are(cheapest)} cheapest per token"
    return f"{first}. {cheapest_text}, at any price of a wafer: {serves}."


def _counts_text(counts: Sequence[int], link_text: str) -> str:
    """Return the start of a sentence, such as "Of 1, 2 and 4 wafers, " or "Over links of 8 GB/s, ".

    It is empty if there is a single wafer count and no other link.

    Args:
        counts: The wafer counts that were compared.
        link_text: The links of the wafers; empty if there are no rows with other links.
    """
    parts = [f"of {words_with_and([*map(str, counts)])} wafers"] if len(counts) > 1 else []
    parts += [f"over links of {link_text}"] if link_text else []
    text = " ".join(parts)
    return text and f"{text[0].upper()}{text[1:]}, "


def _is_or_are(row: ComparisonRow) -> str:
    """Return "is" if a row has a single wafer, and otherwise "are"."""
    return "is" if row.wafers == 1 else "are"


def _more_wafers(fastest_rows: Sequence[ComparisonRow], rows: Sequence[ComparisonRow]) -> str:
    """Return a sentence that states how one user's speed changes if more wafers are used.

    Three wafer counts are compared: the smallest, the second smallest and the largest. For the
    second smallest, the sentence also states the cause of the change and the change with other
    inter-wafer links.

    Args:
        fastest_rows: Row with the fastest single user for each wafer count, ascending.
        rows: All rows, used for the change with other inter-wafer links.
    """
    base, next_row, *larger_rows = fastest_rows
    change = speed(next_row) / speed(base) - 1
    text = wafers_text = f"{plural(next_row.wafers, 'wafer')} instead of {base.wafers}"
    if abs(change) < NO_CHANGE:
        text += f" make no difference to decode for one user ({rate(speed(next_row))})"
    else:
        links_text = _other_links(base, next_row, rows)
        text += f" make decode for one user {_change_text(change)} ({rate(speed(next_row))}{links_text})"
    if larger_rows:
        last_row = larger_rows[-1]
        change = speed(last_row) / speed(base) - 1
        effect = "make no difference" if abs(change) < NO_CHANGE else f"make it {_change_text(change)}"
        text += f"; {last_row.wafers} {effect}"
    reason = _reason(base, next_row, slower=speed(next_row) < speed(base))
    return f"{text}.{reason and f' With {wafers_text}, {reason}.'}"


def _reason(base: ComparisonRow, next_row: ComparisonRow, *, slower: bool) -> str:
    """Return a clause that states why the cycles of a token changed, with a percentage per cause.

    All percentages are changes divided by a token's total cycles in ``base``. Causes with
    noticeable changes are listed, in this order: largest change in the direction of ``slower``
    first, opposite changes last. The sum of all other causes follows. The clause is empty if the
    cycles are unknown or did not change.

    Args:
        base: The row before the change.
        next_row: The row after the change.
        slower: Whether the cycles became more.
    """
    if base.cycles_by is None or next_row.cycles_by is None or abs(_cycles(next_row) / _cycles(base) - 1) < NO_CHANGE:
        return ""
    total = sum(base.cycles_by.values())
    parts = {cause: (next_row.cycles_by[cause] - base.cycles_by[cause]) / total for cause in base.cycles_by}
    causes = sorted(parts, key=lambda cause: parts[cause], reverse=slower)
    large_causes = [cause for cause in causes if abs(parts[cause]) >= WORTH_TELLING] or causes[:1]
    texts = [f"{CAUSES.get(cause, cause)} {_signed_percent(parts[cause])}" for cause in large_causes]
    change, named_change = sum(parts.values()), sum(parts[cause] for cause in large_causes)
    if abs(change - named_change) >= NO_CHANGE:
        texts.append(f"others {_signed_percent(change - named_change)}")
    cycles = f"{percent(abs(change))} {'fewer' if change < 0 else 'more'} cycles"
    return f"a token takes {cycles} (contributions: {', '.join(texts)})"


def _other_links(base: ComparisonRow, next_row: ComparisonRow, rows: Sequence[ComparisonRow]) -> str:
    """Return a phrase that states how other links would affect the speed change with more wafers.

    An example is " over links of 150 GB/s and 5 µs; over links of 8 to 150 GB/s and 500 ns to 20
    µs, 12.5 % slower to 3.1 % faster". The first link is that of ``next_row``. The phrase is empty
    if there are no other links.

    Args:
        base: Row with fewer wafers.
        next_row: Row with more wafers.
        rows: All rows of the comparison.
    """
    other_rows = [row for row in rows if row.possible and row.wafers == next_row.wafers and row.link != next_row.link]
    changes = []
    for link in {row.link for row in other_rows}:
        next_on_link = _fastest_over(rows, next_row.wafers, link)
        base_on_link = base if base.wafers == 1 else _fastest_over(rows, base.wafers, link)
        if next_on_link is not None and base_on_link is not None:
            changes.append(speed(next_on_link) / speed(base_on_link) - 1)
    if not changes:
        return ""
    low, high = _change_text(min(changes)), _change_text(max(changes))
    rates = sorted((row.link_bytes_per_s or 0.0) / 1e9 for row in other_rows)
    latencies_s = sorted(row.link_latency_s or 0.0 for row in other_rows)
    rate_text, latency_text = _span(rates, "{:g}".format), _span(latencies_s, seconds)
    other_link_text = f"{rate_text} GB/s and {latency_text}"
    change_text = low if low == high else f"{low} to {high}"
    return f" over links of {link_words(next_row)}; over links of {other_link_text}, {change_text}"


def _span(numbers: Sequence[float], text: Callable[[float], str]) -> str:
    """Format the smallest and the largest of ascending numbers, or the number if both are equal."""
    return range_text(numbers[0], numbers[-1], text) or text(numbers[0])


def _fastest_over(rows: Sequence[ComparisonRow], wafers: int, link: object) -> ComparisonRow | None:
    """Return the row with the fastest single user for a certain wafer count and link.

    The result is None if no possible row has this wafer count and link.

    Args:
        rows: Rows of the comparison.
        wafers: Number of wafers.
        link: Link between the wafers.
    """
    candidates = [row for row in rows if row.possible and row.wafers == wafers and row.link == link]
    return max(candidates, key=speed, default=None)


def _fastest_by_wafers(rows: Sequence[ComparisonRow]) -> dict[int, ComparisonRow]:
    """Return the row with the fastest single user for each wafer count, keyed by wafer count."""
    row_by_wafers: dict[int, ComparisonRow] = {}
    for row in rows:
        if row.wafers not in row_by_wafers or speed(row) > speed(row_by_wafers[row.wafers]):
            row_by_wafers[row.wafers] = row
    return row_by_wafers


def on_first_link(rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    """Return the rows with a single wafer, and the rows with the first link between wafers.

    The first link is the wafers' own, if it is one of the compared links. Impossible combinations
    are left out.
    """
    first = next((row.link for row in rows if row.possible and row.wafers > 1), None)
    return [row for row in rows if row.possible and (row.wafers == 1 or row.link == first)]


def link_words(row: ComparisonRow) -> str:
    """Describe the link between the wafers of a row, such as "150 GB/s and 5 µs"."""
    return rate_and_latency(row.link_bytes_per_s or 0.0, row.link_latency_s, joint=" and ")


def speed(row: ComparisonRow) -> float:
    """Return a single user's speed in tokens/s."""
    return row.tokens_per_s_per_user or 0.0


def place(row: ComparisonRow) -> str:
    """Describe the machine of a row, such as "4 wafers (pipeline)".

    The text names the wafers, the mapping and, if it is not the default, the layout objective.
    """
    return f"{plural(row.wafers, 'wafer')} ({row.chosen or row.mapping}{row.purpose})"


def rate(tokens_per_s: float) -> str:
    """Format a speed, such as "1,234 tokens/s", with three significant digits below 100."""
    return f"{tokens_per_s:,.0f} tokens/s" if tokens_per_s >= 100 else f"{tokens_per_s:.3g} tokens/s"


def _change_text(change: float) -> str:
    """Format a relative change, such as "12 % slower" or "3 times as fast"."""
    if change >= 1:
        return f"{count(1 + change)} times as fast"
    return f"{percent(abs(change))} {'slower' if change < 0 else 'faster'}"


def _signed_percent(fraction: float) -> str:
    """Format a fraction as a percentage with its sign, such as "+1.9 %"."""
    return f"{fraction:+.1%}".replace("%", " %").replace("-", "\N{MINUS SIGN}")

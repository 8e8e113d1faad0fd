"""Answer of an estimate: a headline, a few sentences, and a row for each key figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from wse.reports.intervals import RangeResult, interval_text, sampled_text, with_interval
from wse.reports.number_text import count, percent, plural, range_text, seconds, three_figures
from wse.reports.shared_tables import changed_numbers, setting_texts
from wse.reports.table import Column, Table, number, pair_table
from wse.studies.results.operating_points import ServingResult, cached_tokens_text
from wse.studies.results.published import PublishedSpeed

if TYPE_CHECKING:
    from wse.studies.estimate.grades import GradeResult

Cause = TypeVar("Cause", bound=str)

GRADES: Final = "grade of the weakest constant: M measured, V vendor, D fitted, R/I/U assumed"
"""Legend of the evidence-grade column."""


class AnswerRow(NamedTuple):
    """A row of the answer table: one number, such as the time to first token (TTFT).

    Attributes:
        name: Usual short name of the number, such as ``TTFT``.
        value: The number with its unit.
        note: Explanation of the number.
        grade_key: Key of the number in the evidence grades of the result; empty if it has no grade.
        interval: 90 % interval of the number, such as ``(90 %: 560 to 790 µs)``; empty if unknown.
            It is shown before the note.
    """

    name: str
    value: str
    note: str = ""
    grade_key: str = ""
    interval: str = ""


def answer_tables(
    headline: str,
    sentences: Iterable[str],
    rows: Sequence[AnswerRow],
    grades: Mapping[str, GradeResult] | None = None,
    ranges: Mapping[str, RangeResult] | None = None,
    *,
    on_gpus: bool = False,
) -> list[Table]:
    """Return two tables: a headline with the answer in words, and the numbers of the answer.

    Args:
        headline: Title of the first table: the model and the machine.
        sentences: The answer in words. Empty sentences are left out.
        rows: The numbers of the answer.
        grades: Evidence grades of the numbers. The keys are the ``grade_key`` of rows. None leaves
            out the column of grades.
        ranges: 90 % intervals of the numbers. If there are any, a note below the table explains how
            they were computed.
        on_gpus: Whether the machine has GPUs instead of wafers.
    """
    columns = [Column(key="name", style="bright_black"), number("value", formatter=str)]
    if grades is not None:
        columns.append(Column(key="grade", style="bright_black", cell=lambda row: _grade(row, grades)))
    columns.append(Column(key="note", wraps=True, cell=lambda row: f"{row.interval} {row.note}".strip()))
    note = "; ".join(filter(None, [sampled_text(ranges, on_gpus=on_gpus), "" if grades is None else GRADES]))
    summary = pair_table([("", sentence) for sentence in sentences if sentence], headline)
    return [summary, Table(columns=tuple(columns), rows=rows, title="Results", note=note)]


def machine_text(machine: str, replicas: int) -> str:
    """Return the description of a machine, with the number of its replicas if there are several."""
    return machine if replicas == 1 else f"{replicas:,} replicas of {machine}"


def verification_text(tokens: int, ratio_to_decode: float) -> str:
    """Describe a verification pass, which checks several draft tokens of a user at once.

    Args:
        tokens: New tokens of the user that the pass processes.
        ratio_to_decode: Time of the pass, divided by the time of a pass over a single token.
    """
    return f"a pass over {tokens} new tokens of a user: {ratio_to_decode:.3g} times the time for one token"


def _grade(row: AnswerRow, grades: Mapping[str, GradeResult]) -> str:
    """Return the evidence grade of the number in a row (how well it is known), or "" if unknown."""
    return grades[row.grade_key].grade if row.grade_key in grades else ""


def speed_sentence(serving: ServingResult, ranges: Mapping[str, RangeResult] | None = None) -> str:
    """Return one or two sentences with the estimated speed per user and, for several users, in total.

    If users pause, they also state the pause and the requests in flight.

    If a request generates only one token, the sentence states the time to that token instead.

    Args:
        serving: The estimated speeds.
        ranges: 90 % intervals, keyed by path in the result, such as ``serving.ttft_s``.
    """
    ranges = ranges or {}
    if serving.tokens_per_s_per_user is None:
        ttft = with_interval(seconds(serving.ttft_s), "", ranges.get("serving.ttft_s"), seconds)
        return f"The first token of a request, which is its only one, comes after {ttft}."
    interval = ranges.get("serving.tokens_per_s_per_user")
    speed = with_interval(count(serving.tokens_per_s_per_user), " tokens/s", interval, count)
    if serving.users == 1 and serving.in_flight is None:
        return f"One user gets {speed}."
    machines = "" if serving.replicas == 1 else f" on {serving.replicas:,} replicas"
    total = f"{count(serving.tokens_per_s)} tokens/s in total"
    note = " (at least this on replicas with fewer users)" if serving.users % serving.replicas else ""
    users, requests = f"{serving.users:,} concurrent users", "them"
    if serving.in_flight is not None:
        users = f"{plural(serving.users, 'user')}, pausing {seconds(serving.think_s or 0)} between requests,"
        requests = f"{three_figures(serving.in_flight)} requests in flight"
    if serving.users == 1:
        speeds = f"{users}{machines} gets {speed} while it decodes, {total}."
    else:
        speeds = f"{users}{machines} get {speed} each{note} while they decode, {total}."
    if not serving.saturated or serving.tpot_s is None:
        return speeds if serving.in_flight is None else f"{speeds} On average, there are {requests}."
    decoding = count(serving.decoding_users)
    return f"{speeds} On average, {decoding} of {requests} decode at a time, and the others have no first token yet."


def published_sentence(speeds: Sequence[PublishedSpeed] | None) -> str:
    """Return a sentence with the range of published speeds for comparable machines; empty if none.

    Args:
        speeds: The published speeds, from `wse.studies.results.published.published_speeds`.
    """
    if not speeds:
        return ""
    users = speeds[0].estimated_users
    rates = sorted(speed.tokens_per_s_per_user for speed in speeds)
    rates_text = range_text(rates[0], rates[-1], count) or count(rates[0])
    unit = "tokens/s" if users == 1 else "tokens/s each"
    speeds_text = f"Published speeds for {plural(users, 'user')}: {rates_text} {unit}"
    return f"{speeds_text} (the table below says whether drafts are used, if known)."


def outside_sentence(
    speeds: Sequence[PublishedSpeed] | None, interval: RangeResult | None, users: int, inputs: Mapping[str, Any]
) -> str:
    """Return a sentence about a published speed outside the interval of the estimate.

    Only speeds without speculative decoding are considered, because the interval is for an estimate
    without it. The sentence is empty if all these speeds are within the interval, or if the
    interval is unknown.

    Args:
        speeds: The published speeds.
        interval: 90 % interval of the estimated speed per user; None if unknown.
        users: Concurrent users for which the interval was computed.
        inputs: Inputs of the estimate. Numbers of the machine that the user changed are mentioned.
    """
    if interval is None:
        return ""
    for speed in speeds or ():
        published = speed.tokens_per_s_per_user
        if speed.drafts == "no" and speed.estimated_users == users and not interval.low <= published <= interval.high:
            side = "below" if published < interval.low else "above"
            sentence = f"{count(published)} tokens/s, published without drafts, is {side} the interval of the estimate"
            changes = setting_texts(changed_numbers(inputs))
            lengths = "with other prompt and answer lengths"
            if changes:
                return f"{sentence}; it was measured without {' and '.join(changes)}, and perhaps {lengths}."
            return f"{sentence}; it may have been measured {lengths}."
    return ""


def serving_rows(
    serving: ServingResult,
    tpot_note: str,
    room_note: str = "",
    ranges: Mapping[str, RangeResult] | None = None,
) -> Iterator[AnswerRow]:
    """Yield the rows of the answer: TTFT, TPOT, concurrency, throughput, cost and energy.

    There is no row for a number that is unknown, such as the cost of a machine without a price.

    Args:
        serving: Latencies, speed, cost and energy for the requested number of users.
        tpot_note: Explanation of the time per output token (TPOT).
        room_note: Sentence on the maximum number of users and what limits it. By default, it states
            how many KV caches fit.
        ranges: 90 % intervals of the numbers, keyed by path in the result, such as
            ``serving.ttft_s``. If there is no interval for cost or energy, the row shows the range
            in ``serving`` instead, which covers only the uncertain price or power of the machine.
    """
    ranges = ranges or {}

    def interval(figure: str, text: Callable[[float], str]) -> str:
        """Format the 90 % interval of a figure, or return "" if it is unknown."""
        return interval_text(ranges.get(f"serving.{figure}"), text)

    def at(users: int) -> str:
        """Return a phrase with the number of users for which a cost applies."""
        return f"at concurrency {users:,}" if serving.in_flight is None else f"for {plural(users, 'user')}"

    prefix_tokens = serving.prefix_tokens or 0
    prompt = f"{serving.prompt_tokens:,} prompt tokens, "
    if prefix_tokens:
        prompt += f"{prefix_tokens:,} of them in the KV cache, "
    if serving.requests > serving.replicas:
        prompt += "mean, including the wait for other users"
    else:
        prompt += f"{count((serving.prompt_tokens - prefix_tokens) / serving.ttft_s)} tokens/s"
    yield AnswerRow("TTFT", seconds(serving.ttft_s), prompt, "latency.ttft_s", interval("ttft_s", seconds))
    if serving.tpot_s is not None:
        yield AnswerRow("TPOT", seconds(serving.tpot_s), tpot_note, "latency.tpot_s", interval("tpot_s", seconds))
    tokens = cached_tokens_text(serving.prompt_tokens + serving.new_tokens, serving.prefix_tokens)
    room = f"KV caches of {plural(serving.max_users, 'sequence')} of {tokens} fit"
    if serving.in_flight is not None:
        room = f"requests in flight on average, from {plural(serving.users, 'user')}; {room_note or room}"
        yield AnswerRow("concurrency", three_figures(serving.in_flight), room)
    else:
        yield AnswerRow("concurrency", f"{serving.users:,}", room_note or room)
    rate = f"{count(serving.tokens_per_s)} tokens/s"
    note = "output tokens of all users, including prefill time"
    yield AnswerRow("throughput", rate, note, "decode.tokens_per_s", interval("tokens_per_s", count))
    usd = serving.usd_per_million_tokens
    if usd is not None:
        usd_interval = interval("usd_per_million_tokens", three_figures)
        ends = _range(serving.usd_per_million_tokens_low, serving.usd_per_million_tokens_high)
        note = f"{'' if usd_interval else ends}output tokens, prefill included, {at(serving.users)}"
        last = serving.points[-1]
        if last.users > serving.users and last.usd_per_million_tokens is not None:
            note += f"; {three_figures(last.usd_per_million_tokens)} USD/Mtok {at(last.users)}"
        if serving.usd_per_hour is not None:
            note += f"; all machines: {three_figures(serving.usd_per_hour)} USD/h"
        yield AnswerRow("cost", f"{three_figures(usd)} USD/Mtok", note, "cost.usd_per_million_tokens", usd_interval)
    joules, low, high = serving.joules_per_token, serving.joules_per_token_low, serving.joules_per_token_high
    if joules is not None:
        joules_interval = interval("joules_per_token", three_figures)
        note = "" if joules_interval else _range(low, high)
        note += power_text(joules, low or joules, high or joules, serving.tokens_per_s)
        energy = f"{three_figures(joules)} J/token"
        yield AnswerRow("energy", energy, note.strip(), "energy.joules_per_token", joules_interval)


def power_text(joules: float, low: float, high: float, tokens_per_s: float) -> str:
    """Return a remark with the electrical power from which an energy per token was computed.

    Args:
        joules: Energy per token in J.
        low, high: Ends of its range in J. If ``joules`` is the high end, and the low end is lower,
            the energy was computed from the peak power.
        tokens_per_s: Output tokens per second of all users.
    """
    is_peak = low < joules == high
    notes = ["peak power"] if is_peak else []
    if power_range := range_text(low * tokens_per_s, high * tokens_per_s, count):
        notes.append(f"range of the power: {power_range} W")
    power = f"at {count(joules * tokens_per_s)} W"
    return f"{power} ({'; '.join(notes)})" if notes else power


def _range(low: float | None, high: float | None) -> str:
    """Format a range of values as "(LOW to HIGH) "; empty if the ends are unknown or equal."""
    text = range_text(low, high, three_figures)
    return text and f"({text}) "


def limit_sentence(parts: Mapping[Cause, float], meanings: Mapping[str, str], total_name: str) -> str:
    """Return a sentence that names the largest part of a total, such as the time of a token.

    The sentence is empty if the total is 0.

    Args:
        parts: Time or cycles due to each cause, in any unit.
        meanings: Description of each cause.
        total_name: Description of the total in the singular, such as "the time of a token".
    """
    total = sum(parts.values())
    if not total:
        return ""
    largest_cause = max(parts, key=lambda cause: parts[cause])
    share = parts[largest_cause] / total
    amount = "Most" if share > 0.5 else "The largest part"
    return f"{amount} of {total_name} ({percent(share)}) is spent on {meanings[largest_cause]}."

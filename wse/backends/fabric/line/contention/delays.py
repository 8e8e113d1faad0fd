"""Contention: how long words of one message wait for words of others on a link or a ramp.

A link between two routers, or a ramp between a router and its PE, carries one word per cycle. Here
the words of a message are a *stream*: they leave a place one after another, from a first time to a
last time. `wse.backends.fabric.line.line_streams` calls `delays_of` for each stream, in the order
of the messages. The delay of a stream follows these rules:

1. Streams on the same colour do not alternate. The routers let one stream pass completely before
   the other, so the second stream waits for the last word of the first (`wait_on_colour`).
2. Streams on different colours alternate on a link. While both are present, each gets half of the
   link. A stream is therefore delayed by one cycle for each word that the other sends during this
   time, which ends when the stream with fewer remaining words ends (processor sharing). The rule is
   evaluated at both ends of the part of the line that the streams share, and where both arrive at
   the same time; the largest effect counts (`_largest_effects`). On the ramp out of a PE, streams
   do not alternate: the thread that was started first has priority.
3. A stream that sends less than one word per cycle leaves the other cycles to its competitor
   (`_interleave`). If it is slow only because contention delays it, it leaves none, because it has
   a word ready in each of its cycles (`Window.pace`).
4. A relay may receive the words of the other stream and send them on as this stream. The delay of
   this stream is then counted twice, the second time limited to half of the lag. The lag is the
   number of cycles from the other stream's first word to this stream's first word at one place.
5. If several other streams are on one link, the delay is the sum of the words of all of them, minus
   the pauses of the stream that pauses longest: this stream sends its own words in those pauses
   (`delay_cycles`). Competitors are processed in the order of their arrival, and each one is
   compared with this stream as lengthened by the delays so far. The set of competitors is fixed
   beforehand. It excludes streams that arrive after this stream would end without delays.

Example: a stream has 10 words, which would pass a link in cycles 4 to 13. The 10 words of the other
stream pass this link in cycles 0 to 9, so 6 of them have not passed in cycle 4.

- Rule 1: on the same colour, the stream waits 6 cycles, and then passes in cycles 10 to 19.
- Rule 2: on different colours, the streams alternate from cycle 4. Each one ends 6 cycles later. On
  the ramp out of a PE, only the stream that was started second is delayed, by 6 cycles.
- Rule 3: if the other stream sends one word every second cycle, in cycles 0 to 19, 8 of its words
  have not passed in cycle 4. The stream is delayed by 8 cycles, the other stream not at all.
- Rule 4: if the stream consists of the words of the other one, the lag is 4 cycles. The stream is
  delayed by 6 + 4/2 = 8 cycles.
- Rule 5: two other streams in cycles 0 to 9 delay the stream by 12 cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from wse.backends.fabric.line.contention.conflicts import Conflict, SharedEnd
from wse.backends.fabric.line.event_times import Window
from wse.backends.fabric.line.pieces import Resource

Owner = TypeVar("Owner")
"""Type of the object with the state of a line, which the caller provides."""


class Interleaving(NamedTuple):
    """Delay of a stream of words by a competing stream on the same link or ramp.

    While both streams have words to send, the words of the two streams alternate.

    Attributes:
        cycles: Cycles by which the delayed stream ends later than it would end alone.
        words: Words of the competing stream that pass while both streams are present.
    """

    cycles: float
    words: float


class SharedSpan(NamedTuple):
    """Range of PEs at which a stream shares links or ramps with another stream, and the effect.

    Attributes:
        low, high: First and last PE of the range.
        effect: Delay of this stream, and the words of the other stream that cause it.
    """

    low: int
    high: int
    effect: Interleaving


SharedSpans = dict[int, list[SharedSpan]]
"""Spans that a stream shares with other streams, keyed by type of link or ramp (`Resource`)."""


class Contender(NamedTuple, Generic[Owner]):
    """Competitor of a stream: part of another message's path that uses the same link or ramp.

    Attributes:
        conflict: The shared link or ramp.
        window: Time window in which the words of the other message enter this part of its path.
        feeds: Whether the stream consists of the same words, sent on by a relay.
        owner: State of the line on which the other message travels. The caller uses it to delay
            that message.
    """

    conflict: Conflict
    window: Window
    feeds: bool
    owner: Owner


class Delays(NamedTuple, Generic[Owner]):
    """Delays between a new stream of words and its competitors on the same links.

    Attributes:
        shared_spans: Parts of the line that the new stream shares with a competitor, and the delay
            of the new stream there. Keys are types of links and ramps (`Resource`).
        effects_on_others: Competitors that the new stream delays, each with its delay.
    """

    shared_spans: SharedSpans
    effects_on_others: list[tuple[Contender[Owner], Interleaving]]


def delays_of(window: Window, contenders: Sequence[Contender[Owner]]) -> Delays[Owner]:
    """Compute how much a stream of words and its competitors on the same links delay each other.

    A stream that shares a link with another one is delayed by about one cycle for each word that
    the other sends meanwhile. The module docstring states all rules.

    Args:
        window: Time window of the stream at its source, without contention.
        contenders: Parts of other messages' paths that share a link or ramp with the stream and
            overlap it in time.
    """
    shared_spans: SharedSpans = {}
    effects_on_others: list[tuple[Contender[Owner], Interleaving]] = []
    # On the ramp out of a PE, a stream that was started earlier has priority. Its words are then also ahead of the
    # words of the new stream on all later links, so the new stream never delays it.
    pieces_leaving_first = {
        (contender.owner, contender.conflict.other_piece)
        for contender in contenders
        if contender.conflict.resource == Resource.OUT_OF_PE
    }
    contention_cycles = 0.0
    for contender in sorted(contenders, key=partial(_first_common_time, window)):  # 5
        conflict = contender.conflict
        delayed_window = window._replace(
            last=window.last + contention_cycles, contention_cycles=window.contention_cycles + contention_cycles
        )
        effect, effect_on_other = _largest_effects(delayed_window, contender)  # 2 to 4
        if effect.cycles > 0:
            shared_spans.setdefault(conflict.resource, []).append(SharedSpan(conflict.low, conflict.high, effect))
            contention_cycles = delay_cycles(shared_spans)[0]
        if effect_on_other.cycles > 0 and (contender.owner, conflict.other_piece) not in pieces_leaving_first:
            effects_on_others.append((contender, effect_on_other))
    return Delays(shared_spans, effects_on_others)


def _first_common_time(window: Window, contender: Contender[Owner]) -> float:
    """Return the cycle at which a stream sends the first word that a competitor may delay.

    A word can be delayed only if it comes to the first place that both streams pass later than the
    competitor does. The result is the cycle at which the competitor arrives there, minus the travel
    time of a word from the stream's source to this place. If the competitor arrives before all
    words of the stream, it is the cycle at which the stream sends its first word.
    """
    shift, other_shift, room = contender.conflict.shared_ends[0]
    return max(window.first, contender.window.first_at(other_shift, room) - shift)


def delay_cycles(shared_spans: SharedSpans) -> tuple[float, int]:
    """Return the largest delay that competitors cause to a stream at any place of its line.

    At one place, the delay is the number of words of all competitors, minus the pauses of the
    competitor that pauses longest: the stream uses them for its own words.

    Args:
        shared_spans: For each type of link or ramp, the spans of the line that the stream shares
            with competitors.

    Returns:
        The delay in cycles, and the number of streams at this place, including the delayed stream.
    """
    largest_delay = (0.0, 1)
    for spans in shared_spans.values():
        for begin in {span.low for span in spans}:  # 5: the sum has its maximum where some span begins
            effects = [span.effect for span in spans if span.low <= begin <= span.high]
            pauses = [effect.words - effect.cycles for effect in effects]
            cycles = sum(effect.words for effect in effects) - max(pauses)
            largest_delay = max(largest_delay, (cycles, 1 + len(effects)))
    return largest_delay


def wait_on_colour(first: float, earlier_streams: Sequence[tuple[float, Sequence[SharedEnd]]]) -> float:
    """Return the cycles that a stream waits for earlier streams on the same colour.

    A router lets one stream of a colour pass completely before the next one.

    Args:
        first: Cycle of the stream's first word at its source.
        earlier_streams: For each earlier stream, the cycle of its last word at its source, and the
            places that both streams pass.
    """
    waiting_cycles = [
        other_last + other_shift + 1 - first - shift  # 1
        for other_last, shared_ends in earlier_streams
        for shift, other_shift, _ in shared_ends
    ]
    return max([0.0, *waiting_cycles])


class _Place(NamedTuple):
    """Cycles at which two streams pass one place on a line of PEs.

    Each stream has the cycle of its first and of its last word. ``lag`` is the number of cycles
    between the other stream's first word, if it never waits, and this stream's first word.
    """

    first: float
    last: float
    other_first: float
    other_last: float
    lag: float


def _largest_effects(window: Window, contender: Contender[Owner]) -> tuple[Interleaving, Interleaving]:
    """Return how two streams delay each other at the place where this stream is delayed most.

    If a relay sends the words of the other stream on as this stream (``contender.feeds``), the
    delay is added twice, the second time limited to half of the lag between the streams. The reason
    is that words in transit when the other stream ends arrive at half the rate.

    Args:
        window: Time window of the stream at its source.
        contender: The other stream, with the places that both use.

    Returns:
        The effect on the stream, and the effect on the other stream.
    """
    worst_case = Interleaving(0.0, 0.0), Interleaving(0.0, 0.0)
    rate, other_rate, other_pace = window.rate, contender.window.rate, contender.window.pace
    in_order = contender.conflict.resource == Resource.OUT_OF_PE
    for place in _places(window, contender):
        overlap_start = max(place.first, place.other_first)
        if overlap_start > min(place.last, place.other_last):
            continue
        words = rate * (place.last - overlap_start + 1)
        other_words = other_rate * (place.other_last - overlap_start + 1)
        # 2, 3
        effect, effect_on_other = _interleave(window.pace, words, other_pace, other_words, in_order=in_order)
        if contender.feeds:  # 4
            extra_cycles = min(effect.cycles, place.lag / 2)
            effect = Interleaving(effect.cycles + extra_cycles, effect.words + extra_cycles)
        worst_case = max(worst_case, (effect, effect_on_other))
    return worst_case


def _places(window: Window, contender: Contender[Owner]) -> list[_Place]:
    """Return the places on a line at which to evaluate how two streams delay each other.

    The places are the ends of the PE range that both streams use, and any place in between where
    one stream catches up with the other.
    """
    other_window, ends = contender.window, list[_Place]()
    for shift, other_shift, other_room in contender.conflict.shared_ends:
        first, other_last = window.first + shift, other_window.last + other_shift
        lag = first - other_window.first - other_shift
        ends.append(_Place(first, window.last + shift, other_window.first_at(other_shift, other_room), other_last, lag))
    crossing_places = []
    for start, end in pairwise(ends):
        start_lead, end_lead = start.first - start.other_first, end.first - end.other_first
        if start_lead * end_lead < 0:
            fraction = start_lead / (start_lead - end_lead)
            crossing_places.append(_Place(*(a + fraction * (b - a) for a, b in zip(start, end, strict=True))))
    return ends + crossing_places


def _interleave(
    pace: float, words: float, other_pace: float, other_words: float, *, in_order: bool
) -> tuple[Interleaving, Interleaving]:
    """Return how much two streams of words delay each other while both use a link or ramp.

    Each stream gets half of the link, or more if the other one does not use its half. With
    ``in_order``, the other stream has priority. The interval ends when one of the streams ends.

    Args:
        pace: Words per cycle of the stream, without cycles spent waiting for other streams.
        words: Words of the stream that have not passed yet.
        other_pace: Words per cycle of the other stream, without such cycles.
        other_words: Words of the other stream that have not passed yet.
        in_order: Whether the other stream has priority.

    Returns:
        The effect on the stream, and the effect on the other stream.
    """
    fraction = min(pace, 1 - other_pace if in_order else max(0.5, 1 - other_pace))
    other_fraction = min(other_pace, max(other_pace if in_order else 0.5, 1 - pace))
    overlap_cycles = other_words / other_fraction
    if fraction > 0:
        overlap_cycles = min(overlap_cycles, words / fraction)
    effect = Interleaving(overlap_cycles * (1 - fraction / pace), overlap_cycles * other_fraction)
    return effect, Interleaving(overlap_cycles * (1 - other_fraction / other_pace), overlap_cycles * fraction)

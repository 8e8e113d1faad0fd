"""Tables of ``schedule`` of an estimate: limits of the pipeline, and speeds by number of streams."""

from __future__ import annotations

from wse.reports.number_text import count, percent, plural, seconds
from wse.reports.table import Column, Table, number, pair_table
from wse.studies.estimate.timing.pipelining import PipeliningResult, StreamsResult


def pipelining_tables(pipelining: PipeliningResult) -> list[Table]:
    """Return a table of pipeline limits, and a table of speeds by number of streams.

    A stream is a batch of users in the pipeline. The second table is left out if its speeds were
    not computed.
    """
    return [_pipelining_table(pipelining), *([_streams_table(pipelining)] if pipelining.rows else [])]


def _pipelining_table(pipelining: PipeliningResult) -> Table:
    """Return a table of the time per token, the slowest stage, and the maximum number of streams."""
    users = pipelining.users_per_stream
    stream = "each a user" if users == 1 else f"each of {plural(users, 'user')}"
    slowest_text = f"{seconds(pipelining.slowest_stage_s)} a token"
    if pipelining.slowest_link_s is not None:
        slowest_text += f"; the slowest link {seconds(pipelining.slowest_link_s)}"
    rate = f"{count(pipelining.tokens_per_s_at_saturation)} tokens/s"
    streams_that_fit, context = pipelining.kv_limited_streams, count(pipelining.context_tokens)
    rows = [
        ("one stream", f"{seconds(pipelining.single_stream_tpot_s)} a token"),
        ("slowest stage", slowest_text),
        ("saturated", f"by {plural(pipelining.streams_to_saturate, 'stream')}: {rate}"),
        ("KV cache", f"holds {plural(streams_that_fit, 'stream')} of {context} tokens"),
        ("limited by", pipelining.limited_by),
    ]
    events, prefill = pipelining.by_events, pipelining.prefill
    if events is not None:
        rates_text = f"{count(events.tokens_per_s)} tokens/s, closed form {count(events.closed_form_tokens_per_s)}"
        rows.append(("event by event", f"{plural(events.streams, 'stream')}: {rates_text}"))
    text = f"{plural(prefill.chunks, 'chunk')}: {seconds(prefill.pipelined_s)}"
    if prefill.chunks > 1:
        text += f" pipelined, {seconds(prefill.sequential_s)} one at a time"
    rows += [("prompt", text), ("first token", f"after {seconds(pipelining.ttft_s)}")]
    return pair_table(
        rows, "Streams through the stages", f"{plural(pipelining.stages, 'stage')}; {stream}; decode alone"
    )


def _streams_table(pipelining: PipeliningResult) -> Table:
    """Return a table of speeds, with one row for each number of streams (batches of users)."""
    columns = [
        number("streams", "streams"),
        number("tokens_per_s", "tokens/s", cell=lambda row: _at_most(row) + count(row.tokens_per_s)),
        number("tokens_per_s_per_user", "a user", cell=lambda row: _at_most(row) + count(row.tokens_per_s_per_user)),
        number("bubble_fraction", "idle stages", percent),
        number("fill_and_drain_bubble_fraction", "filling", percent),
        Column(key="limited_by", title="limited by"),
    ]
    legend = (
        "tokens/s: in decode, without prefill of other requests; idle stages: in the steady state; filling: one "
        "token of each stream, from empty to empty"
    )
    return Table(columns=tuple(columns), rows=pipelining.rows, footer=(("", legend),))


def _at_most(row: StreamsResult) -> str:
    """Return "≤ " if the speeds of a row are only upper bounds, else ""."""
    return "" if row.exact else "≤ "

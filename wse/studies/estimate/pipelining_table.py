"""What a result says of streams on their way through stages, as tables."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from wse.report.table import Column, Table, pair_table
from wse.report.terminal import count, lines, percent, seconds, several
from wse.report.terminal_table import print_table
from wse.studies.estimate.pipelining import PipeliningResult, StreamsResult

LEGEND = "idle stages: all streams go on; filling: one token each, from empty to empty"


def print_pipelining(console: Console, pipelining: PipeliningResult) -> None:
    """Print what limits streams, a row for each number of them, and the prompt's chunks."""
    print_table(console, pipelining_table(pipelining))
    if pipelining.rows:
        print_table(console, streams_table(pipelining))
        lines(console, [("", LEGEND)])


def pipelining_table(pipelining: PipeliningResult) -> Table:
    """One stream, what saturates the stages, what the caches hold, and the prompt."""
    users = pipelining.users_per_stream
    stream = "each a user" if users == 1 else f"each of {several(users, 'user')}"
    slowest = f"{seconds(pipelining.slowest_stage_s)} a token"
    if pipelining.slowest_link_s is not None:
        slowest += f"; the slowest link {seconds(pipelining.slowest_link_s)}"
    rate = f"{count(pipelining.tokens_per_s_at_saturation)} tokens/s"
    fitting, context = pipelining.kv_limited_streams, count(pipelining.context_tokens)
    rows = [
        ("one stream", f"{seconds(pipelining.single_stream_tpot_s)} a token"),
        ("slowest stage", slowest),
        ("saturated", f"by {several(pipelining.streams_to_saturate, 'stream')}: {rate}"),
        ("KV cache", f"holds {several(fitting, 'stream')} of {context} tokens"),
        ("limited by", pipelining.limited_by),
    ]
    events, prefill = pipelining.by_events, pipelining.prefill
    if events is not None:
        both = f"{count(events.tokens_per_s)} tokens/s, closed form {count(events.closed_form_tokens_per_s)}"
        rows.append(("event by event", f"{several(events.streams, 'stream')}: {both}"))
    if prefill is not None and pipelining.ttft_s is not None:
        text = f"{several(prefill.chunks, 'chunk')}: {seconds(prefill.pipelined_s)}"
        if prefill.chunks > 1:
            text += f" behind each other, {seconds(prefill.sequential_s)} one by one"
        rows += [("prompt", text), ("first token", f"after {seconds(pipelining.ttft_s)}")]
    return pair_table(rows, "Streams through the stages", f"{several(pipelining.stages, 'stage')}; {stream}")


def streams_table(pipelining: PipeliningResult) -> Table:
    """A row for each number of streams."""
    columns = [
        _number("streams", "streams", lambda row: count(row.streams)),
        _number("tokens_per_s", "tokens/s", lambda row: _at_most(row) + count(row.tokens_per_s)),
        _number("tokens_per_s_per_user", "a user", lambda row: _at_most(row) + count(row.tokens_per_s_per_user)),
        _number("bubble_fraction", "idle stages", lambda row: percent(row.bubble_fraction)),
        _number("fill_and_drain_bubble_fraction", "filling", lambda row: percent(row.fill_and_drain_bubble_fraction)),
        Column(key="limited_by", title="limited by"),
    ]
    if pipelining.prefill is not None:
        columns.insert(5, _number("tokens_per_s_with_prompts_at_most", "with prompts", _with_prompts))
    return Table(columns=tuple(columns), rows=pipelining.rows)


def _number(key: str, title: str, cell: Callable[[StreamsResult], str]) -> Column:
    return Column(key=key, title=title, cell=cell, numeric=True)


def _at_most(row: StreamsResult) -> str:
    return "" if row.exact else "≤ "


def _with_prompts(row: StreamsResult) -> str:
    return f"≤ {count(row.tokens_per_s_with_prompts_at_most or 0.0)}"

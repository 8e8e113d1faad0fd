"""What a report says of streams on their way through stages."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from wse.report.terminal import count, heading, lines, percent, plain_table, seconds, several, show


def print_schedule(console: Console, schedule: dict[str, Any]) -> None:
    """Print the ``schedule`` of a report: what limits it, a row for each number of streams, the prompt's chunks."""
    users = schedule["users_per_stream"]
    stream = "each a user" if users == 1 else f"each of {several(users, 'user')}"
    heading(console, "Streams through the stages", f"{several(schedule['stages'], 'stage')}; {stream}")
    lines(console, _facts(schedule))
    if schedule["rows"]:
        _print_rows(console, schedule["rows"])


def _facts(schedule: dict[str, Any]) -> list[tuple[str, str]]:
    slowest = f"{seconds(schedule['slowest_stage_s'])} a token"
    if "slowest_link_s" in schedule:
        slowest += f"; the slowest link {seconds(schedule['slowest_link_s'])}"
    rate = f"{count(schedule['tokens_per_s_at_saturation'])} tokens/s"
    held, context = schedule["kv_limited_streams"], count(schedule["context_tokens"])
    facts = [
        ("one stream", f"{seconds(schedule['single_stream_tpot_s'])} a token"),
        ("slowest stage", slowest),
        ("saturated", f"by {several(schedule['streams_to_saturate'], 'stream')}: {rate}"),
        ("KV cache", f"holds {several(held, 'stream')} of {context} tokens"),
        ("limited by", schedule["limited_by"]),
    ]
    if "by_events" in schedule:
        found = schedule["by_events"]
        both = f"{count(found['tokens_per_s'])} tokens/s, closed form {count(found['closed_form_tokens_per_s'])}"
        facts.append(("event by event", f"{several(found['streams'], 'stream')}: {both}"))
    if "prefill" in schedule:
        prefill = schedule["prefill"]
        text = f"{several(prefill['chunks'], 'chunk')}: {seconds(prefill['pipelined_s'])}"
        if prefill["chunks"] > 1:
            text += f" behind each other, {seconds(prefill['sequential_s'])} one by one"
        facts += [
            ("prompt", text),
            ("first token", f"after {seconds(schedule['ttft_s'])}"),
        ]
    return facts


def _print_rows(console: Console, rows: list[dict[str, Any]]) -> None:
    table = plain_table(header=True)
    names = ["streams", "tokens/s", "a user", "idle stages", "filling", "with prompts", "limited by"]
    mixed = "tokens_per_s_with_prompts_at_most" in rows[0]
    if not mixed:
        names.remove("with prompts")
    for name in names:
        table.add_column(name, justify="left" if name == "limited by" else "right", no_wrap=True)
    for row in rows:
        most = "" if row["exact"] else "≤ "
        cells = [
            count(row["streams"]),
            most + count(row["tokens_per_s"]),
            most + count(row["tokens_per_s_per_user"]),
            percent(row["bubble_fraction"]),
            percent(row["fill_and_drain_bubble_fraction"]),
            row["limited_by"],
        ]
        if mixed:
            cells.insert(5, f"≤ {count(row['tokens_per_s_with_prompts_at_most'])}")
        table.add_row(*cells)
    show(console, table)
    told = "idle stages: all streams go on; filling: one token each, from empty to empty"
    lines(console, [("", told)])

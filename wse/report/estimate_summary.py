"""What ``wse estimate`` prints: the inputs, then speed, waiting, SRAM and traffic."""

from __future__ import annotations

from typing import Any, TextIO

from rich.console import Console

from wse.report.placement_lines import print_fullest, print_placement
from wse.report.run_summary import print_causes
from wse.report.terminal import console_on, count, heading, in_bytes, lines, plain_table, seconds, several, show, shown


def print_estimate(report: dict[str, Any], stream: TextIO) -> None:
    """Print what an estimate's report says."""
    console = console_on(stream)
    heading(console, "Asked for")
    given = [f"{name.replace('_', ' ')} {shown(value)}" for name, value in report["inputs"].items()]
    lines(console, [("inputs", ", ".join(given))])
    heading(console, "Placement")
    print_placement(console, report)
    print_fullest(console, report["sram"], report["batch"])
    _print_users(console, report["sram"]["users"])
    heading(console, "Speed")
    _print_speed(console, report)
    if "decode" in report:
        heading(console, "Where the cycles of a generated token go")
        print_causes(console, report["decode"]["cycles_by"])
        heading(console, "Traffic of a generated token")
        _print_traffic(console, report)


def _print_users(console: Console, users: list[dict[str, int]]) -> None:
    table = plain_table()
    table.add_row("context", *(count(each["context"]) for each in users))
    table.add_row("users whose cache fits", *(count(each["users"]) for each in users))
    for column in table.columns[1:]:
        column.justify = "right"
    show(console, table)


def _print_speed(console: Console, report: dict[str, Any]) -> None:
    latency, prefill = report["latency"], report["prefill"]
    rows = [
        ("prompt", f"{count(prefill['tokens_per_s'])} tokens/s, {count(prefill['cycles'])} cycles"),
        ("first token", f"{seconds(latency['ttft_s'])}, of which host {seconds(_host(latency))}"),
    ]
    if "decode" in report:
        decode = report["decode"]
        rows.append(("each further", f"{seconds(latency['tpot_s'])}, {count(decode['cycles_per_token'])} cycles"))
        rows.append(("a user", f"{count(decode['tokens_per_s_per_user'])} tokens/s"))
        if report["batch"] > 1:
            rows.append((several(report["batch"], "user"), f"{count(decode['tokens_per_s'])} tokens/s"))
    lines(console, rows)


def _host(latency: dict[str, Any]) -> float:
    by = latency["ttft_by"]
    return float(by["handshake_in_s"] + by["prompt_in_s"] + by["first_token_out_s"])


def _print_traffic(console: Console, report: dict[str, Any]) -> None:
    fabric = report["fabric"]
    rows = [
        ("wavelets", f"{count(fabric['wavelet_hops_per_token'])} hops of 32-bit words over links between PEs"),
        ("busiest link", f"{count(fabric['busiest_link_words_per_token'])} words"),
    ]
    if report["system"]["wafers"] > 1:
        crossing = report["crossing"]
        text = f"{in_bytes(crossing['bytes_per_token'])}, {seconds(crossing['s_per_token'])}"
        rows.append(("between wafers", text))
    lines(console, rows)

"""The summary at the end of ``wse run``."""

from __future__ import annotations

import shlex
from typing import Any, TextIO

from rich.console import Console

from wse.report.cause_bars import print_causes
from wse.report.defect_lines import print_defects
from wse.report.expert_lines import print_experts
from wse.report.placement_lines import print_fullest, print_placement
from wse.report.terminal import (
    console_on,
    count,
    heading,
    in_bytes,
    lines,
    plain_table,
    seconds,
    several,
    show,
    shown,
    shown_text,
)

MOST_LOGITS = 5


def print_run(report: dict[str, Any], stream: TextIO) -> None:
    """Print what a run's report says."""
    console = console_on(stream)
    console.print()
    if report["batch"] > 1:
        for number, user in enumerate(report["users"], start=1):
            _print_user(console, number, user)
    elif "text" not in report:
        heading(console, "Token ids", "the model has no tokenizer")
        lines(console, [("generated", _ids(report))])
    heading(console, "Placement")
    print_placement(console, report)
    print_fullest(console, report["sram"], report["batch"])
    if "defects" in report:
        print_defects(console, report["defects"])
    heading(console, "Speed of the emulated wafer")
    _print_speed(console, report)
    if "decode" in report:
        heading(console, "Where the cycles of a generated token go")
        print_causes(console, report["decode"]["cycles_by"])
        heading(console, "Traffic of a generated token")
        _print_traffic(console, report)
    if "experts" in report:
        print_experts(console, report["experts"]["load"])
    heading(console, "This emulation")
    _print_emulation(console, report)
    for number, user in enumerate(report["users"], start=1):
        if "prompt_logits_last" in user:
            which = f"{number}, " if report["batch"] > 1 else ""
            _print_logits(console, which, user["prompt_logits_last"])


def _print_user(console: Console, number: int, user: dict[str, Any]) -> None:
    """One of several answers."""
    read, made = several(user["prompt_tokens"], "token"), several(len(user["tokens"]), "token")
    heading(console, f"Prompt {number}", f"{read}, and {made} generated")
    lines(console, [("text", shown_text(user["text"]))] if "text" in user else [("generated", _ids(user))])


def _ids(answer: dict[str, Any]) -> str:
    return ", ".join(map(str, answer["tokens"]))


def _print_logits(console: Console, which: str, logits: list[float]) -> None:
    heading(console, f"Logits after the prompt {which}".rstrip(" ,"), "the largest; --json has them all")
    best = sorted(range(len(logits)), key=lambda token: -logits[token])[:MOST_LOGITS]
    lines(console, [(f"token {token}", f"{logits[token]:.4f}") for token in best])


def _print_speed(console: Console, report: dict[str, Any]) -> None:
    clock = report["wafer"]["clock_hz"]
    prefill = report["prefill"]
    table = plain_table()
    for _ in range(4):
        table.add_column(justify="right", no_wrap=True)
    table.add_row(
        "prompt",
        f"{count(prefill['tokens_per_s'])} tokens/s",
        f"{count(prefill['cycles'])} cycles",
        seconds(prefill["s"]),
    )
    if "decode" in report:
        decode = report["decode"]
        cycles = decode["cycles_per_token"]
        table.add_row(
            "generation",
            f"{count(decode['tokens_per_s_per_user'])} tokens/s",
            f"{count(cycles)} cycles a token",
            seconds(cycles / clock),
        )
        if report["batch"] > 1:
            users = several(report["batch"], "user")
            table.add_row("of all users", f"{count(decode['tokens_per_s'])} tokens/s", f"{users}, a token each", "")
    show(console, table)


def _print_traffic(console: Console, report: dict[str, Any]) -> None:
    fabric = report["fabric"]
    rows = [
        ("wavelets", f"{count(fabric['wavelet_hops_per_token'])} hops of 32-bit words over links between PEs"),
        ("busiest link", f"{count(fabric['busiest_link_words_per_token'])} words"),
        ("colours", f"{fabric['colours_used']} in use where most are"),
    ]
    if report["system"]["wafers"] > 1:
        crossing = report["crossing"]
        text = f"{in_bytes(crossing['bytes_per_token'])}, {seconds(crossing['s_per_token'])}"
        rows.insert(2, ("between wafers", text))
    lines(console, rows)


def _print_emulation(console: Console, report: dict[str, Any]) -> None:
    emulation = report["emulation"]
    made = sum(len(user["tokens"]) for user in report["users"])
    speed = f"{count(emulation['tokens_per_s'])} tokens/s on this computer"
    rows = [("speed", f"{speed}: {several(made, 'token')}, {seconds(emulation['wall_s'])} in all")]
    if "trace" in report:
        rows.append(("trace", shown(report["trace"])))
        if "wavelets" in report:
            logged = report["wavelets"]
            text = f"{count(logged['moves'])} moves of the last pass in the trace, {count(logged['cycles'])} cycles"
            rows.append(("by wavelets", text))
        rows.append(("look inside", shown(f"wse inspect {shlex.quote(report['trace'])}")))
    if "trace_error" in report:
        rows.append(("no trace" if "trace" not in report else "incomplete", shown(report["trace_error"])))
    lines(console, rows)

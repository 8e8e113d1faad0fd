"""The summary at the end of ``wse run``."""

from __future__ import annotations

import shlex
from typing import Any, TextIO

from rich.console import Console

from wse.report.placement_lines import print_placement, print_sram
from wse.report.terminal import bar, console_on, count, heading, in_bytes, lines, percent, plain_table, seconds, show

CAUSES = {
    "compute": "vector operations in the PEs",
    "launch": "starting steps and messages",
    "hops": "words on their way between PEs",
    "relays": "PEs passing words on in code",
    "crossing": "streams from wafer to wafer",
    "host": "to the host computer and back",
}


def print_run(report: dict[str, Any], stream: TextIO, *, top_logits: list[tuple[int, str, float]] | None = None) -> None:
    """Print what a run's report says."""
    console = console_on(stream)
    console.print()
    heading(console, "Placement")
    print_placement(console, report)
    sram = report["sram"]
    note = f"{percent(sram['fullest_pe_fraction'])} in use; room for {count(sram['kv_capacity_tokens'])} tokens of KV cache"
    heading(console, "SRAM of the fullest PE", note)
    print_sram(console, sram["bytes_per_pe"])
    heading(console, "Speed of the emulated wafer")
    _print_speed(console, report)
    if "decode" in report:
        heading(console, "Where the cycles of a generated token go")
        print_causes(console, report["decode"]["cycles_by"])
        heading(console, "Traffic of a generated token")
        _print_traffic(console, report)
    heading(console, "This emulation")
    _print_emulation(console, report)
    if top_logits:
        heading(console, "Logits after the prompt", "the largest; all of them with --json")
        lines(console, [(f"{token:>6}", f"{value:9.4f}  {text}") for token, text, value in top_logits])


def _print_speed(console: Console, report: dict[str, Any]) -> None:
    clock = report["wafer"]["clock_hz"]
    prefill = report["prefill"]
    table = plain_table()
    for _ in range(4):
        table.add_column(justify="right", no_wrap=True)
    table.add_row(
        "prompt", f"{count(prefill['tokens_per_s'])} tokens/s", f"{count(prefill['cycles'])} cycles", seconds(prefill["s"])
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
    show(console, table)


def print_causes(console: Console, by: dict[str, float]) -> None:
    """Cycles by cause, the largest first, each with what it is."""
    total = sum(by.values()) or 1.0
    width = 14 if console.width < 90 else 32
    table = plain_table()
    for justify in ("left", "left", "right", "right", "left"):
        table.add_column(justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for cause, cycles in sorted(by.items(), key=lambda item: -item[1]):
        if cycles:
            share = cycles / total
            table.add_row(cause, bar(share, width, cause), percent(share), count(cycles), CAUSES.get(cause, ""))
    show(console, table)
    unused = [cause for cause, cycles in by.items() if not cycles]
    if unused:
        lines(console, [("none", ", ".join(unused))])


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
    made = len(report["tokens"])
    rows = [("speed", f"{count(emulation['tokens_per_s'])} tokens/s on this computer: {made} tokens, {seconds(emulation['wall_s'])} in all")]
    if "trace" in report:
        rows.append(("trace", f"{report['trace']}"))
        rows.append(("look inside", f"wse inspect {shlex.quote(report['trace'])}"))
    lines(console, rows)

"""What ``wse inspect TRACE`` prints: what was run and where its cycles went, on one screen."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from rich.console import Console

from wse.inspect.print.links import link_line
from wse.inspect.print.steps import print_step_rows
from wse.inspect.print.wavelets import print_wavelets
from wse.report.cause_bars import print_causes
from wse.report.expert_lines import print_experts
from wse.report.placement_lines import print_sram, wafer_line
from wse.report.terminal import (
    bar,
    count,
    heading,
    in_bytes,
    lines,
    percent,
    plain_table,
    seconds,
    several,
    show,
    shown,
)

MOST_TEXT: Final = 120
MOST_USERS: Final = 3
MOST_OPS: Final = 5
MOST_STEPS: Final = 3


def print_summary(console: Console, facts: dict[str, Any]) -> None:
    """Print the summary; of links and steps the first few."""
    heading(console, "Trace", shown(facts["trace"]))
    system, wafer = facts["system"], facts["wafer"]
    rows = [
        ("model", shown(facts["model"]["name"])),
        ("wafer", wafer_line(wafer["name"], wafer["rows"], wafer["cols"], wafer["clock_hz"], system["wafers"])),
        ("mapping", f"{shown(system['mapping'])}, {several(len(system['stages']), 'region')}"),
        ("tokens", f"{count(facts['prompt_tokens'])} of the prompt, {count(facts['generated_tokens'])} generated"),
        *_texts(facts["users"]),
        ("written by", f"{shown(facts['created_by'])}, program {shown(facts['program_digest'][:16])}"),
    ]
    lines(console, rows)
    _print_phases(console, facts)
    if "decode" in facts:
        heading(console, "Where the cycles of a generated token go")
        print_causes(console, facts["decode"]["cycles_by"])
    stages = facts["sram"]["stages"]
    if stages:
        fullest = min(range(len(stages)), key=lambda i: stages[i]["free"])
        heading(console, "SRAM of the fullest PE", f"in stage {fullest}")
        print_sram(console, stages[fullest])
    _print_ops(console, facts)
    traffic = [("busiest link", link_line(facts["links"][0]))] if facts["links"] else []
    if facts["crossing"]["bytes"]:
        traffic.append(("between wafers and with the host", in_bytes(facts["crossing"]["bytes"])))
    if traffic:
        heading(console, "Traffic", "over the whole run")
        lines(console, traffic)
    if "experts" in facts:
        print_experts(console, facts["experts"]["load"])
    if "wavelets" in facts:
        print_wavelets(console, facts["wavelets"])
    if facts["steps"]:
        heading(console, "Costliest steps", "summed over the run")
        print_step_rows(console, facts["steps"][:MOST_STEPS], "cycles")
    lines(console, [("", ""), ("more", "--tree, --steps, --by op, --links, --pe ROW,COL, --tokens; see --help")])


def _texts(users: list[dict[str, Any]]) -> list[tuple[str, str]]:
    rows = []
    for number, user in enumerate(users[:MOST_USERS], start=1):
        text = shown(user["text"][:MOST_TEXT]).replace("\\n", " ⏎ ")
        if text:
            name = "text" if len(users) == 1 else f"text {number}"
            rows.append((name, text + (" ..." if len(user["text"]) > MOST_TEXT else "")))
    if rows and len(users) > MOST_USERS:
        rows.append(("", f"and {several(len(users) - MOST_USERS, 'text')} more"))
    return rows


def _print_phases(console: Console, facts: dict[str, Any]) -> None:
    clock = facts["wafer"]["clock_hz"]
    table = plain_table()
    for _ in range(4):
        table.add_column(justify="right", no_wrap=True)
    if "prefill" in facts:
        cycles = facts["prefill"]["cycles"]
        chunks = several(facts["prefill"]["passes"], "chunk")
        table.add_row("prompt", f"{count(cycles)} cycles in {chunks}", seconds(cycles / clock), "")
    if "decode" in facts:
        decode = facts["decode"]
        cycles = decode["cycles_per_pass"]
        speed = f"{count(decode['tokens_per_s'])} tokens/s"
        table.add_row("generation", f"{count(cycles)} cycles a token", seconds(cycles / clock), speed)
    if table.row_count:
        heading(console, "Speed of the emulated wafer")
        show(console, table)


def _print_ops(console: Console, facts: dict[str, Any]) -> None:
    """The kinds of op that take the most, over all layers."""
    phase = "decode" if "decode" in facts else "prefill"
    sums: dict[str, float] = defaultdict(float)
    ops: dict[str, int] = defaultdict(int)
    for op in (op for node in facts["tree"] for op in node["ops"]):
        sums[op["kind"]] += op[phase]
        ops[op["kind"]] += 1
    total = sum(sums.values())
    if not total:
        return
    what = "of a generated token" if phase == "decode" else "of a mean chunk of the prompt"
    heading(console, "Kinds of op", f"cycles {what}, all layers together")
    width = 14 if console.width < 90 else 32
    table = plain_table()
    for right in (False, False, True, True, False):
        table.add_column(justify="right" if right else "left", no_wrap=True)
    ordered = sorted(sums, key=lambda kind: -sums[kind])
    for kind in ordered[:MOST_OPS]:
        share = sums[kind] / total
        table.add_row(
            shown(kind), bar(share, width, "compute"), percent(share), count(sums[kind]), several(ops[kind], "op")
        )
    show(console, table)
    if len(ordered) > MOST_OPS:
        rest = sum(sums[kind] for kind in ordered[MOST_OPS:])
        left = len(ordered) - MOST_OPS
        lines(console, [(f"and {several(left, 'kind')} more", f"{percent(rest / total)}, {count(rest)} cycles")])

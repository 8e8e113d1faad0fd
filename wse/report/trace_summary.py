"""What ``wse inspect`` prints."""

from __future__ import annotations

from typing import Any, TextIO

from rich.console import Console

from wse.report.expert_lines import print_experts
from wse.report.placement_lines import print_sram, wafer_line
from wse.report.run_summary import print_causes
from wse.report.terminal import (
    bar,
    console_on,
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
from wse.report.wavelet_lines import print_moves, print_wavelets

MOST_TEXT = 300


def print_trace(facts: dict[str, Any], stream: TextIO, *, tree: bool, steps: bool) -> None:
    """Print the summary of a trace, or what was asked for: its tree of ops, costliest steps, moves of some cycles."""
    console = console_on(stream)
    if not facts["complete"]:
        console.print()
        console.print("This trace is incomplete: the run goes on or was stopped. It holds what was written until then.")
    moves = "replayed" in facts.get("wavelets", {})
    if not tree and not steps and not moves:
        _print_summary(console, facts)
    if tree:
        _print_tree(console, facts, [(node, 1) for node in facts["tree"]])
    if steps:
        _print_steps(console, facts["steps"])
    if moves:
        print_moves(console, facts["wavelets"])


def _print_summary(console: Console, facts: dict[str, Any]) -> None:
    heading(console, "Trace", shown(facts["trace"]))
    system = facts["system"]
    rows = [
        ("model", shown(facts["model"]["name"])),
        ("wafer", wafer_line(facts["wafer"], system["wafers"])),
        ("mapping", f"{shown(system['mapping'])}, {several(len(system['stages']), 'region')}"),
        ("tokens", f"{count(facts['prompt_tokens'])} of the prompt, {count(facts['generated_tokens'])} generated"),
    ]
    for number, user in enumerate(facts["users"], start=1):
        text = shown(user["text"][:MOST_TEXT]).replace("\\n", " ⏎ ")
        if text:
            name = "text" if len(facts["users"]) == 1 else f"text {number}"
            rows.append((name, text + (" ..." if len(user["text"]) > MOST_TEXT else "")))
    rows.append(("written by", f"{shown(facts['created_by'])}, program {shown(facts['program_digest'][:16])}"))
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
    _print_tree(console, facts, _folded(facts["tree"]))
    _print_links(console, facts)
    if "experts" in facts:
        print_experts(console, facts["experts"]["load"])
    if "wavelets" in facts:
        print_wavelets(console, facts["wavelets"])
    if facts["steps"]:
        _print_steps(console, facts["steps"])
    lines(console, [("", ""), ("more", "--tree: the ops of each layer; --steps: more steps; --json: everything")])


def _folded(tree: list[dict[str, Any]]) -> list[tuple[dict[str, Any], int]]:
    """The tree's nodes, consecutive layers that cost the same as one, and how many each stands for."""
    folded: list[tuple[dict[str, Any], int]] = []
    for node in tree:
        if folded and min(node["layer"], folded[-1][0]["layer"]) >= 0 and _costs(node) == _costs(folded[-1][0]):
            folded[-1] = (folded[-1][0], folded[-1][1] + 1)
        else:
            folded.append((node, 1))
    return folded


def _costs(node: dict[str, Any]) -> list[tuple[float, float]]:
    return [(op["prefill"], op["decode"]) for op in node["ops"]]


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


def _print_links(console: Console, facts: dict[str, Any]) -> None:
    links, crossing = facts["links"], facts["crossing"]["bytes"]
    if links:
        heading(console, "Busiest links", "words over the whole run")
        most = links[0]["words"]
        table = plain_table()
        for right in (False, False, True):
            table.add_column(justify="right" if right else "left", no_wrap=True)
        for link in links:
            place = f"wafer {link['wafer']}, row {link['row']}, col {link['col']}, {link['direction']}"
            table.add_row(place, bar(link["words"] / most, 20, "hops"), count(link["words"]))
        show(console, table)
    in_layers = [each for each in facts["layer_links"] if each["layer"] >= 0]
    totals = [("most of one layer on one link", _hottest(in_layers))] if in_layers else []
    if crossing:
        totals.append(("between wafers and with the host", in_bytes(crossing)))
    if totals:
        lines(console, totals)


def _hottest(found: list[dict[str, Any]]) -> str:
    """The words of the layers that load one link the most."""
    most = found[0]["busiest_link_words"]
    layers = sorted({each["layer"] for each in found if each["busiest_link_words"] == most})
    others = f" and {count(len(layers) - 1)} more" if len(layers) > 1 else ""
    return f"{count(most)} words, layer {layers[0]}{others}"


def _print_tree(console: Console, facts: dict[str, Any], nodes: list[tuple[dict[str, Any], int]]) -> None:
    phase = "decode" if "decode" in facts else "prefill"
    what = "of a generated token" if phase == "decode" else "of a mean chunk of the prompt"
    heading(console, "Ops", f"cycles {what}")
    total = sum(node[phase] for node in facts["tree"]) or 1.0
    width = 20 if console.width < 90 else 36
    table = plain_table()
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for node, stands_for in nodes:
        inside = node["layer"] >= 0
        if inside:
            share = node[phase] / total
            last = node["layer"] + stands_for - 1
            name = f"layer {last}" if stands_for == 1 else f"each of layers {node['layer']} to {last}"
            table.add_row(name, count(node[phase]), percent(share), bar(share, width, "weights"), style="bold")
        for index, op in enumerate(node["ops"]):
            branch = ("└─ " if index == len(node["ops"]) - 1 else "├─ ") if inside else ""
            name = shown(op["op"]).removeprefix(f"layers.{node['layer']}.")
            share = op[phase] / total
            table.add_row(f"{branch}{name}", count(op[phase]), percent(share), bar(share, width, "compute"))
    show(console, table)


def _print_steps(console: Console, steps: list[dict[str, Any]]) -> None:
    heading(console, "Slowest steps", "summed over the run")
    table = plain_table(header=True)
    for name in ("phase", "op", "kernel or pattern", "times", "cycles", "mostly"):
        right = name in ("times", "cycles")
        table.add_column(name, justify="right" if right else "left", no_wrap=name != "op")
    for step in steps:
        by = step["cycles_by"]
        cause = max(by, key=lambda c: by[c])
        table.add_row(
            step["phase"], shown(step["op"]), shown(step["name"]), count(step["times"]), count(step["cycles"]), cause
        )
    show(console, table)

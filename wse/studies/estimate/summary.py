"""What ``wse estimate`` prints: what was asked, the answer, what limits it, SRAM; more with ``detail``."""

from __future__ import annotations

import shlex
from typing import Any, Final, TextIO

from rich.console import Console

from wse.report.cause_bars import print_causes
from wse.report.defect_lines import print_defects
from wse.report.placement_lines import print_placement, print_sram
from wse.report.terminal import (
    console_on,
    count,
    heading,
    in_bytes,
    lines,
    percent,
    plain_table,
    seconds,
    several,
    short,
    show,
    shown,
)
from wse.studies.estimate.bounds_table import MOST_ROWS, print_bounds, print_left, print_levels
from wse.studies.estimate.search_table import print_search
from wse.studies.estimate.stream_table import print_schedule

GRADES: Final = "by the weakest constant: M measured, V vendor, D fitted, R/I/U assumed"
CHANGED: Final = {
    "wafers": "wafers",
    "tokens_per_s_per_user": "tokens/s a user",
    "ttft_s": "first token",
    "kv_capacity_tokens": "KV tokens",
}


def print_estimate(report: dict[str, Any], stream: TextIO, *, detail: bool = False) -> None:
    """Print what an estimate's report says."""
    console = console_on(stream)
    _print_inputs(console, report["inputs"])
    if detail:
        heading(console, "Placement")
        print_placement(console, report)
    _print_answer(console, report)
    if "defects" in report:
        print_defects(console, report["defects"])
    if "bounds" in report:
        print_bounds(console, report["bounds"])
        if detail:
            print_levels(console, report["bounds"])
    if "decode" in report:
        heading(console, "Where the cycles of a generated token go")
        print_causes(console, report["decode"]["cycles_by"])
    _print_sram(console, report, detail=detail)
    if "schedule" in report and (detail or report["schedule"]["stages"] > 1):
        print_schedule(console, report["schedule"])
    if "search" in report and (detail or report["inputs"]["mapping"] == "auto"):
        print_search(console, report["search"], report["wafer"]["clock_hz"])
    if "sensitivity" in report:
        _print_sensitivity(console, report)
    if "trace" in report:
        heading(console, "Trace")
        look = shown(f"wse inspect {shlex.quote(report['trace'])}")
        lines(console, [("written to", shown(report["trace"])), ("look inside", look)])


def _print_inputs(console: Console, inputs: dict[str, Any]) -> None:
    heading(console, "Asked for")
    given = [f"--{name.replace('_', '-')} {shown(value)}" for name, value in inputs.items() if name != "model"]
    lines(console, [("model", shown(inputs["model"])), ("options", " ".join(given))])


def _print_answer(console: Console, report: dict[str, Any]) -> None:
    heading(console, "Answer", f"graded {GRADES}")
    grades = report["grades"]
    table = plain_table()
    table.add_column(style="bright_black", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for name, key, value, note in _answers(report):
        table.add_row(name, grades[key]["grade"], value, note)
    show(console, table)


def _answers(report: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Name, key, value and what else there is to say."""
    latency, prefill, wafers, clock = (report[key] for key in ("latency", "prefill", "system", "wafer"))
    host = sum(latency["ttft_by"][key] for key in ("handshake_in_s", "prompt_in_s", "first_token_out_s"))
    mesh = f"{clock['rows']}x{clock['cols']} PEs of {shown(clock['name'])}"
    fitting = "" if report["sram"]["fits"] else ", which do not hold it: it is timed as if they did"
    model = report["model"]
    size, padding = count(model["parameters"]), percent(wafers["padding_fraction"])
    answers = [
        ("wafers", "system.wafers", str(wafers["wafers"]), f"each {mesh}{fitting}"),
        (
            "model",
            "system.wafers",
            in_bytes(model["bytes"]),
            f"{size} parameters as {model['dtype']}; {padding} padding",
        ),
        (
            "prompt",
            "prefill.tokens_per_s",
            f"{count(prefill['tokens_per_s'])} tokens/s",
            f"{count(prefill['cycles'])} cycles in {several(len(wafers['prefill_chunks']), 'chunk')}",
        ),
        (
            "first token",
            "latency.ttft_s",
            seconds(latency["ttft_s"]),
            f"from host to host, {seconds(host)} of it on the way",
        ),
    ]
    if "decode" in report:
        answers += _decoded(report)
    return answers


def _decoded(report: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """What concerns generated tokens."""
    decode, latency, fabric = report["decode"], report["latency"], report["fabric"]
    host = latency["tpot_by"]["host_s"]
    each = f"{count(decode['cycles_per_token'])} cycles" + (f", of it {seconds(host)} host" if host else "")
    tokens = report["inputs"]["new_tokens"]
    rows = [
        ("each further", "latency.tpot_s", seconds(latency["tpot_s"]), each),
        (
            "a user",
            "decode.tokens_per_s_per_user",
            f"{count(decode['tokens_per_s_per_user'])} tokens/s",
            f"{several(tokens, 'token')} in {seconds(latency['request_s'])}, prompt and all",
        ),
    ]
    if report["batch"] > 1:
        users = f"{several(report['batch'], 'user')} together, a token each"
        rows.append(("all users", "decode.tokens_per_s", f"{count(decode['tokens_per_s'])} tokens/s", users))
    if report["system"]["wafers"] > 1:
        crossing = report["crossing"]
        text = f"{seconds(crossing['s_per_token'])} a token between wafers"
        rows.append(("crossings", "crossing.s_per_token", in_bytes(crossing["bytes_per_token"]), text))
    rows += _economy(report)
    top = fabric["busiest_links"][0]
    where = f"wafer {top['wafer']}, row {top['row']}, col {top['col']} to the {top['to']}"
    busiest = f"on the busiest link ({where}); {short(fabric['wavelet_hops_per_token'])} hops"
    words = f"{count(fabric['busiest_link_words_per_token'])} words"
    rows.append(("traffic", "fabric.busiest_link_words_per_token", words, busiest))
    return rows


def _economy(report: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Joules and dollars of a token, with their ranges."""
    if "energy" not in report:
        return []
    energy, cost = report["energy"], report["cost"]
    low, high = energy["range"]
    watts = f"{count(low)} to {count(high)}, at {energy['wafer_power_w'] / 1000:g} kW a wafer"
    cheap, dear = cost["range"]
    price = f"a million tokens, {count(cheap)} to {count(dear)}, at {cost['wafer_usd_per_hour']:g} a wafer's hour"
    return [
        ("energy", "energy.joules_per_token", f"{count(energy['joules_per_token'])} J", f"a token, {watts}"),
        ("cost", "cost.usd_per_million_tokens", f"{count(cost['usd_per_million_tokens'])} USD", price),
    ]


def _print_sram(console: Console, report: dict[str, Any], *, detail: bool) -> None:
    sram = report["sram"]
    whose = f" for each of {report['batch']} users" if report["batch"] > 1 else ""
    tokens = f"room for {count(sram['kv_capacity_tokens'])} tokens of KV cache{whose}"
    heading(console, "SRAM of the fullest PE", f"{percent(sram['fullest_pe_fraction'])} in use; {tokens}")
    print_sram(console, sram["bytes_per_pe"])
    code = sram["code"]
    taken = f"{count(code['bytes_per_pe'])} B a PE ({code['grade']}) without stack and runtime"
    lines(console, [("code", f"{taken}; released research kernels take {count(code['research_bytes_per_pe'])} B")])
    table = plain_table()
    for name, key in (("context", "context"), ("users", "users")):
        table.add_row(name, *(count(each[key]) for each in sram["users"]))
    for column in table.columns[1:]:
        column.justify = "right"
    heading(console, "Users whose caches fit", "caches alone, beside what one batch takes")
    show(console, table)
    if detail:
        heading(console, "SRAM of a PE by stage")
        _print_stages(console, sram["stages"])


def _print_stages(console: Console, stages: list[dict[str, int]]) -> None:
    table = plain_table(header=True)
    for name in ("stage", *stages[0]):
        table.add_column(name, justify="right", no_wrap=True)
    for number, uses in enumerate(stages[:MOST_ROWS]):
        table.add_row(str(number), *(count(bytes_) for bytes_ in uses.values()))
    show(console, table)
    print_left(console, stages)


def _print_sensitivity(console: Console, report: dict[str, Any]) -> None:
    heading(console, "On another wafer or with other code", "the same request; × what it is now")
    table = plain_table(header=True)
    table.add_column("with", no_wrap=True)
    keys = [key for key in CHANGED if key in report["sensitivity"][0]]
    for key in keys:
        table.add_column(CHANGED[key], justify="right", no_wrap=True)
    for row in report["sensitivity"]:
        if not row["fits"]:
            table.add_row(row["change"], "does not fit")
            continue
        cells = [f"{_value(key, row[key])} {_factor(row['factors'].get(key, 1.0))}".rstrip() for key in keys]
        table.add_row(row["change"], *cells)
    show(console, table)


def _factor(factor: float) -> str:
    """By how much it differs, where that shows."""
    text = f"{factor:.3g}"
    return "" if text == "1" else f"×{text}"


def _value(key: str, number: float) -> str:
    return seconds(number) if key.endswith("_s") and "_per_" not in key else count(number)

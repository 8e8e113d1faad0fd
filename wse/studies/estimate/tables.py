"""The tables of an estimate: its answer, what limits it, SRAM, users, and what another wafer would change."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from wse.report.cause_bars import TITLE, causes_table
from wse.report.placement_lines import sram_table
from wse.report.table import Column, Table, pair_table
from wse.report.terminal import count, in_bytes, percent, seconds, several, short, shown
from wse.studies.estimate import bounds_table as bounds_view
from wse.studies.estimate.bounds_table import MOST_ROWS, ops_table
from wse.studies.estimate.economy import CostResult, EnergyResult
from wse.studies.estimate.pipelining_table import pipelining_table, streams_table
from wse.studies.estimate.result import ChangeResult, EstimateResult
from wse.studies.estimate.search_table import search_table
from wse.studies.results.defects_view import defects_table
from wse.studies.results.placement_view import SRAM_TITLE, fullest_note, placement_table

GRADES: Final = "by the weakest constant: M measured, V vendor, D fitted, R/I/U assumed"
CHANGED: Final = {
    "wafers": "wafers",
    "tokens_per_s_per_user": "tokens/s/user",
    "ttft_s": "TTFT",
    "kv_capacity_tokens": "KV tokens",
}

AnswerRow = tuple[str, str, str, str]
"""Name, key of the grade, value, and what else there is to say."""


def estimate_tables(result: EstimateResult) -> tuple[Table, ...]:
    """All tables of an estimate, in the order in which they are printed."""
    tables = [answer_table(result)]
    if result.defects is not None:
        tables.append(defects_table(result.defects))
    if result.bounds is not None:
        table = ops_table(result.bounds)
        tables.append(Table(columns=table.columns, rows=table.rows, title=bounds_view.TITLE, note=bounds_view.NOTE))
    if result.decode is not None:
        tables.append(causes_table(result.decode.cycles_by, title=TITLE))
    note = fullest_note(result.sram, result.batch)
    tables += [sram_table(result.sram.bytes_per_pe, title=SRAM_TITLE, note=note), users_table(result)]
    if result.schedule is not None and result.schedule.stages > 1:
        tables += [pipelining_table(result.schedule), streams_table(result.schedule)]
    if result.search is not None and result.inputs["mapping"] == "auto":
        tables.append(search_table(result.search, result.wafer.clock_hz))
    if result.sensitivity is not None:
        tables.append(sensitivity_table(result.sensitivity))
    return (*tables, placement_table(result.model, result.wafer, result.system))


def inputs_table(result: EstimateResult) -> Table:
    """The options, defaults filled in, as they are given on the command line."""
    options = [f"--{name.replace('_', '-')} {shown(value)}" for name, value in result.inputs.items() if name != "model"]
    return pair_table([("model", shown(result.inputs["model"])), ("options", " ".join(options))], "Asked for")


def answer_table(result: EstimateResult) -> Table:
    """The numbers that an estimate leads with, each with its grade."""
    rows: list[dict[str, Any]] = [
        {"name": name, "value": value, "grade": result.grades[key].grade, "note": note}
        for name, key, value, note in _answers(result)
    ]
    columns = (
        Column(key="name", style="bright_black"),
        Column(key="value", numeric=True),
        Column(key="grade", style="bright_black"),
        Column(key="note", folds=True),
    )
    return Table(columns=columns, rows=rows, title="Answer", note=f"graded {GRADES}")


def _answers(result: EstimateResult) -> list[AnswerRow]:
    latency, prefill, system, wafer, model = result.latency, result.prefill, result.system, result.wafer, result.model
    on_the_way = latency.ttft_by
    host = on_the_way.handshake_in_s + on_the_way.prompt_in_s + on_the_way.first_token_out_s
    mesh = f"{wafer.rows}x{wafer.cols} PEs of {shown(wafer.name)}"
    fitting = "" if result.sram.fits else ", which do not hold it: it is timed as if they did"
    size = f"{count(model.parameters)} parameters as {model.dtype}; {percent(system.padding_fraction)} padding"
    chunks = f"{count(prefill.cycles)} cycles in {several(len(system.prefill_chunks), 'chunk')}"
    way = f"first token, from host to host, {seconds(host)} of it on the way"
    return [
        ("wafers", "system.wafers", str(system.wafers), f"each {mesh}{fitting}"),
        ("model", "system.wafers", in_bytes(model.bytes), size),
        ("prompt", "prefill.tokens_per_s", f"{count(prefill.tokens_per_s)} tokens/s", chunks),
        ("TTFT", "latency.ttft_s", seconds(latency.ttft_s), way),
        *_token_rows(result),
        *_crossing_rows(result),
        *_economy_rows(result.energy, result.cost),
        *_traffic_rows(result),
    ]


def _token_rows(result: EstimateResult) -> list[AnswerRow]:
    """Rates of generated tokens; none where nothing is decoded."""
    decode, latency = result.decode, result.latency
    if decode is None or latency.tpot_by is None or latency.tpot_s is None or latency.request_s is None:
        return []
    host = latency.tpot_by.host_s
    cycles = f"each further token, {count(decode.cycles_per_token)} cycles" + (
        f", of it {seconds(host)} host" if host else ""
    )
    user = f"{count(decode.tokens_per_s_per_user)} tokens/s/user"
    answer = f"{several(int(result.inputs['new_tokens']), 'token')} in {seconds(latency.request_s)}, prompt and all"
    rows = [
        ("TPOT", "latency.tpot_s", seconds(latency.tpot_s), cycles),
        ("a user", "decode.tokens_per_s_per_user", user, answer),
    ]
    if result.batch > 1:
        users = f"{several(result.batch, 'user')} together, a token each"
        rows.append(("all users", "decode.tokens_per_s", f"{count(decode.tokens_per_s)} tokens/s", users))
    return rows


def _crossing_rows(result: EstimateResult) -> list[AnswerRow]:
    crossing = result.crossing
    if crossing is None or result.system.wafers == 1:
        return []
    text = f"{seconds(crossing.s_per_token)} a token between wafers"
    return [("crossings", "crossing.s_per_token", in_bytes(crossing.bytes_per_token), text)]


def _economy_rows(energy: EnergyResult | None, cost: CostResult | None) -> list[AnswerRow]:
    """Joules and dollars of a token, with their ranges."""
    if energy is None or cost is None or energy.range is None or cost.range is None:
        return []
    low, high = energy.range
    watts = f"{count(low)} to {count(high)}, at {energy.wafer_power_w / 1000:g} kW a wafer"
    cheap, dear = cost.range
    price = f"a million tokens, {count(cheap)} to {count(dear)}, at {cost.wafer_usd_per_hour:g} a wafer's hour"
    return [
        ("energy", "energy.joules_per_token", f"{count(energy.joules_per_token)} J", f"a token, {watts}"),
        ("cost", "cost.usd_per_million_tokens", f"{count(cost.usd_per_million_tokens)} USD", price),
    ]


def _traffic_rows(result: EstimateResult) -> list[AnswerRow]:
    fabric = result.fabric
    links, hops, words = fabric.busiest_links, fabric.wavelet_hops_per_token, fabric.busiest_link_words_per_token
    if not links or hops is None or words is None:
        return []
    top = links[0]
    where = f"wafer {top.wafer}, row {top.row}, col {top.col} to the {top.to}"
    busiest = f"on the busiest link ({where}); {short(hops)} hops"
    return [("traffic", "fabric.busiest_link_words_per_token", f"{count(words)} words", busiest)]


def users_table(result: EstimateResult) -> Table:
    """Users whose caches fit: a column for each context."""
    users = result.sram.users
    rows = [
        {"name": "context", **{str(row.context): row.context for row in users}},
        {"name": "users", **{str(row.context): row.users for row in users}},
    ]
    numbers = (_counted(str(row.context)) for row in users)
    note = "caches alone, beside what one batch takes"
    return Table(columns=(Column(key="name"), *numbers), rows=rows, title="Users whose caches fit", note=note)


def stage_sram_table(result: EstimateResult) -> Table:
    """SRAM of a PE of each of the first ``MOST_ROWS`` stages, by use."""
    stages = result.sram.stages
    rows = [{"stage": number, **uses} for number, uses in enumerate(stages[:MOST_ROWS])]
    numbers = (_counted(use, title=use) for use in stages[0])
    columns = (Column(key="stage", title="stage", numeric=True), *numbers)
    return Table(columns=columns, rows=rows, title="SRAM of a PE by stage")


def _counted(key: str, *, title: str = "") -> Column:
    """A column of whole numbers under ``key``."""
    return Column(key=key, title=title, cell=lambda row: count(row[key]), numeric=True)


def sensitivity_table(changes: tuple[ChangeResult, ...]) -> Table:
    """What each change gives, and by which factor that differs."""
    keys = [key for key in CHANGED if getattr(changes[0], key) is not None]
    columns = [Column(key="change", title="with")]
    for number, key in enumerate(keys):
        cell = partial(_first_change if number == 0 else _change, key)
        columns.append(Column(key=key, title=CHANGED[key], cell=cell, numeric=True))
    note = "the same request; × what it is now"
    return Table(columns=tuple(columns), rows=changes, title="On another wafer or with other code", note=note)


def _first_change(key: str, row: ChangeResult) -> str:
    return _change(key, row) if row.fits else "does not fit"


def _change(key: str, row: ChangeResult) -> str:
    if row.factors is None:
        return ""
    value = getattr(row, key)
    text = seconds(value) if key == "ttft_s" else count(value)
    factor = f"{row.factors.get(key, 1.0):.3g}"
    return text if factor == "1" else f"{text} ×{factor}"

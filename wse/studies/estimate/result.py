"""EstimateResult: cycles, traffic, SRAM and cost of a request, and the tables that show them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from wse.reports.price import cost_note
from wse.reports.result import Doc, Result
from wse.reports.shared_tables import causes_table, setting_texts
from wse.reports.table import Column, Table, number, pair_table
from wse.reports.terminal import WIDEST, count, in_bytes, percent, plural, printable, seconds, short_number, users_text
from wse.studies.estimate.bounds.bounds import BoundsResult, layer_and_stage_tables, token_table
from wse.studies.estimate.bounds.gap import gap_table
from wse.studies.estimate.cuts import CutsResult
from wse.studies.estimate.drafts.result import DraftPlanResult, draft_table
from wse.studies.estimate.economy import CostResult, EnergyResult
from wse.studies.estimate.grades import GradeResult
from wse.studies.estimate.layouts.result import SearchResult, search_table
from wse.studies.estimate.sram import EstimateSram, sram_tables
from wse.studies.estimate.timing.latency import LatencyResult
from wse.studies.estimate.timing.pipelining import PipeliningResult, pipelining_tables
from wse.studies.estimate.timing.user_latency import UserLatencyResult
from wse.studies.estimate.timing.verify import VerifyResult
from wse.studies.results.defects import DefectsResult, defects_table
from wse.studies.results.operating_points import ServingResult, points_table
from wse.studies.results.phases import DecodeResult, PrefillResult, causes_figure
from wse.studies.results.placement import ModelResult, SystemResult, WaferResult, placement_table, used_text
from wse.studies.results.published import PublishedSpeed, published_table
from wse.studies.results.rewrites import RewriteResult, rewrites_table
from wse.studies.results.traffic import CrossingResult, FabricResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRADES: Final = "by the weakest constant: M measured, V vendor, D fitted, R/I/U assumed"
CHANGED: Final = {
    "wafers": "wafers",
    "tokens_per_s_per_user": "tokens/s/user",
    "ttft_s": "TTFT",
    "kv_capacity_tokens": "KV tokens",
}
"""Numbers of a request with a change that are shown, with their headings."""

AnswerRow = tuple[str, str, str, str]
"""Name, key of the grade, value, and what else there is to say."""


@dataclass(frozen=True, kw_only=True)
class ChangeResult(Result):
    """A request with one number changed; ``fits`` alone where the model does not fit."""

    change: Annotated[str, Doc("what is changed")]
    fits: Annotated[bool, Doc("whether the model fits")]
    wafers: Annotated[int | None, Doc("wafers")] = None
    kv_capacity_tokens: Annotated[int | None, Doc("tokens of each user's KV cache that fit")] = None
    ttft_s: Annotated[float | None, Doc("time to first token", "s")] = None
    tokens_per_s_per_user: Annotated[float | None, Doc("generated tokens of each user", "tokens/s")] = None
    tokens_per_s: Annotated[float | None, Doc("generated tokens of all users", "tokens/s")] = None
    factors: Annotated[Mapping[str, float] | None, Doc("by the keys above, the number over the unchanged one")] = None


@dataclass(frozen=True, kw_only=True)
class EstimateResult(Result):
    """Cycles, traffic, SRAM and cost of a request; what concerns decoded tokens is absent without any."""

    inputs: Annotated[
        Mapping[str, str | int | float],
        Doc("the options with defaults filled in; `wafer.NAME` and `software.NAME` are numbers that were replaced"),
    ]
    note: Annotated[str | None, Doc("what was decided unasked: lengths, or an element type that no file states")] = None
    batch: Annotated[int, Doc("users whose tokens are decoded together")]
    model: Annotated[ModelResult, Doc("the model")]
    wafer: Annotated[WaferResult, Doc("a wafer as programs see it")]
    system: Annotated[SystemResult, Doc("wafers, mapping and stages")]
    cuts: Annotated[CutsResult | None, Doc("layers in parts; absent where all are whole")] = None
    sram: Annotated[EstimateSram, Doc("how full PEs are")]
    prefill: Annotated[PrefillResult, Doc("the prompts")]
    fabric: Annotated[FabricResult, Doc("words over links")]
    latency: Annotated[LatencyResult, Doc("what a user waits for")]
    decode: Annotated[DecodeResult | None, Doc("a generated token")] = None
    verify: Annotated[
        VerifyResult | None, Doc("a pass over several new tokens of one user; with `--verify-tokens`")
    ] = None
    drafts: Annotated[DraftPlanResult | None, Doc("the drafts that gain most; with `--draft`")] = None
    published: Annotated[
        tuple[PublishedSpeed, ...] | None,
        Doc("published speeds of the model on this wafer: the fastest without drafts, and the fastest with drafts"),
    ] = None
    crossing: Annotated[CrossingResult | None, Doc("bytes between wafers for a generated token")] = None
    schedule: Annotated[PipeliningResult | None, Doc("pipelining: streams on their way through stages")] = None
    serving: Annotated[ServingResult | None, Doc("what users get, and what a token costs")] = None
    bounds: Annotated[BoundsResult | None, Doc("a generated token beside what limits it")] = None
    energy: Annotated[EnergyResult | None, Doc("joules of a token")] = None
    cost: Annotated[CostResult | None, Doc("dollars of a million tokens")] = None
    grades: Annotated[Mapping[str, GradeResult], Doc("by the key of a number, how well it is known")]
    routing: Annotated[
        str | None, Doc("of models with experts: `even`, or `given` where a run's choice of experts is timed")
    ] = None
    defects: Annotated[DefectsResult | None, Doc("what dead PEs and links cost; with `--defects`")] = None
    search: Annotated[SearchResult | None, Doc("layouts that were tried, where there were several")] = None
    rewrites: Annotated[
        tuple[RewriteResult, ...] | None, Doc("rewrites of a layer's steps; absent with `--schedule released`")
    ] = None
    sensitivity: Annotated[tuple[ChangeResult, ...] | None, Doc("what another wafer would change")] = None
    trace: Annotated[str | None, Doc("path of the trace")] = None

    def plot(self) -> Figure:
        """Cycles of a generated token by cause, in all and by kind of op; of the prompt where nothing is decoded."""
        if self.bounds is None or self.decode is None:
            return causes_figure({"prompt": self.prefill.cycles_by}, f"Prompt of {self.model.name}")
        ops = {(row.op or "").replace("_", " "): row.cycles_by for row in self.bounds.ops}
        return causes_figure({"whole token": self.decode.cycles_by, **ops}, f"A generated token of {self.model.name}")

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return request, answer, published speeds, limits and SRAM; ``detail`` adds layers, stages and placement."""
        tables = [_inputs_table(self)]
        if detail:
            tables.append(placement_table(self.model, self.wafer, self.system))
        tables.append(_answer_table(self))
        if self.published is not None:
            tables.append(published_table(self.published))
        if self.defects is not None:
            tables.append(defects_table(self.defects))
        if self.bounds is not None:
            tables += [token_table(self.bounds, width), gap_table(self.bounds.token, self.bounds.gap)]
            tables += layer_and_stage_tables(self.bounds, width) if detail else []
        if self.decode is not None:
            tables.append(causes_table(self.decode.cycles_by, width=width))
        tables += sram_tables(
            self.sram,
            self.batch,
            self.system.context or 0,
            str(self.inputs["objective"]),
            detail=detail,
            width=width,
        )
        if self.serving is not None:
            tables.append(points_table(self.serving))
        if self.schedule is not None and detail:
            tables += pipelining_tables(self.schedule)
        if self.search is not None and (detail or self.inputs["mapping"] == "auto"):
            tables.append(search_table(self.search, self.wafer.clock_hz))
        if self.rewrites is not None and self.decode is not None and detail:
            tables.append(rewrites_table(self.rewrites, self.decode.cycles_per_token))
        if self.verify is not None and self.verify.rewrites is not None and detail:
            tables.append(rewrites_table(self.verify.rewrites, self.verify.cycles, "pass"))
        if self.drafts is not None:
            tables.append(draft_table(self.drafts))
        if self.sensitivity is not None:
            tables.append(_sensitivity_table(self.sensitivity))
        if self.trace is not None:
            view = printable(f"wse inspect {shlex.quote(self.trace)}")
            tables.append(pair_table([("written to", printable(self.trace)), ("look inside", view)], "Trace"))
        return tuple(tables)


def _inputs_table(result: EstimateResult) -> Table:
    """The options, defaults filled in, as they are given on the command line."""
    replaced = result.wafer.replaced or {}
    options = [
        f"--{name.replace('_', '-')} {printable(value)}"
        for name, value in result.inputs.items()
        if name != "model" and name not in replaced
    ]
    options += setting_texts(replaced)
    rows = [("model", printable(result.inputs["model"])), ("options", " ".join(options))]
    return pair_table([*rows, *([("note", printable(result.note))] if result.note else [])], "Asked for")


def _answer_table(result: EstimateResult) -> Table:
    """The numbers that an estimate leads with, each with its grade."""
    rows = [
        {"name": name, "value": value, "grade": result.grades[key].grade, "note": note}
        for name, key, value, note in _answers(result)
    ]
    columns = (
        Column(key="name", style="bright_black"),
        number("value", formatter=str),
        Column(key="grade", style="bright_black", priority=1),
        Column(key="note", wraps=True, priority=2),
    )
    footer = [] if result.cost is None else [("price", printable(result.cost.assumptions))]
    return Table(columns=columns, rows=rows, title="Answer", note=f"graded {GRADES}", footer=footer)


def _answers(result: EstimateResult) -> list[AnswerRow]:
    system, wafer, model = result.system, result.wafer, result.model
    used = used_text(wafer, system)
    mesh = f"{wafer.rows}x{wafer.cols} PEs of {printable(wafer.name)}{used and f', {used}'}"
    fitting = "" if result.sram.fits else ", which do not hold it: it is timed as if they did"
    size = f"{count(model.parameters)} parameters as {model.dtype}; {percent(system.padding_fraction)} padding"
    several = result.serving is not None and result.serving.users > 1
    return [
        ("wafers", "system.wafers", str(system.wafers), f"each {mesh}{fitting}"),
        *_cut_rows(result),
        ("model", "system.wafers", in_bytes(model.bytes), size),
        *(_rows_of_several_users(result) if several else _rows_of_one_user(result)),
        *_verify_rows(result.verify),
        *_crossing_rows(result),
        *_economy_rows(result.energy, result.cost),
        *_traffic_rows(result),
    ]


def _rows_of_one_user(result: EstimateResult) -> list[AnswerRow]:
    """Return prompt rate, latencies and speed of one user alone."""
    latency, prefill, on_the_way = result.latency, result.prefill, result.latency.ttft_by
    host = on_the_way.handshake_in_s + on_the_way.prompt_in_s + on_the_way.first_token_out_s
    chunks = plural(len(result.system.prefill_chunks), "chunk")
    way = f"first token, from host to host, {seconds(host)} of it on the way"
    if result.schedule is not None and latency.ttft_s == result.schedule.ttft_s != result.schedule.ttft_sequential_s:
        way += ", chunks pipelined through stages"
    rows = [
        _prompt_row(prefill.tokens_per_s, f"; {count(prefill.cycles)} cycles for {chunks} one after another"),
        ("TTFT", "latency.ttft_s", seconds(latency.ttft_s), way),
        _user_row(latency.user),
    ]
    decode = result.decode
    if decode is None or latency.tpot_by is None or latency.tpot_s is None or latency.request_s is None:
        return rows
    waited = f", of it {seconds(latency.tpot_by.host_s)} host" if latency.tpot_by.host_s else ""
    cycles = f"each further token, {count(decode.cycles_per_token)} cycles{waited}"
    return [
        *rows,
        ("TPOT", "latency.tpot_s", seconds(latency.tpot_s), cycles),
        _speed_row(result, decode.tokens_per_s_per_user, latency.request_s),
    ]


def _rows_of_several_users(result: EstimateResult) -> list[AnswerRow]:
    """Return prompt rate, latencies, speed and throughput of several users, at their operating point."""
    serving, latency = result.serving, result.latency
    assert serving is not None  # whoever calls this has looked
    users = f"{serving.users:,} users at a time"
    rows = [
        _prompt_row(serving.prompt_tokens / serving.ttft_s),
        ("TTFT", "latency.ttft_s", seconds(serving.ttft_s), f"first token, mean of {users}, waiting included"),
        _user_row(latency.user, serving.ttft_s - latency.ttft_s),
    ]
    if serving.tpot_s is not None and serving.tokens_per_s_per_user is not None:
        request_s = serving.ttft_s + (serving.new_tokens - 1) * serving.tpot_s
        text = "each further token, prompts of other users read meanwhile"
        rows += [
            ("TPOT", "latency.tpot_s", seconds(serving.tpot_s), text),
            _speed_row(result, serving.tokens_per_s_per_user, request_s),
        ]
    replicas = ""
    if serving.replicas > 1:
        wafers = plural(serving.replicas * result.system.wafers, "wafer")
        replicas = f"; {serving.replicas:,} replicas, {wafers} in all"
    grade = "latency.ttft_s" if result.decode is None else "decode.tokens_per_s"
    return [*rows, ("all users", grade, f"{count(serving.tokens_per_s)} tokens/s", f"{users}{replicas}")]


def _prompt_row(tokens_per_s: float, more: str = "") -> AnswerRow:
    return "prompt", "prefill.tokens_per_s", f"{count(tokens_per_s)} tokens/s", f"prompt tokens over TTFT{more}"


def _user_row(user: UserLatencyResult, more_s: float = 0.0) -> AnswerRow:
    """Return the first token behind the network, some seconds later than that of one user alone."""
    by = user.ttft_by
    way = f"new connection {seconds(by.connection_s)}, there and back {seconds(by.network_s)}"
    low, high = (end + more_s for end in user.ttft_range_s)
    text = f"as a user meets it: {way}, service {seconds(by.service_s)}; {seconds(low)} to {seconds(high)}"
    return "to a user", "latency.user.ttft_s", seconds(user.ttft_s + more_s), text


def _speed_row(result: EstimateResult, tokens_per_s: float, request_s: float) -> AnswerRow:
    answer = f"{plural(int(result.inputs['new_tokens']), 'token')} in {seconds(request_s)}, prompt and all"
    return "a user", "decode.tokens_per_s_per_user", f"{count(tokens_per_s)} tokens/s/user", answer


def _cut_rows(result: EstimateResult) -> list[AnswerRow]:
    """The layers that are cut, and with how many wafers none is; none where all are whole."""
    cuts = result.cuts
    if cuts is None:
        return []
    more = cuts.wafers_for_whole_layers
    between = f"{cuts.between_wafers or 'none'} of them between wafers"
    text = f"{between}; all whole with --wafers {more}" if more else between
    return [("cut", "system.wafers", plural(cuts.layers, "layer"), text)]


def _verify_rows(verify: VerifyResult | None) -> list[AnswerRow]:
    """The time of a pass over several tokens; none where it was not asked for."""
    if verify is None:
        return []
    text = f"a pass over {verify.tokens} new tokens of a user, {verify.ratio_to_decode:.3g} × a generated one"
    return [("verify", "verify.s", seconds(verify.s), f"{text}, {count(verify.cycles)} cycles")]


def _crossing_rows(result: EstimateResult) -> list[AnswerRow]:
    crossing = result.crossing
    if crossing is None or result.system.wafers == 1:
        return []
    text = f"{seconds(crossing.s_per_token)} a token between wafers"
    return [("crossings", "crossing.s_per_token", in_bytes(crossing.bytes_per_token), text)]


def _economy_rows(energy: EnergyResult | None, cost: CostResult | None) -> list[AnswerRow]:
    """Return joules and dollars of a token with so many users, with their ranges."""
    rows: list[AnswerRow] = []
    if energy is not None and energy.range is not None:
        low, high = energy.range
        watts = f"{count(low)} to {count(high)}, at {energy.wafer_power_w / 1000:g} kW a wafer"
        note = f"per token with {users_text(energy.users)}, {watts}"
        rows.append(("energy", "energy.joules_per_token", f"{count(energy.joules_per_token)} J", note))
    if cost is not None:
        ends = cost.usd_per_million_tokens_low, cost.usd_per_million_tokens_high
        price = cost_note(ends, cost.price_ends, "wafer", cost.users)
        rows.append(("cost", "cost.usd_per_million_tokens", f"{count(cost.usd_per_million_tokens)} USD", price))
    return rows


def _traffic_rows(result: EstimateResult) -> list[AnswerRow]:
    fabric = result.fabric
    links, hops, words = fabric.busiest_links, fabric.wavelet_hops_per_token, fabric.busiest_link_words_per_token
    if not links or hops is None or words is None:
        return []
    top = links[0]
    where = f"wafer {top.wafer}, row {top.row}, col {top.col} to the {top.to}"
    busiest = f"on the busiest link ({where}); {short_number(hops)} hops"
    return [("traffic", "fabric.busiest_link_words_per_token", f"{count(words)} words", busiest)]


def _sensitivity_table(changes: tuple[ChangeResult, ...]) -> Table:
    """The numbers of the request with each change, and the factors by which they differ from those without."""
    first, *others = (key for key in CHANGED if getattr(changes[0], key) is not None)
    columns = (
        Column(key="change", title="with"),
        number(first, CHANGED[first], cell=lambda row: _change(first, row) if row.fits else "does not fit"),
        *(number(key, CHANGED[key], cell=partial(_change, key)) for key in others),
    )
    note = "the same request; × what it is now"
    return Table(columns=columns, rows=changes, title="On another wafer or with other code", note=note)


def _change(key: str, row: ChangeResult) -> str:
    if row.factors is None:
        return ""
    value = getattr(row, key)
    text = seconds(value) if key == "ttft_s" else count(value)
    factor = f"{row.factors.get(key, 1.0):.3g}"
    return text if factor == "1" else f"{text} ×{factor}"

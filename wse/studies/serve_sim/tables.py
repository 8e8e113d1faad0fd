"""Tables of a serving simulation: latencies, machine utilisation, and underlying assumptions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from wse.reports.intervals import sampled_text, with_interval
from wse.reports.number_text import count, in_bytes, percent, plural, range_text, ranged, seconds, three_figures
from wse.reports.table import Column, Table, number, pair_table
from wse.reports.terminal import printable
from wse.serving.goal import LATENCY, PURPOSES
from wse.serving.simulation.arrivals import ARRIVALS
from wse.serving.simulation.statistics import Distribution
from wse.studies.estimate.drafts.result import acceptance_rows, draft_text, place_text
from wse.studies.results.answer import power_text
from wse.studies.results.operating_points import cached_tokens_text
from wse.studies.results.placement_table import described_mapping
from wse.studies.serve_sim.machines.drafts import DraftsResult
from wse.studies.serve_sim.options import STATIC

if TYPE_CHECKING:
    from wse.studies.serve_sim.machines.kv_tiers import KvTierResult
    from wse.studies.serve_sim.result import PrefixResult, RequestsResult, ServedResult, ServeResult

NOTABLE_SHARE: Final = 0.98
"""Fraction of the constant number of requests in flight; a smaller mean number is shown."""

WAITS: Final = (
    (
        "queue",
        "from arrival to admission: waits for the end of the current pass, for room for the KV cache, and until fewer "
        "than --max-users requests are in progress",
    ),
    ("TTFT", "queue, waiting for prefill of requests admitted earlier, prefill, and transfer to the host"),
    ("TPOT", "a request's mean time per token after the first"),
)
"""Explanations of the rows of the table of latencies."""


def waits_table(served_result: ServedResult) -> Table:
    """Build the table of latencies: queueing delay, TTFT, TPOT, and inter-token latency.

    Each request tier has additional rows.
    """
    all_waits = served_result.all
    rows: list[tuple[str, Distribution | None]] = [
        ("queue", all_waits.queueing),
        ("TTFT", all_waits.ttft),
        ("TPOT", all_waits.tpot),
        ("inter-token latency", served_result.gaps),
    ]
    for tier, waits in served_result.tiers.items():
        rows += [(f"{tier} tier: queue", waits.queueing), (f"{tier} tier: TTFT", waits.ttft)]
    columns = [
        Column(key="name"),
        *(number(key, key, seconds) for key in ("mean", "p50", "p90", "p99")),
        number("most", "max", seconds),
    ]
    cells = [{"name": name} | waits.to_dict() for name, waits in rows if waits is not None]
    note = f"of {plural(all_waits.requests, 'request')}"
    gap_text = "time between consecutive tokens of a request"
    if served_result.tokens_per_pass is not None:
        gap_text += "; 0 s for an accepted draft token, which arrives together with the preceding token"
    footer = (*WAITS, ("inter-token latency", gap_text))
    return Table(columns=tuple(columns), rows=cells, title="Latency", note=note, footer=footer)


def served_table(result: ServeResult, served_result: ServedResult) -> Table:
    """Build the table of throughput, goodput, machine utilisation, energy and cost."""
    use = served_result.use
    busy = f"a pass (a decode step or a part of a prompt) is in flight {percent(use.busy)} of the time"
    if result.machine.stages > 1:
        busy += f"; the busiest stage works {percent(use.slowest_stage)} of the time"
    if use.prefill_busy is not None:
        busy += f"; the machine for prompts works {percent(use.prefill_busy)} of the time"
    prefix_note = "" if served_result.prefix_cache is None else ", including kept prefixes"
    room_text = ""
    if served_result.prefix_cache is None:  # otherwise, the room depends on the prefixes that requests share
        room = min(use.most_users, result.replicas * result.machine.kv_capacity_users)
        room_text = f"; there is room for {room:,}"
    ranges = result.ranges or {}
    throughput = with_interval(
        count(served_result.tokens_per_s), " output tokens/s", ranges.get("served.tokens_per_s"), count
    )
    span = f"over {seconds(served_result.makespan_s)}, from the first arrival to the last token"
    if "served.tokens_per_s" in ranges and "load" in result.inputs:
        span += "; interval: the load of each sample is the same fraction of its own capacity"
    rows = [
        ("throughput", f"{throughput} {span}"),
        ("busy", busy),
        ("decoding", f"{count(use.users)} users on average{room_text}"),
        ("KV cache", f"{percent(use.kv)} reserved on average, for whole requests{prefix_note}"),
    ]
    load = result.inputs.get("load")
    constant, cost_note = result.requests.in_flight, "" if load is None else f", at {percent(load)} of the capacity"
    if constant and not result.requests.think_s and use.in_flight < NOTABLE_SHARE * constant:
        text = f"{count(use.in_flight)} of {constant:,} requests on average: fewer at the start and the end (less so "
        text += "with more --requests), and next requests are slightly delayed, so that they do not start together"
        rows.insert(1, ("in flight", text))
        cost_note = f", with {count(use.in_flight)} requests in flight instead of {constant:,}"
    for name, key, unit in (
        ("energy", "joules_per_token", "J per token"),
        ("cost", "usd_per_million_tokens", "USD per million output tokens, prefill included"),
    ):
        amount, interval = getattr(served_result, key), ranges.get(f"served.{key}")
        if amount is None:
            continue
        text = with_interval(three_figures(amount.value), f" {unit}", interval, three_figures)
        if interval is None and (range_note := range_text(amount.range[0], amount.range[1], three_figures)):
            text += f" (range of the {'price' if name == 'cost' else 'power'}: {range_note})"
        if name == "energy":
            text += f", {power_text(amount.value, amount.range[0], amount.range[1], served_result.tokens_per_s)}"
        rows.append((name, f"{text}{cost_note}"))
    if (price := served_result.usd_per_hour) is not None:
        price_text = ranged(price.value, *price.range, three_figures)
        source_text = f"source of the price of each machine: {printable(price.source)}"
        rows.append(("price", f"{price_text} USD/h in total; {source_text}"))
    if served_result.tokens_per_pass is not None:
        rows.insert(1, ("drafts", f"{served_result.tokens_per_pass:.2f} tokens per user and pass on average"))
    goodput = served_result.goodput
    if goodput is not None:
        promised = [
            f"{name} within {seconds(limit)}"
            for name, limit in (("TTFT", goodput.ttft_s), ("TPOT", goodput.tpot_s))
            if limit is not None
        ]
        text = f"{percent(goodput.share)} of requests have {' and '.join(promised)}"
        rows.insert(1, ("goodput", f"{text}: {count(goodput.requests_per_s)} requests/s"))
    prefixes = served_result.prefix_cache
    if prefixes is not None:
        found = f"{count(prefixes.hits)} of {count(result.requests.count)} prompts found their prefix in memory"
        saved_text = (
            f"{count(prefixes.saved_tokens)} prompt tokens ({percent(prefixes.saved_share)}) were not prefilled again"
        )
        rows += [("prefixes", f"{found}: {saved_text}"), *_origin_rows(prefixes)]
    on_gpus = all(machine is None or machine.gpus is not None for machine in (result.machine, result.prefill_machine))
    return pair_table(rows, "Machine use and cost", sampled_text(ranges, on_gpus=on_gpus))


def machine_table(result: ServeResult) -> Table:
    """Build the table of the simulation's inputs: requests, machines, drafts, etc."""
    requests = result.requests
    mean_tokens = math.ceil(requests.prompt_tokens + requests.new_tokens)
    mean = "" if _has_equal_lengths(result) else " on average"
    lengths = f"{count(requests.prompt_tokens)} prompt + {count(requests.new_tokens)} output tokens{mean}"
    rows = [("requests", f"{count(requests.count)}, {_arrivals_text(requests)}; {lengths}")]
    if prefix_tokens := result.inputs.get("prefix_tokens"):
        use = "their KV cache is kept" if result.inputs["prefix_cache"] else "but prefilled again (no --prefix-cache)"
        rows.append(("prefixes", f"{count(prefix_tokens)} tokens at the start of each prompt are shared, {use}"))
    if requests.too_long or requests.without_answer:
        rows.append(("not served", _left_out_text(requests)))
    for name, machine in (("machine", result.machine), ("for prompts", result.prefill_machine)):
        if machine is not None:
            cache = f"KV cache of {count(machine.kv_capacity_tokens)} tokens in blocks of {machine.kv_block_tokens}"
            cache += ", one token per PE row of a stage" if machine.gpus is None else ""
            has_one_prefix = result.inputs.get("prefixes", 1) == 1 and "workload" not in result.inputs
            shared_tokens = (prefix_tokens or 0) if has_one_prefix and result.inputs["prefix_cache"] else 0
            sequences = plural(machine.kv_capacity_users, "sequence")
            fit = f"{sequences} of {cached_tokens_text(mean_tokens, shared_tokens)} fit"
            if machine.kv_capacity_users * (mean_tokens - shared_tokens) > machine.kv_capacity_tokens:
                fit += " (some layers store only a window)"
            rows.append((name, f"{plural(machine.stages, 'pipeline stage')}; {cache}: {fit}"))
            if not machine.grid_users:
                rows.append(("pass times", f"{machine.stack}; computed from the numbers that `wse gpus` lists"))
                continue
            sizes = ", ".join(map(str, machine.grid_users))
            users = (
                "1 user each (passes of other users run in other stages)"
                if machine.grid_users == (1,)
                else f"{sizes} users (fewer take as long; users are spread over the passes in flight)"
            )
            contexts = f"{len(machine.grid_contexts)} context lengths up to {machine.grid_contexts[-1]:,} tokens"
            chunks = f"prompts are read in chunks of {plural(machine.chunk_tokens, 'token')}"
            passes = f"computed for decode passes of {users} at {contexts}, and interpolated"
            rows.append(("pass times", f"{passes}; {chunks}"))
    if "objective" in result.inputs:
        mapping = f"mapping {described_mapping(result.machine.mapping)}, " if result.machine.gpus is None else ""
        rows.append(("layout", f"{mapping}{_purpose(result)}"))
    if result.inputs["batching"] == STATIC:
        users = plural(result.inputs["max_users"], "user")
        rows.append(("batches", f"static: at most {users} start together, and none can join until the last one ends"))
    kv = result.kv_transfer
    if kv is not None:
        link = f"a link of {in_bytes(kv.bytes_per_s)}/s and {seconds(kv.latency_s)}"
        states = f" and {in_bytes(kv.bytes_per_state)} of states per prompt" if kv.bytes_per_state else ""
        sizes = f"{in_bytes(kv.bytes_per_token)} per token{states}"
        text = f"{sizes} move over {link}: {seconds(kv.prompt_s)} for a mean prompt"
        rows.append(("caches", text))
    rows += [(f"KV tier {tier.name}", _tier_text(tier)) for tier in result.kv_tiers or ()]
    if result.drafts is not None:
        place = place_text(result.drafts) if result.machine.gpus is None else "on the model's GPUs"
        rows.append(("drafts", _drafts_text(result.drafts, place)))
        rows += [(f"drafts: {name}", text) for name, text in acceptance_rows(result.drafts)]
    return pair_table(rows, "Inputs of the simulation")


def _purpose(result: ServeResult) -> str:
    """Return for which objective and number of users the layout was chosen, as a table shows it.

    If users pause between requests, the estimated number of requests in flight is added, rounded up.
    """
    objective, users, pauses = result.inputs["objective"], result.inputs.get("users"), result.requests.think_s
    text, layout_users = f"chosen for {PURPOSES[objective]}", result.machine.layout_users
    if users is not None and pauses:
        text += f" of {plural(users, 'user')} who pause between requests"
        text += "" if layout_users is None else f", with {plural(layout_users, 'request')} in flight on a replica"
    elif users is not None:
        text += f" of {plural(users, 'user')}"
    elif objective == LATENCY:
        text += f" of {plural(result.inputs.get('batch') or 1, 'user')} at a time"
    text += f" (--objective {objective})"
    if not _has_equal_lengths(result):
        text += ", assuming that all requests have the mean lengths"
    return text if objective == LATENCY else f"{text}; `wse estimate` has --objective {LATENCY} as its default"


def _has_equal_lengths(result: ServeResult) -> bool:
    """Return whether all requests have the same prompt and answer lengths."""
    is_varied = "workload" in result.inputs or result.inputs.get("length_cv")
    return result.requests.arrivals in ARRIVALS and not is_varied


def _origin_rows(prefixes: PrefixResult) -> list[tuple[str, str]]:
    """Return table rows about cached prompts: where the tokens came from, how busy links were.

    The result is empty without memory tiers, which store KV caches of prompt prefixes.
    """
    if prefixes.kv_tiers is None:
        return []
    names = {"cache": "KV cache", "recomputed": "prefilled again", "new": "prefilled for the first time"}
    origins = [f"{names.get(name, name)} {percent(share)}" for name, share in prefixes.token_shares.items()]
    loads, copies = (
        ", ".join(f"{tier.name} {percent(getattr(tier, field))}" for tier in prefixes.kv_tiers)
        for field in ("load_share", "copy_share")
    )
    links = f"busy with loads: {loads} of the time; with copies to the tier, in the other direction: {copies}"
    return [("origin", f"of prompt tokens: {', '.join(origins)}"), ("tier links", links)]


def _tier_text(tier: KvTierResult) -> str:
    """Describe a memory tier for KV caches: its capacity, bandwidth and latency."""
    size = f"{in_bytes(tier.capacity_bytes)} ({printable(tier.capacity_source)}): {count(tier.capacity_tokens)} tokens"
    low, high = tier.bytes_per_s_range or (tier.bytes_per_s, tier.bytes_per_s)
    rate = f"{in_bytes(tier.bytes_per_s)}/s"
    if low < high:
        rate += f" ({in_bytes(low)}/s to {in_bytes(high)}/s)"
    states = f", with {in_bytes(tier.bytes_per_state)} of states per prefix" if tier.bytes_per_state else ""
    return f"{size}; loads at {rate} after {seconds(tier.latency_s)}{states}"


def _arrivals_text(requests: RequestsResult) -> str:
    """Describe how requests arrive: by which random process, or from how many users."""
    if requests.in_flight is not None:
        pause = "when" if requests.think_s is None else f"{seconds(requests.think_s)} on average after"
        return f"of {plural(requests.in_flight, 'user')}, each sending a request {pause} the previous answer ends"
    if requests.rate_of_users is not None:
        users = plural(requests.rate_of_users, "user")
        return f"{requests.arrivals} at the mean rate of {users} who wait for each answer"
    trace_format = "" if requests.trace_format is None else f" ({requests.trace_format})"
    return printable(requests.arrivals) + trace_format


def _left_out_text(requests: RequestsResult) -> str:
    """Describe how many requests of a trace are not served, and why."""
    reasons = ((requests.too_long, "longer than the context"), (requests.without_answer, "without an answer"))
    return " and ".join(f"{plural(number, 'request')} {reason}" for number, reason in reasons if number)


def _drafts_text(drafts: DraftsResult, place: str) -> str:
    source = f"{draft_text(drafts)} {place}"
    basis = f"with the acceptance rates of {printable(drafts.acceptance)} (grade {drafts.grade})"
    if not drafts.draft_tokens:
        return f"none, because {source}, {basis}, would not increase the speed"
    times = f"drafting {seconds(drafts.draft_s)}, verifying {seconds(drafts.verify_s)}"
    per_pass = f"{drafts.tokens_per_pass:.2f} tokens per pass"
    return f"{plural(drafts.draft_tokens, 'token')} of {source}, {basis}: {per_pass}; {times}"

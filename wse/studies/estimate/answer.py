"""The answer of ``wse estimate`` on wafers: headline, sentences and number rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from wse.reports.number_text import count, in_bytes, percent, plural, seconds, short_number
from wse.reports.shared_tables import CAUSES, stages_text
from wse.reports.table import Table
from wse.reports.terminal import printable
from wse.serving.goal import COST, LATENCY, PURPOSES
from wse.studies.estimate.drafts.result import draft_sentence
from wse.studies.estimate.layouts.result import layout_text
from wse.studies.results.answer import (
    AnswerRow,
    answer_tables,
    limit_sentence,
    machine_text,
    outside_sentence,
    published_sentence,
    serving_rows,
    speed_sentence,
    verification_text,
)
from wse.studies.results.operating_points import cached_tokens_text
from wse.studies.results.placement_table import described_mapping, used_text
from wse.studies.results.sram import capacity_text

if TYPE_CHECKING:
    from wse.studies.estimate.result import EstimateResult
    from wse.studies.results.operating_points import ServingResult


MANY_USERS: Final = (
    f"For the lowest cost per token with many users, use --objective {COST}, or wse compare, which also tries "
    "other numbers of wafers."
)


def wafer_answer_tables(result: EstimateResult, *, detail: bool) -> list[Table]:
    """Return the first tables of an estimate: headline, conclusions and main numbers.

    Args:
        result: The estimate.
        detail: Whether to add mesh, prefill and traffic numbers, and a grade for the reliability of
            each number.
    """
    headline = f"{printable(result.model.name)} as {result.model.dtype} on {_machine(result)}"
    rows = [*_rows(result), *(_detail_rows(result) if detail else ())]
    return answer_tables(headline, _sentences(result), rows, result.grades if detail else None, result.ranges)


def _machine(result: EstimateResult) -> str:
    """Return the phrase that describes the wafers in the headline, with the number of replicas."""
    wafers = plural(result.system.wafers, f"{printable(result.wafer.name)} wafer")
    return machine_text(wafers, result.serving.replicas)


def _sentences(result: EstimateResult) -> Iterator[str]:
    """Yield the sentences below the headline."""
    if not result.sram.fits:
        yield "The model does not fit. It is timed as if it did."
    if result.note:
        yield f"Note: {printable(result.note)}."
    yield speed_sentence(result.serving, result.ranges)
    yield _layout_sentence(result)
    yield _waiting_sentence(result)
    yield draft_sentence(result.drafts)
    if result.decode is not None:
        meanings = {cause: f"{meaning} ({cause})" for cause, meaning in CAUSES.items()}
        yield limit_sentence(result.decode.cycles_by, meanings, "a token's time")
    yield published_sentence(result.published)
    interval = (result.ranges or {}).get("serving.tokens_per_s_per_user")
    yield outside_sentence(result.published, interval, result.serving.users, result.inputs)


def _layout_sentence(result: EstimateResult) -> str:
    """Return a sentence that describes the layout and the objective for which it was chosen."""
    system, used_pes = result.system, used_text(result.wafer, result.system)
    transposed = ", transposed (rows and columns exchanged)" if system.transposed else ""
    stages = f"Layout: mapping {described_mapping(system.mapping)}{transposed}, {stages_text(system.stages)}"
    stages += f" ({used_pes} of {result.wafer.rows}x{result.wafer.cols} PEs per wafer)" if used_pes else ""
    if result.search is None:
        return f"{stages}."
    experts = result.search.layouts[0].experts  # the chosen layout is the first
    stages += "" if experts is None else f", experts {experts} (--experts)"
    objective, serving, batch = str(result.inputs["objective"]), result.serving, int(result.inputs["batch"])
    users = "" if serving.users == serving.replicas else f" for {plural(serving.users, 'user')}"
    users += f", {batch:,} per pass" if users and batch > 1 else ""
    sentence = f"{stages}, chosen for {PURPOSES[objective]}{users} (--objective {objective})."
    if users and result.inputs.get("draft_model") is not None:
        return f"{sentence} Only layouts with room for all users were considered, because --draft-model requires it."
    if users or objective != LATENCY:
        return sentence
    return f"{sentence} Of the layouts that are nearly as fast, it has room for the most users. {MANY_USERS}"


def _waiting_sentence(result: EstimateResult) -> str:
    """Return a sentence about users for whom the layout has no room; empty if all have room."""
    serving = result.serving
    if serving.requests <= serving.max_users:
        return ""
    requests = f"{serving.users:,} users" if serving.in_flight is None else f"{count(serving.in_flight)} requests"
    sentences = (
        f"In this layout, the KV caches of only {count(serving.max_users)} of the {requests} fit at once. "
        "The others wait until there is room, which is included in TTFT."
    )
    if result.search is None:
        return sentences
    purpose = PURPOSES[str(result.inputs["objective"])]
    return f"{sentences} Even so, this layout has {purpose} of all layouts that were compiled."


def _rows(result: EstimateResult) -> Iterator[AnswerRow]:
    """Yield the rows of an estimate's main table, such as speed, SRAM and weights."""
    serving, latency, decode = result.serving, result.latency, result.decode
    in_flight = "one request" if result.batch == 1 else f"one pass of {plural(result.batch, 'user')}"
    cycles = (
        ""
        if decode is None
        else f"mean after the first token; {count(decode.cycles_per_token)} cycles with {in_flight} in flight"
    )
    tokens = cached_tokens_text(serving.prompt_tokens + serving.new_tokens, serving.prefix_tokens)
    place = "in this layout" if serving.replicas == 1 else f"on {serving.replicas:,} replicas of this layout"
    room = f"room for {plural(serving.max_users, 'KV cache')} of {tokens} {place}"
    room += "; the others wait" if serving.requests > serving.max_users else ""
    if result.drafts is not None and result.drafts.draft_tokens:
        room += f", or for {result.drafts.max_users:,} with drafts"
    room += f"; {_most_room_text(serving, result)}"
    first, *other_rows = serving_rows(serving, cycles, room, result.ranges)
    yield first
    yield _network_row(result, serving.ttft_s - latency.ttft_s)
    yield from other_rows
    place = "on each replica" if serving.replicas > 1 else "in this layout"
    room = capacity_text(result.sram, result.batch, result.system.context, place)
    note = f"of the fullest PE; {room}"
    yield AnswerRow("SRAM", percent(result.sram.fullest_pe_fraction), note)
    pes = result.system.wafers * result.wafer.rows * result.wafer.cols
    weights = f"{count(result.model.parameters)} parameters; {count(result.model.bytes / pes)} B per PE of the wafers "
    weights += f"on average; {percent(result.system.padding_fraction)} of the weights in SRAM are padding"
    yield AnswerRow("weights", in_bytes(result.model.bytes), weights)
    if result.crossing is not None and result.system.wafers > 1:
        cuts = result.crossing.cuts
        onward_cuts = [cut for cut in cuts if cut.to_wafer > cut.from_wafer]
        back_bytes = sum(cut.bytes_per_token for cut in cuts if cut.to_wafer < cut.from_wafer)
        per = "token" if result.batch == 1 else f"pass of {result.batch:,} users"
        traffic = f"{in_bytes(result.crossing.bytes_per_token)} per {per} in total: "
        traffic += f"{in_bytes(sum(cut.bytes_per_token for cut in onward_cuts))} to later wafers "
        traffic += f"({plural(len(onward_cuts), 'pair')} of wafers)"
        if back_bytes:
            traffic += f", and {in_bytes(back_bytes)} back to an earlier wafer, such as a new token's id"
        yield AnswerRow("crossings", seconds(result.crossing.s_per_token), traffic, "crossing.s_per_token")
    if result.cuts is not None:
        wafers = result.cuts.wafers_for_whole_layers
        remedy = f"; --wafers {wafers} splits none" if wafers else ""
        text = f"layers on two or more stages, {result.cuts.between_wafers or 'none'} of them on several wafers{remedy}"
        yield AnswerRow("split layers", f"{result.cuts.layers}", text)
    if result.verify is not None:
        verify = result.verify
        text = verification_text(verify.tokens, verify.ratio_to_decode)
        yield AnswerRow("verification", seconds(verify.s), f"{text}; {count(verify.cycles)} cycles", "verify.s")


def _most_room_text(serving: ServingResult, result: EstimateResult) -> str:
    """Return a phrase with the maximum number of users for which any layout has room, and this layout.

    If this number was not computed, the phrase names the option that computes it.

    Args:
        serving: The number of users that fit, without drafts.
        result: The estimate.
    """
    max_users = serving.max_users_of_any_layout
    if max_users is None:
        return "--most-users finds the most that fit in any layout"
    if max_users <= serving.max_users:
        return "no layout was found with more room"
    drafts = "" if result.drafts is None else " without drafts"
    text = f"another layout has room for {count(max_users)}{drafts}"
    return text if result.roomiest_layout is None else f"{text}: {layout_text(result.roomiest_layout)}"


def _network_row(result: EstimateResult, waited_s: float) -> AnswerRow:
    """Return the output row with the time to first token that a remote user observes.

    This time is the TTFT on the machine plus three delays: of a new connection, of the network and
    of the service that receives requests. The ends of its range are the sums of the low ends and of
    the high ends of these times.

    Args:
        result: The estimate. Its latencies are for a single batch of users on the machine.
        waited_s: Additional seconds that the user waits because of other users.
    """
    user = result.latency.user
    low, high = (end + waited_s for end in user.ttft_range_s)
    interval = (result.ranges or {}).get("serving.ttft_s")
    if interval is not None:
        low, high = low + interval.low - interval.value, high + interval.high - interval.value
    added_text = seconds(user.ttft_s - result.latency.ttft_s)
    low_added, high_added = (end - result.latency.ttft_s for end in user.ttft_range_s)
    text = (
        f"(range {seconds(low)} to {seconds(high)}) with an assumed {added_text} ({seconds(low_added)} to "
        f"{seconds(high_added)}) for connection, network and service"
    )
    return AnswerRow("remote TTFT", seconds(user.ttft_s + waited_s), text, "latency.user.ttft_s")


def _detail_rows(result: EstimateResult) -> Iterator[AnswerRow]:
    """Yield the mesh, prefill and traffic rows, which are shown only with ``--detail``."""
    wafer, system, fabric = result.wafer, result.system, result.fabric
    mesh_note = used_text(wafer, system)
    yield AnswerRow("mesh", f"{wafer.rows}x{wafer.cols}", f"PEs{mesh_note and f', {mesh_note}'}", "system.wafers")
    chunks = plural(len(system.prefill_chunks), "chunk")
    cycles = f"cycles of the prompts, {chunks} one after another"
    yield AnswerRow("prefill", count(result.prefill.cycles), cycles, "prefill.tokens_per_s")
    links, hops, words = fabric.busiest_links, fabric.wavelet_hops_per_token, fabric.busiest_link_words_per_token
    if links and hops is not None and words is not None:
        link_text = f"wafer {links[0].wafer}, row {links[0].row}, col {links[0].col} to the {links[0].to}"
        text = f"words per token on the busiest link ({link_text}); {short_number(hops)} hops"
        yield AnswerRow("traffic", count(words), text, "fabric.busiest_link_words_per_token")

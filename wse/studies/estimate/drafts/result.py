"""DraftPlanResult: the best number and tree of draft tokens, with evidence and a table."""

from __future__ import annotations

from typing import Annotated, Final

from wse.hardware.number import Grade
from wse.reports.number_text import count, plural, range_text, seconds, three_figures, words_with_and
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number
from wse.reports.terminal import printable
from wse.serving.drafts.speculation import ANY_KIND, DraftKind
from wse.studies.options.drafts.draft import HEAD, HOST, SAME, WAFER

_SATURATED: Final = "; at most the gain in throughput if users only wait longer for their first token"
"""Remark on the speed-up on machines that are saturated with speculative decoding."""


class DraftLengthResult(Result):
    """Times of passes and speed-up with a certain number of draft tokens per verification pass.

    A draft model, a draft head or a look-up proposes the tokens. The model verifies them in one
    pass.
    """

    draft_tokens: Annotated[int, Doc("draft tokens per verification pass")]
    tokens_per_pass: Annotated[float, Doc("tokens that a pass yields on average, including the one of the model")]
    draft_s: Annotated[float, Doc("time to draft the tokens", "s")]
    verify_s: Annotated[float, Doc("time of the verification pass, compiled for the draft tokens and one more", "s")]
    speed_up: Annotated[float, Doc(f"tokens/s of a user, divided by those without drafts{_SATURATED}")]


class DraftTreeResult(Result):
    """The draft tree (alternative tokens at each position) with the highest speed-up."""

    nodes: Annotated[int, Doc("draft tokens of the tree")]
    depth: Annotated[int, Doc("length of its longest path, in passes of the draft")]
    tokens_per_pass: Annotated[float, Doc("tokens that a pass yields on average, including the one of the model")]
    speed_up: Annotated[float, Doc(f"tokens/s of a user, divided by those without drafts{_SATURATED}")]
    parents: Annotated[tuple[int, ...], Doc("the parent of each node; -1: the token before the draft")]
    choices: Annotated[
        tuple[int, ...], Doc("rank of each node among the draft's candidates after its parent; 0: the most likely")
    ]


class AcceptanceResult(Result):
    """How likely draft tokens are to be accepted at each position, and where this was measured."""

    acceptance: Annotated[str, Doc("name of the acceptance: a measured model, `typical`, or what the user gave")]
    acceptance_by_position: Annotated[
        tuple[float, ...],
        Doc("probability that the draft token at each position is accepted, given that all before it were"),
    ]
    acceptance_draft_tokens: Annotated[
        tuple[int, ...],
        Doc("numbers of draft tokens per pass for which tokens per pass were measured; interpolated in between"),
    ]
    acceptance_kind: Annotated[
        DraftKind, Doc("kind of draft that was measured: `head`, `model`, or `any` if the user gave the acceptance")
    ]
    acceptance_measured_with: Annotated[str, Doc("description of the draft that was measured")]
    acceptance_grade: Annotated[Grade, Doc("grade of the acceptance for the requested draft")]
    acceptance_note: Annotated[
        str | None, Doc("how the draft differs from the one that was measured; absent if it does not")
    ] = None
    source: Annotated[str, Doc("source of the acceptance")]


class DraftRegionResult(Result):
    """A rectangle of PEs for a draft model, on a wafer of the model that verifies its tokens."""

    wafer: Annotated[int, Doc("index of the wafer")]
    row: Annotated[int, Doc("first row")]
    col: Annotated[int, Doc("first column")]
    rows: Annotated[int, Doc("rows of PEs")]
    cols: Annotated[int, Doc("columns of PEs")]


class DraftPlaceResult(Result):
    """The source of draft tokens (a draft model or head), and the PEs or host on which it runs."""

    draft: Annotated[str, Doc("the draft: `head`, or the name of a model")]
    place: Annotated[str, Doc("where the draft runs: `same`, `wafer` or `host`")]
    wafers: Annotated[int, Doc("wafers that only the draft model uses")] = 0
    region: Annotated[
        DraftRegionResult | None, Doc("PEs of a draft model on a wafer of the model; absent for other places")
    ] = None
    host: Annotated[str | None, Doc("the assumed host; absent if the draft is not on the host")] = None


class DraftPlanResult(AcceptanceResult, DraftPlaceResult):
    """The fastest configuration of speculative decoding, with the resulting speed and cost.

    A draft model, a draft head or a look-up proposes tokens, which the model verifies in one pass.
    """

    grade: Annotated[Grade, Doc("grade of the weakest number on which the speed-up depends")]
    draft_tokens: Annotated[int, Doc("the best number of draft tokens in a row; 0 if drafts are not faster")]
    speed_up: Annotated[float, Doc(f"tokens/s of a user with that number, divided by those without drafts{_SATURATED}")]
    users: Annotated[int, Doc("concurrent users, on all replicas together")]
    max_users: Annotated[
        int, Doc("maximum number of requests whose KV caches fit with that number, on all replicas together")
    ]
    ttft_s: Annotated[float, Doc("mean time to first token with that number", "s")]
    tokens_per_s_per_user: Annotated[float, Doc("tokens of each user with that number", "tokens/s")]
    tokens_per_s: Annotated[float, Doc("output tokens of all users with that number", "tokens/s")]
    usd_per_million_tokens: Annotated[
        float | None, Doc("price of a million output tokens with that number, prompts included", "USD")
    ] = None
    usd_per_million_tokens_low: Annotated[
        float | None, Doc("price of a million output tokens at the low end of the price range", "USD")
    ] = None
    usd_per_million_tokens_high: Annotated[
        float | None, Doc("price of a million output tokens at the high end of the price range", "USD")
    ] = None
    joules_per_token: Annotated[
        float | None, Doc("energy of a generated token with that number, prompts included", "J")
    ] = None
    token_s_with_room_for_head: Annotated[
        float | None,
        Doc("time of a token without drafts on the layout with room for the head; absent without a head", "s"),
    ] = None
    lengths: Annotated[
        tuple[DraftLengthResult, ...], Doc("each number of draft tokens from 1 to one more than the best")
    ]
    tree: Annotated[
        DraftTreeResult | None, Doc("the tree of draft tokens with the highest speed-up; absent if none is faster")
    ]


_PLACES: Final = {SAME: "beside the model", WAFER: "on wafers of its own", HOST: "on the host"}

NOTABLE: Final = 1.02
"""Minimum slowdown of plain decoding, due to SRAM reserved for a draft head, to report."""


def draft_table(plan: DraftPlanResult, place: str = "") -> Table:
    """Return a table of the speed-up for each number of draft tokens that was tried.

    The footer states the acceptance rate of drafts with its source, and the cost per token.

    Args:
        plan: The drafts.
        place: Where drafts are made, in words. If empty, `place_text` describes the place.
    """
    rows = [
        {
            "draft": f"{row.draft_tokens} in a row" + (" (chosen)" if row.draft_tokens == plan.draft_tokens else ""),
            "yield": f"{row.tokens_per_pass:.2f}",
            "drafting": seconds(row.draft_s),
            "pass": seconds(row.verify_s),
            "gain": f"{row.speed_up:.2f} x",
        }
        for row in plan.lengths
    ]
    tree = plan.tree if plan.tree is not None and plan.tree.nodes > plan.tree.depth else None
    if tree is not None:
        rows.append(
            {
                "draft": f"tree of {tree.nodes}, {tree.depth} deep",
                "yield": f"{tree.tokens_per_pass:.2f}",
                "drafting": "",
                "pass": "",
                "gain": f"{tree.speed_up:.2f} x",
            }
        )
    titles = {"yield": "tokens/pass", "drafting": "drafting", "pass": "verifying", "gain": "speed-up"}
    columns = [
        Column(key="draft", title="draft"),
        *(number(key, title, formatter=str) for key, title in titles.items()),
    ]
    users = "" if plan.users == 1 else f" with {plural(plan.users, 'user')}"
    best = f"at best {count(plan.tokens_per_s_per_user)} tokens/s/user" if plan.draft_tokens else "no speed-up"
    note = f"{draft_text(plan)} {place or place_text(plan)}; {best}{users} (evidence grade {plan.grade})"
    cost = []
    if plan.draft_tokens and plan.usd_per_million_tokens is not None:
        cost.append(("cost", _cost_text(plan)))
    room, plain_s = plan.token_s_with_room_for_head, plan.speed_up / plan.tokens_per_s_per_user
    layout = []
    if room is not None:
        text = "figures with drafts are for a layout with room for the draft head, which may differ from the layout "
        text += f"above; a token takes {seconds(room)} on it without drafts"
        if plan.users == 1 and room > NOTABLE * plain_s:
            text += f", and {seconds(plain_s)} on the fastest layout; with more --wafers, the draft head may fit on it"
        layout.append(("layout", text))
    if plan.users > 1:
        layout.append(("times", f"drafting, verifying: of one pass; speed-up: with {plural(plan.users, 'user')}"))
        if plan.draft != HEAD:
            layout.append(("users", "one draft model drafts for all users of a replica, one after another"))
    if plan.draft_tokens:
        layout.append(("room", f"with drafts, the KV caches of {plural(plan.max_users, 'user')} fit"))
    if tree is not None and tree.speed_up > plan.speed_up:
        layout.append(("tree", "only listed: other figures with drafts are for tokens in a row, as in wse serve-sim"))
    footer = (*acceptance_rows(plan), *layout, *([("host", printable(plan.host))] if plan.host else []), *cost)
    return Table(columns=tuple(columns), rows=rows, title="Drafts", note=note, footer=footer)


def draft_sentence(plan: DraftPlanResult | None) -> str:
    """Return a sentence about the speed and cost when drafts are used; "" without drafts."""
    if plan is None:
        return ""
    if not plan.draft_tokens:
        return "Drafts are not faster."
    speed = f"{count(plan.tokens_per_s_per_user)} tokens/s"
    speed += f", {plan.speed_up:.2f} times as many"
    if plan.users > 1:
        speed += f", and all together {count(plan.tokens_per_s)}"
    wafers = f" and {plural(plan.wafers, 'more wafer')} for the draft model" if plan.wafers else ""
    usd = plan.usd_per_million_tokens
    cost = "" if usd is None else f", for {three_figures(usd)} USD/Mtok"
    return f"With drafts{wafers}, each user gets {speed}{cost}; the figures under Results are without drafts."


def _cost_text(plan: DraftPlanResult) -> str:
    """Return a phrase with the cost per token with drafts, its range, and the number of users."""
    assert plan.usd_per_million_tokens is not None
    value, low, high = plan.usd_per_million_tokens, plan.usd_per_million_tokens_low, plan.usd_per_million_tokens_high
    cost = f"{three_figures(value)} USD per million output tokens with drafts"
    if price_range := range_text(low, high, three_figures):
        cost += f" (range of the price: {price_range})"
    draft_wafers = f", {plural(plan.wafers, 'wafer')} of the draft model included" if plan.wafers else ""
    users = f"{plural(plan.users, 'user')}, TTFT {seconds(plan.ttft_s)}"
    return f"{cost}, prefill included, for {users}{draft_wafers}"


def draft_text(place: DraftPlaceResult) -> str:
    """Describe the draft: "a head of one layer", or the name of a draft model."""
    return "a head of one layer" if place.draft == HEAD else printable(place.draft)


def place_text(place: DraftPlaceResult) -> str:
    """Return a phrase for the place where a draft runs, such as "on the model's PEs"."""
    if place.draft == HEAD:
        return "on the model's PEs"
    if place.region is not None:
        region = place.region
        return f"on {region.rows}x{region.cols} free PEs of wafer {region.wafer}"
    is_counted = place.place == WAFER and place.wafers  # no wafer is counted if no drafts are made
    return f"on {plural(place.wafers, 'wafer')} of its own" if is_counted else _PLACES[place.place]


def acceptance_rows(accepted: AcceptanceResult) -> tuple[tuple[str, str], ...]:
    """Return (label, text) pairs that describe how often draft tokens are accepted.

    They state the acceptance probability at each position, the measured draft, and the source.
    """
    shares = " ".join(f"{share:.0%}" for share in accepted.acceptance_by_position)
    lengths = accepted.acceptance_draft_tokens
    has_gaps, known_lengths = lengths[-1] > len(lengths), words_with_and([*map(str, lengths)])
    gaps = f"; measured with {known_lengths} tokens in a row, else interpolated" if has_gaps else ""
    measurement = accepted.acceptance_note or f"measured with {accepted.acceptance_measured_with}"
    if accepted.acceptance_kind == ANY_KIND:
        measurement = accepted.acceptance_measured_with
    return (
        ("accepted", f"{shares} by position, where all before were{gaps} ({accepted.acceptance_grade})"),
        ("draft", printable(measurement)),
        ("source", printable(accepted.source)),
    )

"""DraftPlanResult: the drafts of an estimate, what they rest on, and the table that shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from wse.hardware.number import Grade
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number
from wse.reports.terminal import count, plural, printable, ranged, seconds, three_figures
from wse.serving.drafts.speculation import ANY_KIND, DraftKind
from wse.studies.options.draft import HEAD, HOST, SAME, WAFER


@dataclass(frozen=True, kw_only=True)
class DraftLengthResult(Result):
    """Drafts of one length."""

    draft_tokens: Annotated[int, Doc("tokens that are drafted for each pass")]
    tokens_per_pass: Annotated[float, Doc("tokens that a pass yields, its own one among them")]
    draft_s: Annotated[float, Doc("the time of the draft", "s")]
    verify_s: Annotated[float, Doc("the time of the pass, compiled for so many tokens and one", "s")]
    speed_up: Annotated[float, Doc("times as many tokens a second as without drafts")]


@dataclass(frozen=True, kw_only=True)
class DraftTreeResult(Result):
    """The tree of drafted tokens that gains most."""

    nodes: Annotated[int, Doc("drafted tokens of the tree")]
    depth: Annotated[int, Doc("its longest path, in passes of the draft")]
    tokens_per_pass: Annotated[float, Doc("tokens that a pass yields, its own one among them")]
    speed_up: Annotated[float, Doc("times as many tokens a second as without drafts")]
    parents: Annotated[tuple[int, ...], Doc("the parent of each node; -1: the token before the draft")]
    choices: Annotated[tuple[int, ...], Doc("which of the draft's choices behind its parent each is; 0: the likeliest")]


@dataclass(frozen=True, kw_only=True)
class AcceptanceResult(Result):
    """The acceptance of draft tokens, and the source of its measurement."""

    acceptance: Annotated[str, Doc("whose acceptance is used: a measured model, `typical`, or what was given")]
    acceptance_by_position: Annotated[
        tuple[float, ...],
        Doc("probability that the draft token at each position is accepted, where all before it were"),
    ]
    acceptance_kind: Annotated[
        DraftKind, Doc("kind of draft that it was measured with: `head`, `model`, or `any` where it was given")
    ]
    acceptance_measured_with: Annotated[str, Doc("that draft, in words")]
    acceptance_grade: Annotated[Grade, Doc("how well it is known for the draft that was asked for")]
    acceptance_note: Annotated[
        str | None, Doc("how the draft differs from the one that was measured; absent where it does not")
    ] = None
    source: Annotated[str, Doc("source of the acceptance")]


@dataclass(frozen=True, kw_only=True)
class DraftRegionResult(Result):
    """The PEs of a draft model on a wafer of the model, which leaves them free."""

    wafer: Annotated[int, Doc("index of the wafer")]
    row: Annotated[int, Doc("first row")]
    col: Annotated[int, Doc("first column")]
    rows: Annotated[int, Doc("rows of PEs")]
    cols: Annotated[int, Doc("columns of PEs")]


@dataclass(frozen=True, kw_only=True)
class DraftPlaceResult(Result):
    """The draft model or head, and the PEs, wafers or host that it runs on."""

    draft: Annotated[str, Doc("what drafts: `head`, or a model")]
    place: Annotated[str, Doc("where it runs: `same`, `wafer` or `host`")]
    wafers: Annotated[int, Doc("wafers of the draft model alone, in addition to those of the model")] = 0
    region: Annotated[
        DraftRegionResult | None, Doc("the PEs of a draft model on a wafer of the model; absent elsewhere")
    ] = None
    host: Annotated[str | None, Doc("the host that is assumed; absent where the draft is not on the host")] = None


@dataclass(frozen=True, kw_only=True)
class DraftPlanResult(AcceptanceResult, DraftPlaceResult):
    """The drafts that gain most on this machine for this batch."""

    grade: Annotated[Grade, Doc("the grade of the weakest number that the gain rests on")]
    draft_tokens: Annotated[int, Doc("the best number of draft tokens; 0 where none gains")]
    speed_up: Annotated[float, Doc("tokens/s of a user with that number over tokens/s without drafts")]
    users: Annotated[int, Doc("users at a time, on all replicas together")]
    ttft_s: Annotated[float, Doc("mean time to first token with that number", "s")]
    tokens_per_s_per_user: Annotated[float, Doc("tokens of each user with that number", "tokens/s")]
    tokens_per_s: Annotated[float, Doc("output tokens of all users with that number", "tokens/s")]
    usd_per_million_tokens: Annotated[
        float | None, Doc("price of a million output tokens with that number, prompts included", "USD")
    ] = None
    usd_per_million_tokens_low: Annotated[float | None, Doc("the same at the low end of the price", "USD")] = None
    usd_per_million_tokens_high: Annotated[float | None, Doc("the same at the high end of the price", "USD")] = None
    joules_per_token: Annotated[
        float | None, Doc("energy of a generated token with that number, prompts included", "J")
    ] = None
    token_s_with_room_for_head: Annotated[
        float | None,
        Doc("time of a token without drafts on the layout that also holds the head; absent without a head", "s"),
    ] = None
    lengths: Annotated[tuple[DraftLengthResult, ...], Doc("every number of draft tokens from 1 to one past the best")]
    tree: Annotated[DraftTreeResult | None, Doc("the best tree, by how choices are accepted; absent if none gains")]


_PLACES: Final = {SAME: "beside the model", WAFER: "on wafers of its own", HOST: "on the host"}

NOTABLE: Final = 1.02
"""Time of a token on the layout that holds a head, over that on the model's own, from which it is reported."""


def draft_table(plan: DraftPlanResult, place: str = "") -> Table:
    """Return the table of the numbers of draft tokens that were tried, with what they rest on below.

    Args:
        plan: The drafts.
        place: Where drafts are made, in words; by default as `place_text` has it.
    """
    rows = [
        {
            "draft": f"{row.draft_tokens} in a row" + (" (best)" if row.draft_tokens == plan.draft_tokens else ""),
            "yield": f"{row.tokens_per_pass:.2f}",
            "drafting": seconds(row.draft_s),
            "pass": seconds(row.verify_s),
            "gain": f"{row.speed_up:.2f} x",
        }
        for row in plan.lengths
    ]
    if plan.tree is not None:
        shape = f"tree of {plan.tree.nodes}, {plan.tree.depth} deep"
        tree = {"draft": shape, "yield": f"{plan.tree.tokens_per_pass:.2f}", "gain": f"{plan.tree.speed_up:.2f} x"}
        rows.append({"drafting": "", "pass": "", **tree})
    titles = {"yield": "tokens a pass", "drafting": "drafting", "pass": "checking", "gain": "faster"}
    columns = [
        Column(key="draft", title="draft"),
        *(number(key, title, formatter=str) for key, title in titles.items()),
    ]
    best = f"{count(plan.tokens_per_s_per_user)} tokens/s/user" if plan.draft_tokens else "none gains"
    users = "" if plan.users == 1 else f" for {plural(plan.users, 'user')}"
    note = f"{draft_text(plan)} {place or place_text(plan)}; best{users}: {best} ({plan.grade})"
    cost = []
    if plan.draft_tokens and plan.usd_per_million_tokens is not None:
        cost.append(("cost", _cost_text(plan)))
    room, plain_s = plan.token_s_with_room_for_head, plan.speed_up / plan.tokens_per_s_per_user
    layout = []
    if room is not None and room > NOTABLE * plain_s:
        text = f"with room for the head a token without drafts takes {seconds(room)}, without it {seconds(plain_s)}"
        layout.append(("layout", f"{text}; more --wafers may gain"))
    footer = (*acceptance_rows(plan), *layout, *([("host", printable(plan.host))] if plan.host else []), *cost)
    return Table(columns=tuple(columns), rows=rows, title="Drafts", note=note, footer=footer)


def _cost_text(plan: DraftPlanResult) -> str:
    """Return the price of a token with drafts and its range, with the users and wafers that it is for."""
    assert plan.usd_per_million_tokens is not None
    value, low, high = plan.usd_per_million_tokens, plan.usd_per_million_tokens_low, plan.usd_per_million_tokens_high
    cost = three_figures(value) if low is None or high is None else ranged(value, low, high, three_figures)
    whose = f", {plural(plan.wafers, 'wafer')} of the draft included" if plan.wafers else ""
    return f"{cost} USD per million tokens with drafts, for {plural(plan.users, 'user')}{whose}"


def draft_text(place: DraftPlaceResult) -> str:
    """Return what drafts, in words."""
    return "a head of one layer" if place.draft == HEAD else printable(place.draft)


def place_text(place: DraftPlaceResult) -> str:
    """Return where a draft on wafers runs, in words."""
    if place.draft == HEAD:
        return "on the model's PEs"
    if place.region is not None:
        region = place.region
        return f"on {region.rows}x{region.cols} free PEs of wafer {region.wafer}"
    return f"on {plural(place.wafers, 'wafer')} of its own" if place.place == WAFER else _PLACES[place.place]


def acceptance_rows(accepted: AcceptanceResult) -> tuple[tuple[str, str], ...]:
    """Return the acceptance by position, what it was measured with, and its source, as names and texts."""
    shares = " ".join(f"{share:.0%}" for share in accepted.acceptance_by_position)
    measured = accepted.acceptance_note or f"measured with {accepted.acceptance_measured_with}"
    if accepted.acceptance_kind == ANY_KIND:
        measured = accepted.acceptance_measured_with
    return (
        ("accepted", f"{shares} by position, where all before were ({accepted.acceptance_grade})"),
        ("draft", printable(measured)),
        ("source", printable(accepted.source)),
    )

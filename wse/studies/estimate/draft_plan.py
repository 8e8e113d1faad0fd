"""``drafts`` of an estimate: the best draft length and the best tree of drafts for the machine and the batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Final

from wse.hardware.number import weakest
from wse.report.result import Doc, Result
from wse.report.table import Column, Table, number
from wse.report.terminal import count, printable, seconds
from wse.request.acceptance_option import DraftAcceptance
from wse.request.draft_option import HOST, SAME, WAFER
from wse.request.estimate_request import EstimateRequest
from wse.request.prepare_estimate import PreparedEstimate, prepare_estimate
from wse.search.search import Compilation
from wse.serving.draft_tree import DraftMachine, DraftTree, fastest_tree
from wse.serving.speculation import choice_shares, speed_up
from wse.studies.compile.choose import compile_with_remedies
from wse.studies.estimate.drafting import COST_GRADE, CompiledDraft, best_drafting, head_machine, model_machine
from wse.studies.results.phases import DecodeResult

HEAD: Final = "head"
"""The draft where no model is named: a layer of the model."""

TREE_NODES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Nodes of the trees that are tried."""


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
class DraftPlanResult(Result):
    """The drafts that gain most on this machine for this batch."""

    acceptance: Annotated[str, Doc("whose acceptance is taken: a measured model, or what was given")]
    source: Annotated[str, Doc("where it is from")]
    grade: Annotated[str, Doc("the grade of the weakest number that the gain rests on")]
    draft: Annotated[str, Doc("what drafts: `head`, or a model")]
    place: Annotated[str, Doc("where it does: `same`, `wafer` or `host`")]
    draft_tokens: Annotated[int, Doc("the best length of a draft; 0 where none gains")]
    speed_up: Annotated[float, Doc("times as many tokens a second as without drafts, with that length")]
    tokens_per_s_per_user: Annotated[float, Doc("tokens that each user gets with that length", "tokens/s")]
    lengths: Annotated[tuple[DraftLengthResult, ...], Doc("every length from 1 to one past the best")]
    tree: Annotated[DraftTreeResult | None, Doc("the best tree, by how choices are accepted; absent if none gains")]


def draft_plan(
    prepared: PreparedEstimate, compilation: Compilation, decode: DecodeResult | None
) -> DraftPlanResult | None:
    """The best drafts of a request that asks for them; None where it does not, or decodes nothing.

    Raises:
        BadInput and its kinds: the draft model cannot be used, or has another vocabulary.
        DoesNotFit: it fits no number of wafers.
    """
    if prepared.acceptance is None or decode is None:
        return None
    draft, place = drafter(prepared)
    return plan_of(prepared.acceptance, draft_machine(prepared, compilation, decode), draft, place)


def drafter(prepared: PreparedEstimate) -> tuple[str, str]:
    """The name of a request's draft, and the place where it is made."""
    request = prepared.request
    return HEAD if request.draft_model is None else str(request.draft_model), request.draft_place or SAME


def draft_machine(prepared: PreparedEstimate, compilation: Compilation, decode: DecodeResult) -> DraftMachine:
    """The times of a request's model and of its draft; ``decode`` is of its estimate. Errors as of `draft_plan`."""
    draft, place = drafter(prepared)
    if draft == HEAD:
        return head_machine(prepared, compilation, decode)
    return model_machine(prepared, compilation, compiled_draft(prepared, draft, place))


def plan_of(acceptance: DraftAcceptance, machine: DraftMachine, draft: str, place: str) -> DraftPlanResult:
    """The best drafts by an acceptance for a machine, whichever it is."""
    curve = acceptance.curve
    best = best_drafting(curve, machine)
    tree, gain = fastest_tree(acceptance.shares, machine, TREE_NODES)
    most = min(best.draft_tokens + 1, max(curve.draft_tokens))
    plain_s = machine.verify_s(1)
    return DraftPlanResult(
        acceptance=curve.model,
        source=curve.source,
        grade=weakest((curve.grade, choice_shares().grade, COST_GRADE)),
        draft=draft,
        place=place,
        draft_tokens=best.draft_tokens,
        speed_up=best.gain,
        tokens_per_s_per_user=best.gain / machine.token_s,
        lengths=tuple(
            DraftLengthResult(
                draft_tokens=n,
                tokens_per_pass=curve.at(n),
                draft_s=n * machine.draft_s(1),
                verify_s=machine.check_s(n),
                speed_up=speed_up(curve.at(n), n, best.draft_cost, machine.check_s(n) / plain_s, best.shared_cost),
            )
            for n in range(1, most + 1)
        ),
        tree=None if tree is None else _tree_result(tree, gain),
    )


def _tree_result(tree: DraftTree, gain: float) -> DraftTreeResult:
    return DraftTreeResult(
        nodes=len(tree.parents),
        depth=tree.depth,
        tokens_per_pass=tree.tokens_per_pass,
        speed_up=gain,
        parents=tree.parents,
        choices=tree.choices,
    )


def compiled_draft(target: PreparedEstimate, name: str, place: str) -> CompiledDraft:
    """The draft model of a request, compiled for the same lengths and users on as few wafers as hold it.

    Raises:
        BadInput and its kinds: the draft model cannot be used.
        DoesNotFit: it fits no number of wafers.
    """
    request = replace(
        target.request,
        model=name,
        wafers=None,
        mapping=EstimateRequest(model=name).mapping,
        region=None,
        dtype=None,
        activations=None,
        prompt_len=target.prompt_len,
        new_tokens=target.new_tokens,
        verify_tokens=None,
        draft=None,
        draft_model=None,
        draft_place=None,
        sensitivity=False,
        trace=None,
    )
    prepared = prepare_estimate(request)
    return CompiledDraft(prepared=prepared, compilation=compile_with_remedies(prepared), place=place)


_PLACES: Final = {SAME: "on the model's wafer", WAFER: "on another wafer", HOST: "on the host"}


def draft_table(plan: DraftPlanResult, place: str = "") -> Table:
    """The drafts that were tried, with the time of each and what it gains; ``place`` of GPUs, in words."""
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
        rows.append(
            {
                "draft": shape,
                "yield": f"{plan.tree.tokens_per_pass:.2f}",
                "drafting": "",
                "pass": "",
                "gain": f"{plan.tree.speed_up:.2f} x",
            }
        )
    who = "a head of one layer" if plan.draft == HEAD else printable(plan.draft)
    titles = {"yield": "tokens a pass", "drafting": "drafting", "pass": "checking", "gain": "faster"}
    columns = [
        Column(key="draft", title="draft"),
        *(number(key, title, formatter=str) for key, title in titles.items()),
    ]
    best = f"{count(plan.tokens_per_s_per_user)} tokens/s/user" if plan.draft_tokens else "none gains"
    where, whose = place or _PLACES[plan.place], printable(plan.acceptance)
    note = f"{who} {where}, accepted as of {whose} ({plan.grade}); best: {best}"
    return Table(columns=tuple(columns), rows=rows, title="Drafts", note=note)

"""``rewrites`` of a result: the rewrites of a layer's steps that were tried, with the cycles that each saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from wse.compiler.options import FUSED, RELEASED, Options
from wse.compiler.rewrites.catalogue import known_rewrites
from wse.compiler.search.rewrite_search import RewriteTrial
from wse.models.spec import ModelSpec
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number
from wse.reports.terminal import short_number


@dataclass(frozen=True, kw_only=True)
class RewriteResult(Result):
    """A rewrite of the steps of a layer."""

    name: Annotated[str, Doc("rewrite")]
    used: Annotated[bool, Doc("whether the Program has it")]
    setting: Annotated[int | None, Doc("its setting; absent where it has none, or is not used")] = None
    saved_cycles: Annotated[
        float | None, Doc("what a generated token, or the pass, saves by it, with all others that are used", "cycles")
    ] = None
    reason: Annotated[str | None, Doc("why it is not used")] = None


def rewrites_result(
    spec: ModelSpec, options: Options, paying: Sequence[RewriteTrial]
) -> tuple[RewriteResult, ...] | None:
    """Return the rewrites of a request in the order in which they are applied; None for the released schedule."""
    if options.schedule == RELEASED:
        return None
    used = {one.name: one for one in paying}
    results = []
    for name, rewrite in known_rewrites().items():
        if name in used:
            setting = used[name].setting if len(rewrite.settings) > 1 else None
            saved = used[name].saved_cycles
            results.append(RewriteResult(name=name, used=True, setting=setting, saved_cycles=saved))
            continue
        reason = rewrite.invalid(spec, options) or (
            "it saves no cycles" if options.schedule == FUSED else "it was not asked for"
        )
        results.append(RewriteResult(name=name, used=False, reason=reason))
    return tuple(results)


def rewrites_table(rewrites: tuple[RewriteResult, ...], cycles: float, saver: str = "token") -> Table:
    """The rewrites of a layer's steps: what a token or a pass of so many cycles saves by each, or why it is unused."""
    columns = (
        Column(key="name", title="rewrite", cell=lambda row: row.name + (f" by {row.setting}" if row.setting else "")),
        number("saved_cycles", f"cycles a {saver}", short_number),
        Column(key="reason", title="", cell=lambda row: "" if row.used else f"not used: {row.reason}", wraps=True),
    )
    note = "what each saves, with all others that are used"
    footer = ((saver, f"{short_number(cycles)} cycles with them"),)
    return Table(
        columns=columns,
        rows=rewrites,
        title="Rewrites of a layer's steps" if saver == "token" else f"Rewrites of a layer's steps in the {saver}",
        note=note,
        footer=footer,
    )

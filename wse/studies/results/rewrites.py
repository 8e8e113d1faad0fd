"""Result field ``rewrites``: rewrites of a layer's steps, with the cycles that each saves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from wse.compiler.options import BASELINE, OPTIMIZED
from wse.reports.number_text import short_number
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number

if TYPE_CHECKING:
    from wse.compiler.options import Options
    from wse.compiler.search.rewrite_search import RewriteTrial
    from wse.models.spec import ModelSpec


class RewriteResult(Result):
    """A rewrite (a cycle-saving change to a layer's steps), and whether it is used."""

    name: Annotated[str, Doc("name of the rewrite")]
    used: Annotated[bool, Doc("whether the rewrite is used")]
    setting: Annotated[int | None, Doc("setting of the rewrite; absent if it has none or is not used")] = None
    saved_cycles: Annotated[
        float | None,
        Doc(
            "cycles of a token or pass that it saves, with all other used rewrites in place; absent if not computed",
            "cycles",
        ),
    ] = None
    reason: Annotated[str | None, Doc("why the rewrite is not used")] = None


def rewrites_result(
    spec: ModelSpec, options: Options, used_rewrites: Sequence[RewriteTrial]
) -> tuple[RewriteResult, ...] | None:
    """List all known rewrites, with the cycles that each saves or the reason why it is not used.

    A rewrite is a change to a layer's steps that saves cycles.

    Args:
        spec: The model.
        options: Compiler options.
        used_rewrites: The rewrites in use, with the cycles that they save.

    Returns:
        The rewrites in order of application, or None for the baseline schedule, which uses none.
    """
    from wse.compiler.rewrites.catalogue import known_rewrites  # slow to load, and not needed to read a result

    if options.schedule == BASELINE:
        return None
    trial_by_name = {trial.name: trial for trial in used_rewrites}
    results = []
    for name, rewrite in known_rewrites().items():
        if name in trial_by_name:
            setting = trial_by_name[name].setting if len(rewrite.settings) > 1 else None
            saved_cycles = trial_by_name[name].saved_cycles
            results.append(RewriteResult(name=name, used=True, setting=setting, saved_cycles=saved_cycles))
            continue
        reason = rewrite.invalid(spec, options) or (
            "it saves too few cycles" if options.schedule == OPTIMIZED else "it was not asked for"
        )
        results.append(RewriteResult(name=name, used=False, reason=reason))
    return tuple(results)


def rewrites_table(rewrites: tuple[RewriteResult, ...], cycles: float, saver: str = "token") -> Table:
    """Build the table of rewrites: the cycles that each saves, or why it is not used.

    A rewrite is a change to a layer's steps that saves cycles.

    Args:
        rewrites: The rewrites.
        cycles: Cycles per token or pass with all rewrites in use.
        saver: Unit to which ``cycles`` and the savings refer: "token" or "pass".
    """
    columns = (
        Column(key="name", title="rewrite", cell=lambda row: row.name + (f" by {row.setting}" if row.setting else "")),
        number("saved_cycles", f"cycles a {saver}", short_number),
        Column(key="reason", title="", cell=lambda row: "" if row.used else f"not used: {row.reason}", wraps=True),
    )
    note = "cycles that each saves, with all other used rewrites in place"
    footer = ((saver, f"{short_number(cycles)} cycles with them"),)
    return Table(
        columns=columns,
        rows=rewrites,
        title="Rewrites of a layer's steps" if saver == "token" else f"Rewrites of a layer's steps in the {saver}",
        note=note,
        footer=footer,
    )

"""The tables of a scenario: published figures, combinations that agree, what is ruled out, tiers and arrivals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from wse.reports.table import Column, Table, number
from wse.reports.terminal import count, percent, printable, seconds
from wse.studies.compare.curve.tables import price
from wse.studies.compare.result import price_footer
from wse.studies.estimate.drafts.result import acceptance_rows
from wse.studies.scenario.figures import FIGURES
from wse.studies.scenario.judge import published_text
from wse.studies.scenario.result import (
    CONSISTENT,
    NO_DRAFTS,
    RULED_OUT,
    AgainstResult,
    CombinationResult,
    PublishedResult,
    ScenarioResult,
    ScenarioSummary,
    SpeculationResult,
)

SHORT: Final = 16
"""Rows of a table without ``--detail``."""
FEW: Final = 12
"""Combinations that are all shown."""

Footer = Sequence[tuple[str, str]]
"""Lines below a table: names and texts."""


def scenario_tables(result: ScenarioResult, *, detail: bool) -> tuple[Table, ...]:
    """The tables of a scenario; all rows with ``detail``."""
    combinations = result.combinations
    possible = [one for one in combinations if one.prediction is not None]
    few = detail or len(combinations) <= FEW
    prices = price_footer(result.economics)
    shown = possible if few else [one for one in possible if one.agreement != RULED_OUT]
    ruled = [one for one in combinations if one.agreement == RULED_OUT and (few or one not in shown)]
    return (
        *([_published_table(result)] if result.published else []),
        *([_tiers_table(shown, prices, detail=few)] if any(one.tiers for one in shown) else []),
        *([_combinations_table(shown, prices, detail=few)] if shown and not any(one.tiers for one in shown) else []),
        *([_drafts_table(possible)] if any(one.drafts != NO_DRAFTS for one in possible) else []),
        *([_arrivals_table(possible, prices)] if any(one.arrived for one in possible) else []),
        *([_against_table(result)] if detail and result.published else []),
        *([_ruled_table(ruled, detail=detail)] if ruled else []),
    )


def scenarios_table(scenarios: Sequence[ScenarioSummary]) -> Table:
    """The scenarios that come with wse."""
    columns = (
        Column(key="name"),
        Column(key="title", wraps=True, min_width=24),
        Column(key="question", wraps=True, min_width=32),
    )
    return Table(columns=columns, rows=scenarios, title="Scenarios", note="wse scenario NAME, or a file of your own")


def _published_table(result: ScenarioResult) -> Table:
    """Each published figure with the prediction that is nearest to it, of combinations that agree if any does."""
    rows = []
    for index, figure in enumerate(result.published):
        pairs = [(one, row) for one in result.combinations for row in one.against or () if row.published == index]
        agreeing = [pair for pair in pairs if pair[0].agreement == CONSISTENT]
        nearest = min(agreeing or pairs, key=lambda pair: abs(pair[1].error_pct), default=None)
        rows.append(_published_row(figure, pairs, nearest))
    columns = (
        Column(key="figure", title="figure", wraps=True, min_width=16),
        Column(key="published", title="published", wraps=True, min_width=14),
        number("predicted", "predicted", str),
        number("error", "error", str),
        Column(key="nearest", title="by", wraps=True, min_width=24),
        number("agree", "agree", str),
        Column(key="confidence", title="sure"),
        Column(key="by", title="from", priority=1),
        Column(key="date", title="date", priority=2),
    )
    reasons = dict.fromkeys((one.confidence, one.reason) for one in result.published)
    return Table(
        columns=columns,
        rows=rows,
        title="Predicted against published",
        note="of those that agree the nearest; sources with --json",
        footer=tuple((f"sure: {name}", printable(reason)) for name, reason in reasons),
    )


def _published_row(
    figure: PublishedResult,
    pairs: Sequence[tuple[CombinationResult, AgainstResult]],
    nearest: tuple[CombinationResult, AgainstResult] | None,
) -> dict[str, str]:
    kind = FIGURES[figure.figure]
    found = (
        {}
        if nearest is None
        else {
            "predicted": kind.text(nearest[1].predicted),
            "error": f"{nearest[1].error_pct:+.0f} %",
            "nearest": nearest[0].settings,
        }
    )
    within = sum(row.agreement == CONSISTENT for _, row in pairs)
    return {
        "figure": kind.title,
        "published": published_text(figure),
        "agree": f"{within:,} of {len(pairs):,}",
        "confidence": figure.confidence,
        "by": figure.by,
        "date": "" if figure.date is None else figure.date,
        **found,
    }


def _gain(one: CombinationResult) -> str:
    """What the drafts of a combination gain."""
    drafts = None if one.prediction is None else one.prediction.speculation
    return "" if drafts is None else f"{drafts.gain:.2f} x"


def _draft_tokens(one: CombinationResult) -> str:
    drafts = None if one.prediction is None else one.prediction.speculation
    return "" if drafts is None else str(drafts.draft_tokens)


def _speed(value: float) -> str:
    return count(value) if value >= 100 else f"{value:.3g}"


def _prediction(key: str, title: str, text: Any, **settings: Any) -> Column:
    """A column of a field of predictions."""
    return number(key, title, cell=lambda one: text(getattr(one.prediction, key)), **settings)


_SUBJECT: Final = (
    Column(key="model", title="model", formatter=printable),
    Column(key="dtype", title="as"),
    Column(key="machine", title="machine", formatter=printable, wraps=True),
    number("chips", "chips", priority=1),
)
_AGREEMENT: Final = Column(key="agreement", title="agrees", formatter=lambda value: value, priority=1)
_DRAFTS: Final = (
    Column(key="drafts", title="drafts", formatter=printable, wraps=True),
    number("draft_tokens", "length", cell=_draft_tokens, priority=4),
    number("gain", "gain", cell=_gain, priority=3),
)


def _combinations_table(shown: Sequence[CombinationResult], prices: Footer, *, detail: bool) -> Table:
    """Combinations with what they are predicted to give, the fastest first."""
    rows = sorted(shown, key=lambda one: -(one.prediction.tokens_per_s_per_user if one.prediction else 0))
    several = len({one.prompt_len for one in rows}) > 1
    columns = (
        *_SUBJECT,
        *([number("prompt_len", "prompt")] if several else []),
        *_DRAFTS,
        _prediction("users", "users", count, priority=2),
        _prediction("tokens_per_s_per_user", "a user", _speed),
        _prediction("ttft_s", "first token", seconds, priority=3),
        _prediction("usd_per_million_tokens", "USD/Mtok", price, priority=2),
        _prediction("joules_per_token", "J/token", _speed, priority=4),
        _prediction("grade", "grade", str, priority=3),
        _AGREEMENT,
    )
    kept = rows if detail else rows[:SHORT]
    return Table(
        columns=columns,
        rows=kept,
        title="Combinations" if detail else "Combinations that agree",
        note="a user: tokens/s of a user",
        footer=(*prices, *_more(rows, kept)),
    )


def _tiers_table(shown: Sequence[CombinationResult], prices: Footer, *, detail: bool) -> Table:
    """Combinations with their ordinary and their fast tier, the least cost first."""

    def column(key: str, title: str, text: Any, **settings: Any) -> Column:
        return number(key, title, cell=lambda one: text(getattr(one.tiers, key)), **settings)

    rows = sorted(shown, key=lambda one: one.tiers.cost_ratio if one.tiers else 0)
    columns = (
        *_SUBJECT,
        *_DRAFTS,
        column("ordinary_users", "users", count),
        column("ordinary_tokens_per_s_per_user", "each", _speed),
        column("fast_users", "fast", count),
        column("fast_tokens_per_s_per_user", "each", _speed),
        column("speed_up", "faster", "{:.2f} x".format),
        column("cost_ratio", "dearer", "{:.1f} x".format),
        column("ordinary_usd_per_million_tokens", "USD/Mtok", price, priority=2),
        column("fast_usd_per_million_tokens", "fast USD/Mtok", price, priority=2),
        _AGREEMENT,
    )
    kept = rows if detail else rows[:SHORT]
    return Table(
        columns=columns,
        rows=kept,
        title="Tiers" if detail else "Tiers that agree",
        note="users of the ordinary and of the fast one; each: tokens/s of one of them",
        footer=(*prices, *_more(rows, kept)),
    )


def _drafts_table(possible: Sequence[CombinationResult]) -> Table:
    """Return the acceptance of each kind of drafts: by position, what it was measured with, and its source."""
    rows: dict[tuple[str, ...], SpeculationResult] = {}
    for one in possible:
        drafts = None if one.prediction is None else one.prediction.speculation
        if drafts is not None:
            rows.setdefault((one.drafts, *(text for _, text in acceptance_rows(drafts))), drafts)
    names = {"drafts": "drafts", "accepted": "accepted", "draft": "measured", "source": "source"}
    columns = tuple(Column(key=key, title=title, formatter=printable, wraps=True) for key, title in names.items())
    texts = [{"drafts": name} | dict(acceptance_rows(drafts)) for (name, *_), drafts in rows.items()]
    return Table(columns=columns, rows=texts, title="Drafts")


def _arrivals_table(possible: Sequence[CombinationResult], prices: Footer) -> Table:
    """Requests that arrive, at each combination that serves them."""
    rows = [
        {"settings": one.settings, "tier": arrived.tier or ""} | arrived.to_dict()
        for one in possible
        for arrived in one.arrived or ()
    ]
    columns = (
        Column(key="settings", title="combination", wraps=True),
        Column(key="tier", title="tier"),
        number("users", "users"),
        number("capacity_requests_per_s", "requests/s", _speed, priority=1),
        number("offered", "load", percent),
        number("ttft_p50_s", "first token", seconds),
        number("ttft_p99_s", "99 %", seconds),
        number("tokens_per_s_per_user", "a user", _speed),
        number("usd_per_million_tokens", "USD/Mtok", price),
        number("goodput", "in time", percent, priority=1),
    )
    note = "as of wse serve-sim; a user: median"
    return Table(columns=columns, rows=rows, title="Requests that arrive", note=note, footer=prices)


def _against_table(result: ScenarioResult) -> Table:
    """Every prediction against every published figure."""
    rows = [
        {
            "settings": one.settings,
            "users": one.users,
            "figure": FIGURES[result.published[row.published].figure].title,
            "predicted": FIGURES[result.published[row.published].figure].text(row.predicted),
            "published": published_text(result.published[row.published]),
            "error_pct": row.error_pct,
            "agreement": row.agreement,
        }
        for one in result.combinations
        for row in one.against or ()
    ]
    columns = (
        Column(key="settings", title="combination", wraps=True, min_width=24),
        number("users", "users", str),
        Column(key="figure", title="figure", wraps=True),
        number("predicted", "predicted", str),
        number("published", "published", str),
        number("error_pct", "error", "{:+.0f} %".format),
        Column(key="agreement", title="agrees"),
    )
    return Table(columns=columns, rows=rows, title="All predictions against all published figures")


def _ruled_table(ruled: Sequence[CombinationResult], *, detail: bool) -> Table:
    """What is ruled out, and by what; what cannot be once for all its drafts and users."""
    rows = {(one.model, one.dtype, one.machine, one.ruled_out_by) if _is_whole(one) else id(one): one for one in ruled}
    columns = (
        *_SUBJECT,
        Column(
            key="drafts",
            title="drafts",
            cell=lambda one: "" if _is_whole(one) else printable(one.drafts),
            wraps=True,
            priority=1,
        ),
        number("users", "users", cell=lambda one: "" if _is_whole(one) else str(one.users), priority=2),
        Column(key="ruled_out_by", title="by", formatter=_reasons, wraps=True, min_width=30),
    )
    every = [*rows.values()]
    kept = every if detail else every[:SHORT]
    return Table(columns=columns, rows=kept, title="Ruled out", footer=_more(every, kept))


def _is_whole(one: CombinationResult) -> bool:
    """Whether a model cannot be on a machine, whatever its drafts and users."""
    return one.prediction is None


def _reasons(reasons: Sequence[str]) -> str:
    """What rules a combination out, each up to its remedy; of what does not fit without its bytes by use."""
    return printable("; ".join(reason.partition("; ")[0].partition(": code ")[0] for reason in reasons))


def _more(rows: Sequence[Any], kept: Sequence[Any]) -> tuple[tuple[str, str], ...]:
    return (("...", f"and {len(rows) - len(kept)} more with --detail"),) if len(rows) > len(kept) else ()

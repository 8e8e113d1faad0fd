"""The tables of a scenario: published figures, the combinations that agree, their drafts, and what is ruled out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from wse.reports.table import Column, Table, number
from wse.reports.terminal import count, printable, seconds, three_figures
from wse.studies.compare.curve.tables import price
from wse.studies.compare.result import price_footer
from wse.studies.estimate.drafts.result import acceptance_rows
from wse.studies.scenario.figures import FIGURES, nearest_of, published_text
from wse.studies.scenario.form import CONSISTENT, NO_DRAFTS, RULED_OUT

if TYPE_CHECKING:
    from wse.studies.scenario.result import CombinationResult, ScenarioResult, ScenarioSummary

SHORT: Final = 16
"""Rows of a table without ``--detail``."""
FEW: Final = 12
"""Combinations that are all shown."""

_SUBJECT: Final = (
    Column(key="model", title="model", formatter=printable),
    Column(key="dtype", title="as"),
    Column(key="machine", title="machine", formatter=printable, wraps=True),
    number("chips", "chips", priority=1),
)
_AGREEMENT: Final = Column(key="agreement", title="agrees", priority=1)


def _inside(part: str, key: str, title: str, formatter: Any = count, **settings: Any) -> Column:
    """Return a column of a field of a part of combinations."""

    def cell(one: CombinationResult) -> str:
        value = getattr(getattr(one, part), key, None)
        return "" if value is None else str(formatter(value))

    return number(f"{part}.{key}", title, cell=cell, **settings)


def _of_drafts(key: str, title: str, formatter: Any, priority: int) -> Column:
    """Return a column of a field of the drafts of combinations."""

    def cell(one: CombinationResult) -> str:
        drafts = None if one.prediction is None else one.prediction.speculation
        return "" if drafts is None else str(formatter(getattr(drafts, key)))

    return number(key, title, cell=cell, priority=priority)


_DRAFTS: Final = (
    Column(key="drafts", title="drafts", formatter=printable, wraps=True),
    _of_drafts("draft_tokens", "length", str, 4),
    _of_drafts("gain", "gain", "{:.2f} x".format, 3),
)
_PREDICTIONS: Final = (
    _inside("prediction", "users", "users", priority=2),
    _inside("prediction", "tokens_per_s_per_user", "a user", three_figures),
    _inside("prediction", "ttft_s", "first token", seconds, priority=3),
    _inside("prediction", "usd_per_million_tokens", "USD/Mtok", price, priority=2),
    _inside("prediction", "joules_per_token", "J/token", three_figures, priority=4),
    _inside("prediction", "grade", "grade", str, priority=3),
)
_TIERS: Final = (
    _inside("tiers", "ordinary_users", "users"),
    _inside("tiers", "ordinary_tokens_per_s_per_user", "each", three_figures),
    _inside("tiers", "fast_users", "fast"),
    _inside("tiers", "fast_tokens_per_s_per_user", "each", three_figures),
    _inside("tiers", "speed_up", "faster", "{:.2f} x".format),
    _inside("tiers", "cost_ratio", "dearer", "{:.1f} x".format),
    _inside("tiers", "ordinary_usd_per_million_tokens", "USD/Mtok", price, priority=2),
    _inside("tiers", "fast_usd_per_million_tokens", "fast USD/Mtok", price, priority=2),
)


def scenario_tables(result: ScenarioResult, *, detail: bool) -> tuple[Table, ...]:
    """Return the tables of a scenario; all rows with ``detail``."""
    possible = [one for one in result.combinations if one.prediction is not None]
    every = detail or len(result.combinations) <= FEW
    shown = possible if every else [one for one in possible if one.agreement != RULED_OUT]
    ruled = [one for one in result.combinations if one.agreement == RULED_OUT and (every or one not in shown)]
    tables = (
        _published_table(result),
        _combinations_table(shown, price_footer(result.economics), every=every),
        _drafts_table(possible),
        _against_table(result if detail else None),
        _ruled_table(ruled, every=detail),
    )
    return tuple(table for table in tables if table.rows)


def scenarios_table(scenarios: Sequence[ScenarioSummary]) -> Table:
    """Return the scenarios that come with wse."""
    columns = (
        Column(key="name"),
        Column(key="title", wraps=True, min_width=24),
        Column(key="question", wraps=True, min_width=32),
    )
    return Table(columns=columns, rows=scenarios, title="Scenarios", note="wse scenario NAME, or a file of your own")


def _published_table(result: ScenarioResult) -> Table:
    """Return each published figure with the prediction that is nearest to it."""
    columns = (
        Column(key="figure", title="figure", wraps=True, min_width=16),
        Column(key="published", title="published", wraps=True, min_width=14),
        number("predicted", "predicted", str),
        number("error_pct", "error", "{:+.0f} %".format),
        Column(key="nearest", title="by", wraps=True, min_width=24),
        number("agree", "agree", str),
        Column(key="confidence", title="sure"),
        Column(key="by", title="from", priority=1),
        Column(key="date", title="date", priority=2),
    )
    rows = []
    for index, published in enumerate(result.published):
        of_it = [row for one in result.combinations for row in one.against or () if row.published == index]
        row = published.to_dict() | {
            "figure": FIGURES[published.figure].title,
            "published": published_text(published),
            "agree": f"{sum(row.agreement == CONSISTENT for row in of_it):,} of {len(of_it):,}",
        }
        if nearest := nearest_of(result.combinations, index):
            predicted = FIGURES[published.figure].text(nearest[1].predicted)
            row |= {"nearest": nearest[0].settings, "predicted": predicted, "error_pct": nearest[1].error_pct}
        rows.append(row)
    reasons = dict.fromkeys((one.confidence, one.reason) for one in result.published)
    return Table(
        columns=columns,
        rows=rows,
        title="Predicted against published",
        note="of those that agree the nearest; sources with --json",
        footer=tuple((f"sure: {name}", printable(reason)) for name, reason in reasons),
    )


def _combinations_table(shown: Sequence[CombinationResult], prices: Sequence[tuple[str, str]], *, every: bool) -> Table:
    """Return combinations with their tiers, the cheapest speed first, or with what they give, the fastest first."""
    has_tiers = any(one.tiers for one in shown)
    rows = sorted(shown, key=lambda one: one.tiers.cost_ratio if one.tiers else -one.speed)
    prompts = [number("prompt_len", "prompt")] if len({one.prompt_len for one in rows}) > 1 else []
    others = [
        Column(key=key, title=key, cell=lambda one, key=key: str((one.other or {}).get(key, "")))  # type: ignore[misc]
        for key in dict.fromkeys(key for one in rows for key in one.other or ())
    ]
    title = "Tiers" if has_tiers else "Combinations"
    kept = rows if every else rows[:SHORT]
    return Table(
        columns=(*_SUBJECT, *prompts, *others, *_DRAFTS, *(_TIERS if has_tiers else _PREDICTIONS), _AGREEMENT),
        rows=kept,
        title=title if every else f"{title} that agree",
        note="users of the ordinary and of the fast one; each: tokens/s of one of them"
        if has_tiers
        else "a user: tokens/s of a user",
        footer=(*prices, *_more(rows, kept)),
    )


def _drafts_table(possible: Sequence[CombinationResult]) -> Table:
    """Return the acceptance of each kind of drafts: by position, what it was measured with, and its source."""
    rows: dict[str, dict[str, str]] = {}
    for one in possible:
        if one.drafts != NO_DRAFTS and one.prediction is not None and one.prediction.speculation is not None:
            row = {"drafts": one.drafts} | dict(acceptance_rows(one.prediction.speculation))
            rows.setdefault(str(row), row)
    names = {"drafts": "drafts", "accepted": "accepted", "draft": "measured", "source": "source"}
    columns = tuple(Column(key=key, title=title, formatter=printable, wraps=True) for key, title in names.items())
    return Table(columns=columns, rows=[*rows.values()], title="Drafts")


def _against_table(result: ScenarioResult | None) -> Table:
    """Return every prediction against every published figure."""
    rows = []
    for one in () if result is None else result.combinations:
        for row in one.against or ():
            published = result.published[row.published]  # type: ignore[union-attr]
            figure = FIGURES[published.figure]
            texts = {"figure": figure.title, "predicted": figure.text(row.predicted)}
            rows.append(
                row.to_dict()
                | texts
                | {"settings": one.settings, "users": one.users, "published": published_text(published)}
            )
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


def _ruled_table(ruled: Sequence[CombinationResult], *, every: bool) -> Table:
    """Return what is ruled out, and by what; a model that cannot be on a machine once for all drafts and users."""
    rows = [
        one.to_dict() | ({"drafts": None, "users": None} if one.prediction is None else {}) | {"by": _reasons(one)}
        for one in ruled
    ]
    columns = (
        *_SUBJECT,
        Column(key="drafts", title="drafts", formatter=printable, wraps=True, priority=1),
        number("users", "users", priority=2),
        Column(key="by", title="by", wraps=True, min_width=30),
    )
    distinct = [*{str([row.get(column.key) for column in columns]): row for row in rows}.values()]
    kept = distinct if every else distinct[:SHORT]
    return Table(columns=columns, rows=kept, title="Ruled out", footer=_more(distinct, kept))


def _reasons(one: CombinationResult) -> str:
    """Return what rules a combination out, each up to its remedy; of what does not fit without its bytes by use."""
    return printable("; ".join(reason.partition("; ")[0].partition(": code ")[0] for reason in one.ruled_out_by or ()))


def _more(rows: Sequence[Any], kept: Sequence[Any]) -> tuple[tuple[str, str], ...]:
    return (("...", f"and {len(rows) - len(kept)} more with --detail"),) if len(rows) > len(kept) else ()

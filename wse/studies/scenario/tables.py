"""Tables of a scenario: published figures, combinations that agree or are ruled out, and drafts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from wse.reports.number_text import seconds, three_figures
from wse.reports.table import Column, Table, number
from wse.reports.terminal import printable
from wse.serving.goal import plain_speed_footer
from wse.studies.compare.result import price_footer
from wse.studies.estimate.drafts.result import acceptance_rows
from wse.studies.scenario.figures import FIGURES, nearest_of, published_text, published_texts
from wse.studies.scenario.form import CONSISTENT, NEAR, NO_DRAFTS, RULED_OUT

if TYPE_CHECKING:
    from wse.studies.scenario.result import CombinationResult, ScenarioResult, ScenarioSummary

SHORT: Final = 16
"""Maximum number of rows per table without ``--detail``."""
FEW: Final = 12
"""Maximum number of combinations up to which all are shown without ``--detail``."""
_REMEDY: Final = re.compile(r"; (?![^(]*\))|: code ")
"""Start of the remedies or of a list of memory uses in a reason: the first one outside brackets."""

_SUBJECT: Final = (
    Column(key="model", title="model", formatter=printable),
    Column(key="dtype", title="as"),
    Column(key="machine_text", title="machine", formatter=printable, wraps=True),
    number("chips", "chips", priority=1),
)
_WORDS: Final = {CONSISTENT: "yes", NEAR: "nearly", RULED_OUT: "no"}
_AGREEMENT: Final = Column(key="agreement", title="agrees", formatter=_WORDS.__getitem__)
_DRAFTS: Final = (
    Column(key="drafts_text", title="drafts", formatter=printable, wraps=True, min_width=10),
    number("prediction.speculation.draft_tokens", "length", str, priority=4),
    number("prediction.speculation.gain", "gain", "{:.2f} x".format, priority=3),
)
_PREDICTIONS: Final = (
    number("prediction.users", "users", priority=2),
    number("prediction.tokens_per_s_per_user", "a user", three_figures),
    number("prediction.ttft_s", "remote TTFT", seconds, priority=3),
    number("prediction.usd_per_million_tokens", "USD/Mtok", three_figures, priority=1),
    number("prediction.joules_per_token", "J/token", three_figures, priority=4),
    number("prediction.grade", "grade", str, priority=3),
)
_TIERS: Final = (
    number("tiers.plain_users", "users"),
    number("tiers.plain_tokens_per_s_per_user", "tok/s", three_figures),
    number("tiers.fast_users", "fast users", priority=1),
    number("tiers.fast_tokens_per_s_per_user", "fast tok/s", three_figures, priority=1),
    number("tiers.speed_up", "speed", "{:.2f} x".format),
    number("tiers.cost_ratio", "cost", "{:.1f} x".format),
    number("tiers.plain_usd_per_million_tokens", "USD/Mtok", three_figures, priority=2),
    number("tiers.fast_usd_per_million_tokens", "fast USD/Mtok", three_figures, priority=2),
)


def scenario_tables(result: ScenarioResult, *, detail: bool) -> tuple[Table, ...]:
    """Build the tables of a scenario: published figures, and predictions for all settings.

    Tables without rows are omitted.

    Args:
        result: Answer of the scenario: published figures, and all combinations of settings.
        detail: Whether to show all rows, and a table of all predictions against all published
            figures.
    """
    possible = [combination for combination in result.combinations if combination.prediction is not None]
    shows_all = detail or len(result.combinations) <= FEW
    listed_rows = (
        possible if shows_all else [combination for combination in possible if combination.agreement != RULED_OUT]
    )
    ruled_out = [combination for combination in result.combinations if combination.agreement == RULED_OUT]
    footer = [*plain_speed_footer(result.plain_speeds or ()), *price_footer(result.economics)]
    tables = (
        _published_table(result),
        _combinations_table(listed_rows, footer, shows_all=shows_all),
        _drafts_table(possible),
        *([_against_table(result)] if detail else []),
        _ruled_table(ruled_out, shows_all=detail),
    )
    return tuple(table for table in tables if table.rows)


def scenarios_table(scenarios: Sequence[ScenarioSummary]) -> Table:
    """Build the table of bundled scenarios."""
    columns = (
        Column(key="name"),
        Column(key="title", wraps=True, min_width=24),
        Column(key="question", wraps=True, min_width=32),
    )
    return Table(columns=columns, rows=scenarios, title="Scenarios", note="wse scenario NAME, or a file of your own")


def _published_table(result: ScenarioResult) -> Table:
    """Build the table of published figures, each with the nearest prediction.

    The table also shows how many predictions are consistent with each figure.
    """
    columns = (
        Column(key="figure", title="figure", wraps=True, min_width=16),
        Column(key="published", title="published", wraps=True, min_width=14),
        Column(key="decides", title="decides", formatter=lambda decides: "yes" if decides else ""),
        number("predicted", "predicted", str),
        number("error_pct", "error", "{:+.0f} %".format),
        Column(key="nearest", title="by", wraps=True, min_width=24, priority=1),
        number("agree", "agree", str),
    )
    rows = []
    for index, published in enumerate(result.published):
        comparisons = [
            comparison
            for combination in result.combinations
            for comparison in combination.against or ()
            if comparison.published == index
        ]
        consistent_count = sum(comparison.agreement == CONSISTENT for comparison in comparisons)
        row = published.to_dict() | {
            "figure": FIGURES[published.figure].title,
            "published": published_text(published),
            "agree": f"{consistent_count:,} of {len(comparisons):,}",
        }
        if nearest_combination := nearest_of(result.combinations, index):
            predicted = FIGURES[published.figure].text(nearest_combination[1].predicted)
            row |= {
                "nearest": nearest_combination[0].settings,
                "predicted": predicted,
                "error_pct": nearest_combination[1].error_pct,
            }
        rows.append(row)
    publishers = map(published_texts, result.published)
    has_costs = any(published.unit == "USD" for published in result.published)
    return Table(
        columns=columns,
        rows=rows,
        title="Predicted against published",
        note="by: the nearest combination, preferably one that agrees with all deciding figures, or else with this one",
        footer=(
            ("decides", "yes: predictions that contradict this figure are ruled out"),
            ("agree", "combinations that agree with this figure, of those for which it is predicted"),
            *(
                ("from", f"{text}: {publisher}; {printable(published.evidence)}")
                for published, (text, publisher) in zip(result.published, publishers, strict=True)
            ),
            *(price_footer(result.economics, with_sources=False) if has_costs else ()),
        ),
    )


def _combinations_table(
    combinations: Sequence[CombinationResult], footer: Sequence[tuple[str, str]], *, shows_all: bool
) -> Table:
    """Build the table of settings with their predicted speed and cost.

    In a scenario with a plain and a fast service tier, the rows are sorted by cost ratio: cost per
    token of the fast tier divided by that of the plain tier, lowest first. In all other scenarios,
    they are sorted by speed, fastest first.

    Args:
        combinations: The combinations of settings.
        footer: (label, text) pairs to show below the table, such as prices.
        shows_all: True to show all rows. False to show only the first `SHORT` rows.
    """
    has_tiers = any(combination.tiers for combination in combinations)
    rows = sorted(combinations, key=lambda row: row.tiers.cost_ratio if row.tiers else -row.speed)
    prompts = [number("prompt_len", "prompt")] if len({row.prompt_len for row in rows}) > 1 else []
    other_axes = [
        Column(key=key, title=key, cell=lambda row, key=key: str((row.other or {}).get(key, "")))  # type: ignore[misc]
        for key in dict.fromkeys(key for row in rows for key in row.other or ())
    ]
    title = "Tiers" if has_tiers else "Combinations"
    listed_rows = rows if shows_all else rows[:SHORT]
    return Table(
        columns=(*_SUBJECT, *prompts, *other_axes, *_DRAFTS, *(_TIERS if has_tiers else _PREDICTIONS), _AGREEMENT),
        rows=listed_rows,
        title=title if shows_all else f"{title} within the tolerance",
        note="users, tok/s: users of the plain tier and tokens/s of each; speed, cost: fast tier divided by plain tier"
        if has_tiers
        else "a user: tokens/s per user",
        footer=(*footer, *_more_rows(rows, listed_rows)),
    )


def _drafts_table(possible: Sequence[CombinationResult]) -> Table:
    """Build the table of draft tokens: how often they are accepted, by position, and its source."""
    rows: dict[str, dict[str, str]] = {}
    for combination in possible:
        speculation = None if combination.prediction is None else combination.prediction.speculation
        if combination.drafts != NO_DRAFTS and speculation is not None:
            row = {"drafts": combination.drafts} | dict(acceptance_rows(speculation))
            rows.setdefault(str(row), row)
    names = {"drafts": "drafts", "accepted": "accepted", "draft": "measured", "source": "source"}
    columns = tuple(Column(key=key, title=title, formatter=printable, wraps=True) for key, title in names.items())
    return Table(columns=columns, rows=[*rows.values()], title="Drafts")


def _against_table(result: ScenarioResult) -> Table:
    """Build a table with one row for each comparison of a prediction with a published figure."""
    rows = []
    for combination in result.combinations:
        for row in combination.against or ():
            published = result.published[row.published]
            figure = FIGURES[published.figure]
            texts = {
                "settings": combination.settings,
                "users": combination.users,
                "figure": figure.title,
                "predicted": figure.text(row.predicted),
                "published": published_text(published),
            }
            rows.append(row.to_dict() | texts)
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


def _ruled_table(ruled_out: Sequence[CombinationResult], *, shows_all: bool) -> Table:
    """Build the table of combinations that are ruled out, with the reasons.

    A combination of model and machine that cannot run at all has a single row for all drafts and
    users.

    Args:
        ruled_out: The combinations.
        shows_all: True to show all rows. False to show only the first `SHORT` rows.
    """
    rows = [
        combination.to_dict()
        | ({"users": None} if combination.prediction is None else {"drafts_text": combination.drafts_text})
        | {"by": _reasons(combination), "machine_text": combination.machine_text}
        for combination in ruled_out
    ]
    columns = (
        *_SUBJECT,
        Column(key="drafts_text", title="drafts", formatter=printable, wraps=True, priority=1),
        number("users", "users", priority=2),
        Column(key="by", title="by", wraps=True, min_width=30),
    )
    distinct_rows = [*{str([row.get(column.key) for column in columns]): row for row in rows}.values()]
    listed_rows = distinct_rows if shows_all else distinct_rows[:SHORT]
    return Table(columns=columns, rows=listed_rows, title="Ruled out", footer=_more_rows(distinct_rows, listed_rows))


def _reasons(combination: CombinationResult) -> str:
    """Return the reasons that rule out a combination of settings, as one string.

    The remedies and the memory uses after the cause are left out.
    """
    reasons = combination.ruled_out_by or ()
    return printable("; ".join(_REMEDY.split(reason, maxsplit=1)[0] for reason in reasons))


def _more_rows(rows: Sequence[Any], listed_rows: Sequence[Any]) -> tuple[tuple[str, str], ...]:
    """Return a footer line that says how many rows are omitted; empty if none are omitted.

    Args:
        rows: All rows.
        listed_rows: The rows that the table contains.
    """
    hidden_count = len(rows) - len(listed_rows)
    return (("...", f"and {hidden_count} more with --detail"),) if hidden_count else ()

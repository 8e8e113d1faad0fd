"""The verdict on a scenario: two sentences that follow from the combinations by rule.

Of a scenario with tiers, whether and at what cost the fast one is reached; of one with several models, how large they
may be on each machine; of one model, what is nearest to what is published. Then what is ruled out, and by what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from wse.reports.terminal import count, ranged
from wse.studies.compare.curve.tables import price
from wse.studies.compare.grid.verdict import rate
from wse.studies.scenario.figures import FIGURES
from wse.studies.scenario.form import ScenarioForm
from wse.studies.scenario.judge import published_text
from wse.studies.scenario.result import (
    CONSISTENT,
    NEAR,
    RULED_OUT,
    AgainstResult,
    CombinationResult,
    PredictionResult,
    PublishedResult,
    TiersResult,
)

Combinations = Sequence[CombinationResult]


def verdict_of(form: ScenarioForm, combinations: Combinations, published: Sequence[PublishedResult]) -> tuple[str, str]:
    """What agrees with the published figures that decide, and what is ruled out; without any what is fastest."""
    if form.tiers is not None:
        return _tiers(form.tiers.speed_up, combinations), _ruled_out(combinations, published)
    if not any(one.agreement is not None and one.prediction is not None for one in combinations):
        return _fastest(combinations)
    sizes = len({one.model for one in combinations}) > 1
    first = _sizes(combinations, published) if sizes else _nearest(combinations, published)
    return first, _ruled_out(combinations, published)


def _tiers(speed_up: float, combinations: Combinations) -> str:
    """Users and cost of the fast tier, over all combinations that reach it."""
    all_tiers = [one.tiers for one in combinations if one.tiers is not None]
    reached = [tiers for tiers in all_tiers if tiers.reached]
    if not reached:
        most = max(tiers.speed_up for tiers in all_tiers)
        return (
            f"No combination is {speed_up:g} times as fast as its ordinary tier; one user alone is {most:.2f} at most."
        )
    users = _range([tiers.fast_users for tiers in reached], count)
    plain = _range([tiers.ordinary_users for tiers in reached], count)
    costs = _range([tiers.cost_ratio for tiers in reached], "{:.1f}".format)
    return (
        f"{speed_up:g} times the speed of the ordinary tier is reached in {len(reached)} of {len(combinations)} "
        f"combinations, with {users} users at a time in place of {plain}, and a token then costs {costs} times as "
        "much, at any price of the machines."
    )


def _sizes(combinations: Combinations, published: Sequence[PublishedResult]) -> str:
    """How many combinations agree, and the largest model of them on each machine."""
    agreeing = _with(combinations, CONSISTENT)
    figures = _figures_text(published)
    near = len(_with(combinations, NEAR))
    more = f", {near:,} more within the tolerance" if near else ""
    if not agreeing:
        return f"None of {len(combinations):,} combinations agrees with {figures}{more}."
    largest = []
    for machine in dict.fromkeys(one.machine for one in agreeing):
        own = [one for one in agreeing if one.machine == machine]
        plain = [one for one in own if one.prediction is not None and one.prediction.speculation is None]
        best = max(own, key=_size)
        text = f"on {machine} up to {best.parameters / 1e9:,.1f} billion parameters ({_chips(best)})"
        if plain and _size(max(plain, key=_size)) < _size(best):
            alone = max(plain, key=_size)
            text += f", without drafts {alone.parameters / 1e9:,.1f} ({_chips(alone)})"
        largest.append(text)
    return f"{len(agreeing):,} of {len(combinations):,} combinations agree with {figures}{more}: {'; '.join(largest)}."


def _nearest(combinations: Combinations, published: Sequence[PublishedResult]) -> str:
    """The combination that is nearest to the first figure that decides, and how many agree with all."""
    index, figure = next((index, one) for index, one in enumerate(published) if one.decides)
    rows = [(one, row) for one in combinations for row in one.against or () if row.published == index]
    agreeing = [pair for pair in rows if pair[0].agreement == CONSISTENT]
    best, row = min(agreeing or rows, key=lambda pair: abs(pair[1].error_pct))
    judged = sum(one.agreement is not None for one in combinations)
    many = f"{len(_with(combinations, CONSISTENT)):,} of {judged:,} combinations"
    return f"{many} agree with {_figures_text(published)}; nearest is {best.settings}, {_against_text(figure, row)}."


def _against_text(figure: PublishedResult, row: AgainstResult) -> str:
    predicted = FIGURES[figure.figure].text(row.predicted)
    return f"predicted {predicted} against {published_text(figure)} ({row.error_pct:+.0f} %)"


def _ruled_out(combinations: Combinations, published: Sequence[PublishedResult]) -> str:
    """What rules combinations out, with how many it does, and the nearest that agrees of scenarios with tiers."""
    agreeing = [one for one in combinations if one.agreement == CONSISTENT and one.tiers is not None]
    first = []
    if any(one.tiers is not None for one in combinations):
        near = len(_with(combinations, NEAR))
        many = f"{len(agreeing)} agree with {_figures_text(published)}{_example(agreeing)}"
        first = [*([many] if published else []), *([f"{near} more are within the tolerance"] if near else [])]
    ruled = _with(combinations, RULED_OUT)
    if not ruled:
        return _sentence([*first, "none is ruled out"])
    impossible = sum(one.prediction is None for one in ruled)
    causes: Counter[str] = Counter()
    for one in ruled:
        for row in one.against or ():
            if row.agreement == RULED_OUT and published[row.published].decides:
                figure = published[row.published]
                side = "above" if row.error_pct > 0 else "below"
                causes[f"{FIGURES[figure.figure].title} {side} {FIGURES[figure.figure].text(figure.value)}"] += 1
    parts = [f"{times:,} by {cause}" for cause, times in causes.most_common()]
    if impossible:
        parts.append(f"{impossible:,} by what does not fit or cannot be")
    return _sentence([*first, f"ruled out are {len(ruled):,}: {', '.join(parts)}"])


def _example(agreeing: Combinations) -> str:
    """The combination that agrees with most figures, those that do not decide among them, and of these the nearest."""
    with_tiers = [(one, one.tiers) for one in agreeing if one.tiers is not None]
    if not with_tiers:
        return ""
    best, tiers = max(with_tiers, key=lambda pair: _closeness(pair[0]))
    return f", such as {best.settings}: {_tiers_text(tiers)}"


def _closeness(combination: CombinationResult) -> tuple[int, float]:
    """The figures that a combination agrees with, and how near it is to all."""
    rows = combination.against or ()
    return sum(row.agreement == CONSISTENT for row in rows), -sum(abs(row.error_pct) for row in rows)


def _tiers_text(tiers: TiersResult) -> str:
    return (
        f"{tiers.fast_users:,} in place of {tiers.ordinary_users:,} users, {rate(tiers.fast_tokens_per_s_per_user)} in "
        f"place of {rate(tiers.ordinary_tokens_per_s_per_user)}, {tiers.cost_ratio:.1f} times the cost"
    )


def _fastest(combinations: Combinations) -> tuple[str, str]:
    """The fastest combination for a user, and the one with the cheapest token."""
    possible = [(one, one.prediction) for one in combinations if one.prediction is not None]
    quick, speed = max(possible, key=lambda pair: pair[1].tokens_per_s_per_user)
    cheap, cost = min(possible, key=lambda pair: pair[1].usd_per_million_tokens)
    dollars = ranged(
        cost.usd_per_million_tokens, cost.usd_per_million_tokens_low, cost.usd_per_million_tokens_high, price
    )
    return (
        f"Fastest for a user is {quick.settings}, {rate(speed.tokens_per_s_per_user)}.",
        f"A token is cheapest with {cheap.settings}, {dollars} USD a million at {rate(cost.tokens_per_s_per_user)} a "
        f"user, {_over_prices(cheap, cost, possible)}.",
    )


def _over_prices(
    cheap: CombinationResult, cost: PredictionResult, possible: Sequence[tuple[CombinationResult, PredictionResult]]
) -> str:
    """Return whether a combination is the cheapest over the whole range of prices, or what may be cheaper.

    Combinations on the same chip have the same price, which is at the same end of its range for all of them.
    """
    others = [(one, prediction) for one, prediction in possible if one.chip != cheap.chip]
    if not others:
        return "at any price of the machines"
    rival, least = min(others, key=lambda pair: pair[1].usd_per_million_tokens_low)
    if least.usd_per_million_tokens_low >= cost.usd_per_million_tokens_high:
        return "over the whole range of all prices"
    return (
        f"at central prices; with its price at the high end and the others' at the low end, with {rival.settings}, "
        f"{price(least.usd_per_million_tokens_low)} against {price(cost.usd_per_million_tokens_high)} USD a million"
    )


def _with(combinations: Combinations, agreement: str) -> list[CombinationResult]:
    return [one for one in combinations if one.agreement == agreement]


def _figures_text(published: Sequence[PublishedResult]) -> str:
    """The figures that decide."""
    decisive = [one for one in published if one.decides]
    if len(decisive) > 2:
        return "what is published of them"
    return " and ".join(f"{published_text(one)} ({FIGURES[one.figure].title})" for one in decisive)


def _chips(combination: CombinationResult) -> str:
    """The model of a combination with its chips."""
    chips = combination.place.removeprefix(f"{combination.machine}, ")
    return f"{combination.subject}, {chips}"


def _size(combination: CombinationResult) -> int:
    return combination.parameters


def _sentence(parts: Sequence[str]) -> str:
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _range(values: Sequence[float], text: Callable[[float], str]) -> str:
    """The least and the most of some values."""
    low, high = text(min(values)), text(max(values))
    return low if low == high else f"{low} to {high}"

"""Ranges of the rows of a comparison, and how often one row really is better than another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Final

from wse.arrays import F64
from wse.reports.intervals import CONFIDENCE, SAMPLED_ON_WAFERS, percent_text, range_of, share_above
from wse.reports.result import Doc, Result
from wse.serving.deployment.wafers import WaferDeployment
from wse.studies.compare.grid.verdict import on_first_link, place
from wse.studies.estimate.ranges.sampled_figures import Uncertainty, sampled_figures
from wse.tracing.query.two_traces.comparison_row import ComparisonRow

RowSamples = Mapping[str, F64]
"""Samples of figures of a row, keyed by field of `ComparisonRow`."""
SPEED, COST = "tokens_per_s_per_user", "usd_per_million_tokens"
_OF_ONE_USER: Final = ("ttft_s", SPEED)
_OF_ALL_USERS: Final = ("tokens_per_s", COST, "joules_per_token")
"""Figures of a row with an interval: of a single user, and of the users that saturate the machine."""
_ORDERS: Final[dict[str, tuple[str, Callable[[float], float]]]] = {
    SPEED: ("one user is faster", lambda value: -value),
    COST: ("a token is cheaper", lambda value: value),
}
"""For each figure by which rows are ordered: what is better on the first row, and the sort key."""


class OrderResult(Result):
    """Probability that the best row of a comparison is really better than the second best row.

    The rows are compared by one figure, such as one user's speed. The probability is the fraction
    of random samples of the uncertain constants in which the best row is better.
    """

    figure: Annotated[str, Doc("figure of the rows that is compared")]
    first: Annotated[int, Doc("index of the best row")]
    second: Annotated[int, Doc("index of the second best row")]
    share: Annotated[float, Doc("fraction of the samples in which the first row is better")]
    samples: Annotated[int, Doc("number of samples")]


def samples_of(uncertainty: Uncertainty | None, deployment: WaferDeployment, row: ComparisonRow) -> RowSamples:
    """Return the speed and cost figures of a row for random samples of the uncertain constants.

    The figures are for one user and for the number of users in the row. All rows of a comparison
    use the same samples of constants, price, power and model error.

    Args:
        uncertainty: Uncertain constants and model errors of the row; None if the row has no users.
        deployment: The model on its wafers, from which speed and cost are computed.
        row: The row, which states the number of users.

    Returns:
        float64 ``[samples]``, keyed by field of the row. Empty if the row has no users.
    """
    if uncertainty is None or not row.users:
        return {}
    one_user, all_users = (sampled_figures(uncertainty, deployment, users, 1) for users in (1, row.users))
    single_user_samples = {key: one_user[key] for key in _OF_ONE_USER if key in one_user}
    return single_user_samples | {key: all_users[key] for key in _OF_ALL_USERS if key in all_users}


def with_ranges(row: ComparisonRow, samples: RowSamples) -> ComparisonRow:
    """Return a copy of a row with 90 % intervals of its speed and cost figures.

    Args:
        row: The row.
        samples: Values of the figures for random samples of the uncertain constants. If it is
            empty, the row is returned unchanged.
    """
    if not samples:
        return row
    return replace(row, ranges={name: range_of(getattr(row, name), values) for name, values in samples.items()})


def orders_of(rows: Sequence[ComparisonRow], samples: Sequence[RowSamples]) -> tuple[OrderResult, ...]:
    """Return how certain it is that the best row beats the second best, in speed and in cost.

    The speed is a single user's speed. The best and the second best row are selected as follows:

    1. Rows with other links than the first one are excluded (`on_first_link`).
    2. If several numbers of wafers are compared, only the best row for each number remains.
    3. If fewer than two rows remain, there is no result for this figure.

    Args:
        rows: Rows of the comparison.
        samples: For each row, its speed and cost for samples of the uncertain constants.
    """
    rows_on_link = on_first_link(rows)
    orders = []
    for figure, (_, key) in _ORDERS.items():
        candidates = [i for i, row in enumerate(rows) if row in rows_on_link and figure in samples[i]]
        candidates.sort(key=lambda index: key(getattr(rows[index], figure)))
        best_by_wafers: dict[int, int] = {}
        for index in candidates:
            best_by_wafers.setdefault(rows[index].wafers, index)
        if len(best_by_wafers) > 1:
            candidates = [*best_by_wafers.values()]
        if len(candidates) < 2:
            continue
        first, second = candidates[:2]
        first_samples, second_samples = samples[first][figure], samples[second][figure]
        if figure == COST:
            first_samples, second_samples = second_samples, first_samples
        orders.append(
            OrderResult(
                figure=figure,
                first=first,
                second=second,
                share=share_above(first_samples, second_samples),
                samples=len(first_samples),
            )
        )
    return tuple(orders)


def order_sentence(rows: Sequence[ComparisonRow], orders: Sequence[OrderResult]) -> str:
    """Return a sentence that states how certain it is that the best row beats the second best.

    The sentence is empty if no rows could be compared.

    Args:
        rows: Rows of the comparison.
        orders: Results of `orders_of`.
    """
    if not orders:
        return ""
    in_first, *in_others = (percent_text(order.share) for order in orders)
    samples = f"{orders[0].samples} samples of the uncertain inputs ({SAMPLED_ON_WAFERS}; the same for all rows)"
    shares = [f"In {in_first} of {samples}", *(f"in {share}" for share in in_others)]
    texts = [
        f"{share}, {_ORDERS[order.figure][0]} on {place(rows[order.first])} than on "
        f"{_second_text(rows[order.first], rows[order.second])}"
        for share, order in zip(shares, orders, strict=True)
    ]
    confidence = percent_text(CONFIDENCE)
    return f"{'; '.join(texts)}. Intervals marked {confidence} contain {confidence} of the samples."


def _second_text(first: ComparisonRow, second: ComparisonRow) -> str:
    """Describe the row with which the best one is compared."""
    rank_text = "layout" if first.wafers == second.wafers else "number of wafers"
    return f"the next best {rank_text}, {place(second)}"

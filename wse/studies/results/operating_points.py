"""Result field ``serving``: operating points of a deployment by number of users, with a table."""

from __future__ import annotations

from typing import Annotated, Final

from wse.reports.number_text import count, percent, plural, range_text, seconds, three_figures
from wse.reports.result import Doc, Result
from wse.reports.table import Table, number, pair_table
from wse.reports.terminal import printable
from wse.serving.operating_point import Deployment, OperatingPoint, operating_point, users_with_room
from wse.serving.plan import saturating_users
from wse.serving.steady_state import NEGLIGIBLE

MAX_USERS: Final = 4_096
"""Maximum number of users listed in a table."""
_DEFINITIONS: Final = (
    ("TTFT", "mean time to first token: waiting, prefill and transfers to and from the host"),
    (
        "TPOT",
        "time per output token after the first, including stalls caused by prefill of other requests",
    ),
    ("tok/s/user", "1 / TPOT"),
    ("tok/s", "output tokens per second of all users"),
    ("USD/Mtok", "price of all machines per million output tokens, including prefill"),
    ("price range", "USD/Mtok at the low and high end of the machine's price range, with this tok/s"),
    (
        "J/token",
        "power of all machines divided by tok/s: of wafers at their peak, of GPUs as measured or inferred under load "
        "(its range: from a board with one user to the peak of a server)",
    ),
)
"""Meaning of the columns except the numbers of users and requests. Formulas: docs/explanation/operating-point.md."""


def definitions(think_s: float | None = None) -> list[tuple[str, str]]:
    """Return the operating-point columns with their meanings, as lines below a table.

    Args:
        think_s: Mean seconds from the end of an answer to the next request of the same user; None if
            there is no pause.
    """
    if think_s is None:
        return [("users", "concurrent requests; when one ends, the next one starts without a pause"), *_DEFINITIONS]
    return [
        ("users", f"people, each of whom sends a request {seconds(think_s)} on average after the previous answer ends"),
        ("in flight", "mean number of requests that wait or are being answered; the other users pause"),
        ("arrivals", "at random times; TTFT includes waits for KV-cache space and for other prompts"),
        *_DEFINITIONS,
    ]


IN_FLIGHT: Final = number("in_flight", "in flight", three_figures)
"""Column with the mean number of requests in flight, for tables of users who pause."""


PRICE_RANGE: Final = number(
    "range",
    "price range",
    cell=lambda row: range_text(row.usd_per_million_tokens_low, row.usd_per_million_tokens_high, three_figures),
    priority=1,
)
"""Column with the cost of tokens at the low and high end of the machine's price range."""


class OperatingPointResult(Result):
    """Latency, throughput, cost and energy for one number of users."""

    users: Annotated[int, Doc("users of all replicas together, including those who pause")]
    in_flight: Annotated[
        float | None, Doc("mean number of requests in flight; absent if users do not pause: it is then `users`")
    ] = None
    replicas: Annotated[int, Doc("number of identical machines that share the users")]
    ttft_s: Annotated[float, Doc("mean time to first token", "s")]
    tpot_s: Annotated[float | None, Doc("time per output token after the first", "s")] = None
    request_s: Annotated[float, Doc("mean time from a request to its last token", "s")]
    tokens_per_s_per_user: Annotated[float | None, Doc("1 / `tpot_s`", "tokens/s")] = None
    tokens_per_s: Annotated[float, Doc("output tokens of all users per second, prefill time included", "tokens/s")]
    requests_per_s: Annotated[float, Doc("rate of completed requests", "1/s")]
    decoding_users: Annotated[float, Doc("mean number of requests that have their first token, but not the last")]
    saturated: Annotated[bool, Doc("whether more users would raise `tokens_per_s` by less than 0.1 %")]
    usd_per_million_tokens: Annotated[
        float | None, Doc("price of a million output tokens, prompts included", "USD")
    ] = None
    usd_per_million_tokens_low: Annotated[
        float | None, Doc("price of a million output tokens at the low end of the price range", "USD")
    ] = None
    usd_per_million_tokens_high: Annotated[
        float | None, Doc("price of a million output tokens at the high end of the price range", "USD")
    ] = None
    usd_per_hour: Annotated[float | None, Doc("price per hour of all machines", "USD")] = None
    joules_per_token: Annotated[float | None, Doc("energy of an output token, prompts included", "J")] = None
    joules_per_token_low: Annotated[
        float | None, Doc("energy of an output token at the low end of the power range", "J")
    ] = None
    joules_per_token_high: Annotated[
        float | None, Doc("energy of an output token at the high end of the power range", "J")
    ] = None

    @property
    def requests(self) -> float:
        """Mean number of requests in flight."""
        return self.users if self.in_flight is None else self.in_flight


class ServingResult(OperatingPointResult):
    """Latency, throughput, cost and energy for the requested and several other numbers of users.

    The fields of the base class refer to the requested number of users. ``points`` covers several
    user counts of the same deployment, including the requested one.
    """

    prompt_tokens: Annotated[int, Doc("tokens of each prompt")]
    prefix_tokens: Annotated[
        int | None, Doc("tokens of each prompt that are in the KV cache, so they are not processed; absent if none")
    ] = None
    new_tokens: Annotated[int, Doc("output tokens of each request")]
    think_s: Annotated[
        float | None, Doc("mean pause from the end of an answer to the user's next request; absent if none", "s")
    ] = None
    users_per_pass: Annotated[int | None, Doc("users of a pass through the stages of wafers; absent for GPUs")] = None
    max_users: Annotated[
        int, Doc("maximum number of concurrent requests whose KV caches fit on all replicas, without drafts")
    ]
    max_users_of_any_layout: Annotated[
        int | None,
        Doc("`max_users` of the layout with the most room, without drafts; with `--most-users`"),
    ] = None
    points: Annotated[tuple[OperatingPointResult, ...], Doc("operating points, one per number of users")]


def point_result(point: OperatingPoint) -> OperatingPointResult:
    """Convert latency, speed, cost and energy at one user count to a record for the result.

    The record stores the cost and the energy with their ranges, but without their sources.
    """
    cost, energy = point.usd_per_million_tokens, point.joules_per_token
    return OperatingPointResult.from_parts(
        point,
        in_flight=None if point.in_flight == point.users else point.in_flight,
        **({} if cost is None else cost.with_ends("usd_per_million_tokens")),
        **({} if energy is None else energy.with_ends("joules_per_token")),
    )


def serving_result(
    deployment: Deployment, users: int, users_per_pass: int | None = None, replicas: int = 1
) -> ServingResult:
    """Compute latency, throughput and cost for the requested and several other numbers of users.

    The other numbers show how the figures depend on the number of users. They are powers of two up
    to the number that saturates the machine, and this number itself.

    Args:
        deployment: The machine with its model.
        users: Requested number of users of all replicas, including those who pause.
        users_per_pass: Number of users decoded in one pass on wafers; None on GPUs.
        replicas: Number of identical deployments that share the users, at most ``users``. The other
            user counts are multiples of it.
    """
    saturating = max(1, saturating_users(deployment))
    multiples = (replicas * number for number in user_counts(users_with_room(deployment), saturating))
    counts = sorted({users, *(number for number in multiples if number <= max(replicas * saturating, users))})
    points = tuple(point_result(operating_point(deployment, number, replicas)) for number in counts)
    at_users = points[counts.index(users)]
    return ServingResult.from_parts(
        at_users,
        deployment.shape,
        prefix_tokens=deployment.shape.prefix_tokens or None,
        think_s=deployment.shape.think_s or None,
        users_per_pass=users_per_pass,
        max_users=replicas * deployment.max_concurrency,
        points=points,
    )


def cached_tokens_text(tokens: int, prefix_tokens: int | None) -> str:
    """Return a phrase for the tokens in a request's KV cache, such as "4,300 tokens (2,000 of them shared)".

    Args:
        tokens: Tokens of the prompt and the answer.
        prefix_tokens: Tokens at the start of the prompt that all users share.
    """
    return f"{tokens:,} tokens" + (f" ({prefix_tokens:,} of them shared)" if prefix_tokens else "")


def user_counts(max_users: int, requested_users: int) -> list[int]:
    """Return the user counts for which a table has a row, in ascending order.

    Args:
        max_users: Maximum number of users that the machine can serve.
        requested_users: User count that is always included.

    Returns:
        Powers of two up to a limit, the limit, and ``requested_users``. The limit is ``max_users``,
        but at most `MAX_USERS`.
    """
    powers = {2**power for power in range(MAX_USERS.bit_length()) if 2**power <= min(max_users, MAX_USERS)}
    return sorted({*powers, requested_users, *([min(max_users, MAX_USERS)] if max_users else [])})


def points_tables(serving: ServingResult, price: str = "") -> list[Table]:
    """Build the table of latency, throughput and cost by number of users.

    The row with the requested number of users is in bold. The footer explains the columns. If there
    are figures for only one number of users, no such table is needed, because other tables show
    them; the result is then only a table with the price.

    Args:
        serving: Figures for several numbers of users, each of which becomes a row.
        price: Price of the machine with its source; empty if there is none.
    """
    if len(serving.points) == 1:
        return [pair_table([("", printable(price))], "Price")] if price else []
    tokens = f"{serving.prompt_tokens:,} prompt + {serving.new_tokens:,} output tokens"
    layout = "" if serving.users_per_pass is None else " on this layout"
    fit = f"room for {plural(serving.max_users, 'request' if serving.think_s else 'user')}{layout}"
    if serving.replicas > 1:
        fit += f" on {serving.replicas:,} replicas"
    table = Table(
        columns=(
            number("users", "users"),
            *([IN_FLIGHT] if serving.think_s else []),
            number("ttft_s", "TTFT", seconds),
            number("tpot_s", "TPOT", seconds),
            number("tokens_per_s_per_user", "tok/s/user", count),
            number("tokens_per_s", "tok/s", count),
            number("usd_per_million_tokens", "USD/Mtok", three_figures),
            PRICE_RANGE,
            number("joules_per_token", "J/token", three_figures, priority=2),
        ),
        rows=serving.points,
        title="Operating points",
        note=f"{tokens} per request; {fit}{_saturated_text(serving)}",
        style=lambda row: "bold" if row.users == serving.users else "",
        footer=[*definitions(serving.think_s), *([("price", printable(price))] if price else [])],
    )
    return [table]


def _saturated_text(serving: ServingResult) -> str:
    """Return a note such as "; more than 64 users raise tok/s by less than 0.1 %".

    The note is empty if none of the reported numbers of users saturates the machine.
    """
    first = next((point for point in serving.points if point.saturated), None)
    if first is None or (serving.think_s and first.requests > serving.max_users):
        return ""
    users = first.users if serving.think_s else min(first.users, serving.max_users)
    return f"; more than {users:,} users raise tok/s by less than {percent(NEGLIGIBLE)}"

"""Checks of an EstimateRequest that need no files: numbers in range, options that fit together."""

from __future__ import annotations

from wse.compiler.options import REFUSE, REPORT
from wse.errors import BadInput, UnknownName
from wse.serving.goal import OBJECTIVES
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.amounts import check_counts
from wse.studies.options.drafts.draft import PLACES, SAME
from wse.studies.options.serving import WorkloadOptions

MAX_USERS = 4096
"""Maximum number of users per batch."""
MAX_USERS_OF_REPLICAS = 1_000_000
"""Maximum number of concurrent users over any number of machines."""
MAX_THINK_S = 86_400.0
"""Maximum pause of a user between two requests: a day."""


def check_options(request: EstimateRequest) -> None:
    """Check the options of a request that can be checked without loading files.

    Raises:
        UnknownName: The option ``capacity`` has an unknown value.
        BadInput: A number is out of range, or options contradict each other.
    """
    check_counts(
        wafers=request.wafers,
        prompt_len=request.workload.prompt_len,
        new_tokens=request.workload.new_tokens,
        batch=request.serving.batch,
        users=request.serving.users,
        context=request.context,
    )
    check_replicas(request.serving.users, request.replicas)
    check_think_time(request.workload, request.serving.users)
    limits = (
        ("--batch", request.serving.batch, MAX_USERS),
        ("--users", request.serving.users, MAX_USERS_OF_REPLICAS),
    )
    for option, users, max_users in limits:
        if users is not None and users > max_users:
            raise BadInput(f"{option} {users}: give at most {max_users:,} users")
    check_objective(request)
    if request.serving.users is not None and request.serving.users < (request.serving.batch or 1):
        raise BadInput(
            f"--users {request.serving.users}: is less than --batch {request.serving.batch}, the users of a pass; "
            f"give at least {request.serving.batch}"
        )
    if request.capacity not in (REFUSE, REPORT):
        raise UnknownName("capacity", request.capacity, (REFUSE, REPORT))
    check_drafts(request)


def check_replicas(users: int | None, replicas: int | None) -> None:
    """Check that a number of replicas (identical machines that share the users) is valid.

    Args:
        users: Requested number of concurrent users; None if not specified.
        replicas: Number of replicas; None for ``auto``.

    Raises:
        BadInput: The number is below 1 or exceeds the number of users. Also raised if ``auto`` or a
            number other than 1 is requested without a number of users.
    """
    check_counts(replicas=replicas)
    if replicas != 1 and users is None:
        raise BadInput(f"--replicas {replicas or 'auto'}: replicas share users; give --users N too")
    if replicas is not None and users is not None and replicas > users:
        raise BadInput(f"--replicas {replicas}: there are fewer users; give at most {users}, or more --users")


def check_think_time(workload: WorkloadOptions, users: int | None) -> None:
    """Check the requested pause between the requests of a user.

    Raises:
        BadInput: The pause is negative or longer than `MAX_THINK_S`, or no number of users is
            requested.
    """
    think_s = workload.think_time
    if think_s is None:
        return
    if users is None:
        raise BadInput("--think-time: needs --users; give that too, or leave it out")
    if not 0 <= think_s <= MAX_THINK_S:
        raise BadInput(f"--think-time {think_s:g}: give a number from 0 to {MAX_THINK_S:g} s")


def check_objective(request: EstimateRequest) -> None:
    """Check that a request's objective is one of `OBJECTIVES`.

    Raises:
        UnknownName: The objective is unknown.
    """
    if request.serving.objective not in (None, *OBJECTIVES):
        raise UnknownName("objective", str(request.serving.objective), OBJECTIVES, place="--objective")


def check_drafts(request: EstimateRequest) -> None:
    """Check that the draft options of a request do not contradict each other.

    Raises:
        BadInput: ``--draft-model`` or ``--draft-place`` is specified without ``--draft``, which
            states how often drafts are accepted. Or a place other than the model's PEs is specified
            without a draft model.
        UnknownName: The place is unknown.
    """
    model, place = request.drafts.draft_model, request.drafts.draft_place
    for option, value in (("--draft-model", model), ("--draft-place", place)):
        if value is not None and request.draft is None:
            raise BadInput(
                f"{option} {value}: also give the acceptance of the drafts, such as --draft 0.7 or --draft typical"
            )
    if place not in (None, *PLACES):
        raise UnknownName("place of drafts", str(place), PLACES)
    if place not in (None, SAME) and model is None:
        raise BadInput(
            f"--draft-place {place}: without --draft-model, the draft is a layer of the model, on its PEs; "
            "give a --draft-model"
        )

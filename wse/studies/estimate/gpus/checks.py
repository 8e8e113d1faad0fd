"""Checks of the options of an estimate on GPUs."""

from __future__ import annotations

from typing import Final

from wse.errors import BadInput, UnknownName
from wse.reports.number_text import plural
from wse.serving.gpus.server import GpuServer
from wse.serving.operating_point import RequestShape
from wse.studies.estimate.checks import check_drafts, check_objective, check_replicas, check_think_time
from wse.studies.estimate.gpus.check_machine import check_machine
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.amounts import check_counts
from wse.studies.options.drafts.draft import SAME
from wse.studies.options.option import get_option
from wse.studies.results.operating_points import cached_tokens_text

TENSOR, EXPERTS, DATA = "tensor", "experts", "data"
PARALLELISMS: Final = (TENSOR, EXPERTS, DATA)
"""Ways to split a model: all matrices, or experts whole, or experts whole and attention by user."""


def check_options(request: EstimateRequest) -> None:
    """Check the options of a request for GPUs, as far as this is possible without loading files.

    Raises:
        BadInput: A number is out of range, or options contradict each other.
        UnknownName: The parallelism, the objective or the place of drafts does not exist.
    """
    check_machine(request)
    counts = ("gpus", "batch", "users", "replicas", "prompt_len", "new_tokens", "verify_tokens")
    check_counts(**{name: get_option(request, name) for name in counts})
    check_replicas(request.serving.users, request.replicas)
    check_think_time(request.workload, request.serving.users)
    if request.gpu_serving.parallelism not in (None, *PARALLELISMS):
        raise UnknownName("parallelism", request.gpu_serving.parallelism, PARALLELISMS)
    check_objective(request)
    check_drafts(request)
    if request.drafts.draft_place not in (None, SAME):
        raise BadInput(
            f"--draft-place {request.drafts.draft_place}: drafts of GPUs are made on the same GPUs; leave it out"
        )


def check_heads(server: GpuServer) -> None:
    """Raise BadInput if the attention heads cannot be divided evenly among the GPUs.

    The message lists the numbers of GPUs that can be given. If the weights do not even fit,
    nothing is raised here: `GpuServer.kv_capacity_bytes` reports it.
    """
    heads, gpus = server.spec.head_count, server.parallelism.gpus
    if server.parallelism.attention_by_data or heads % gpus == 0:
        return
    if allowed_counts := server.suitable_gpus()[:8]:
        remedy = f"give one of {', '.join(map(str, allowed_counts))}"
    elif server.holds_weights:
        remedy = "the weights fit on no number that does; give --parallelism data, a smaller --dtype or a larger --gpu"
    else:
        return
    raise BadInput(f"--gpus {gpus}: does not divide the {heads} heads of {server.spec.name}; {remedy}")


def check_users(server: GpuServer, users: int, shape: RequestShape, option: str, replicas: int) -> None:
    """Check that the KV caches of all users fit, and that the serving stack allows so many users.

    A serving stack is software such as vLLM.

    Args:
        server: The model on its GPUs.
        users: Requested number of users.
        shape: Lengths of the requests of all users.
        option: Option with which the users were requested.
        replicas: Number of identical machines that share the users.

    Raises:
        BadInput: There are too many users. The message states the maximum, and the options that
            raise it.
    """
    max_users = replicas * server.users_that_fit(shape.tokens, shape.prefix_tokens)
    if users <= max_users:
        return
    model, machine = f"{server.spec.name} as {server.weights.name}", f"{server.parallelism.gpus} {server.gpu.name}"
    model += "" if server.draft is None else " and its draft"
    machine += "" if replicas == 1 else f" on each of {replicas:,} replicas"
    remedy = f"give {option} {max_users}" if max_users else "give shorter --prompt-len and --new-tokens"
    shares = option == "--users"  # those of --batch are on one machine
    if max_users == replicas * server.max_sequences:
        limit = f"{server.stack.name} serves at most {plural(max_users, 'user')} at a time on {machine}"
        options_to_raise = ["--replicas"] * shares
    else:
        caches = f"KV caches of {plural(max_users, 'user')} of {cached_tokens_text(shape.tokens, shape.prefix_tokens)}"
        limit = f"with {model}, {machine} has room for {caches}"
        options_to_raise = ["--gpus", *["--replicas"] * (shares and max_users > 0)]
    raise BadInput(
        f"{option} {users}: {limit}; {remedy}"
        + (f", or more {' or '.join(options_to_raise)}" if options_to_raise else "")
    )

"""GpuEstimateRequest: a model on GPUs, of the options of ``wse estimate --gpu``, checked."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from wse.errors import BadInput, UnknownName
from wse.models.load import load_model
from wse.models.spec import ModelSpec
from wse.reports.terminal import plural
from wse.serving.deployment.gpus import GpuDeployment
from wse.serving.economics import Economics, load_gpu_economics
from wse.serving.goal import LATENCY, Goal
from wse.serving.gpus.load import load_gpu, load_stack
from wse.serving.gpus.roofline import Parallelism
from wse.serving.gpus.server import GpuServer
from wse.serving.gpus.weights import weight_format
from wse.serving.operating_point import RequestShape
from wse.serving.plan import saturating_users
from wse.serving.prices import gpu_price
from wse.studies.estimate.prepare import check_drafts, check_objective, check_replicas, load_draft_model
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.acceptance import DraftAcceptance, read_acceptance
from wse.studies.options.basis import dtype_note
from wse.studies.options.draft import SAME
from wse.studies.options.gpu_serving import GpuOptions
from wse.studies.options.option import check_counts, get_option, group_path, options_of

STACK: Final = "vllm"
TENSOR, EXPERTS, DATA = "tensor", "experts", "data"
PARALLELISMS: Final = (TENSOR, EXPERTS, DATA)

SHARED: Final = frozenset(
    (
        *("model", "dtype", "replicas", "verify_tokens", "draft", "gpu"),
        *("workload", "serving", "drafts", "gpu_serving", "costs"),
    )
)
"""Options, and groups of options, that GPUs have too."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedGpuEstimate:
    """A request with everything loaded and its defaults filled in.

    The server has what drafts for it, ``draft_model`` is the name of a draft model, ``draft_acceptance`` what was asked
    for as ``acceptance``. ``economics`` is None where the GPU's power or price is stated nowhere. All ``replicas``
    together have ``users``.
    """

    server: GpuServer
    draft_model: str | None
    draft_acceptance: str | None
    acceptance: DraftAcceptance | None
    stack: str
    gpu: str
    parallelism: str
    users: int
    replicas: int
    prompt_tokens: int
    new_tokens: int
    verify_tokens: int
    economics: Economics | None
    model: str
    objective: str
    note: str | None = None

    @property
    def deployment(self) -> GpuDeployment:
        """The model as it is served on the GPUs."""
        shape = RequestShape(prompt_tokens=self.prompt_tokens, new_tokens=self.new_tokens)
        return GpuDeployment(server=self.server, shape=shape, economics=self.economics)

    @property
    def users_of_one(self) -> int:
        """Users of the replica with the most of them."""
        return math.ceil(self.users / self.replicas)

    @property
    def middle_context(self) -> float:
        """Tokens before the one in the middle of what is generated."""
        return self.prompt_tokens + self.new_tokens / 2


def check_machine(request: EstimateRequest, given: Collection[str] = ()) -> None:
    """Refuse options of wafers beside ``--gpu``, and options of GPUs without it.

    Args:
        request: The request.
        given: Fields that were given although they have their default.

    Raises:
        BadInput: with the options.
    """
    default = EstimateRequest()
    named = {*given, *(n for n in options_of(EstimateRequest) if get_option(request, n) != get_option(default, n))}
    if request.gpu is None:
        stray = sorted(named & options_of(GpuOptions).keys())
        if stray:
            msg = f"{_flag(stray[0])}: says how GPUs serve the model; give --gpu NAME as well, or leave it out"
            raise BadInput(msg)
        return
    stray = sorted(name for name in named if not {name, *group_path(EstimateRequest, name)} & SHARED)
    if stray:
        msg = f"--gpu {request.gpu}: {', '.join(map(_flag, stray))} is of wafers; leave it out, or leave out --gpu"
        raise BadInput(msg.replace(" is of", " are of") if len(stray) > 1 else msg)


def prepare_gpu_estimate(request: EstimateRequest) -> PreparedGpuEstimate:
    """Load and check all that a request for GPUs names.

    Raises:
        BadInput and its kinds: something that was named is missing or cannot be used, or the caches of the users do not
            fit; with how many do.
        DoesNotFit: the weights do not fit.
    """
    prepared = prepare_gpus(request)
    tokens = prepared.prompt_tokens + prepared.new_tokens
    option = "--batch" if request.serving.users is None else "--users"
    _check_users(prepared.server, prepared.users, tokens, option, prepared.replicas)
    return prepared


def prepare_gpus(request: EstimateRequest) -> PreparedGpuEstimate:
    """Load and check all that a request for GPUs names, except whether the caches of its users fit.

    Raises:
        BadInput and its kinds: something that was named is missing or cannot be used.
        DoesNotFit: the weights do not fit.
    """
    check_machine(request)
    assert request.gpu is not None  # whoever calls this has looked
    counts = {
        name: get_option(request, name)
        for name in ("gpus", "batch", "users", "replicas", "prompt_len", "new_tokens", "verify_tokens")
    }
    check_counts(**counts)
    check_replicas(request.serving.users, request.replicas)
    parallelism = request.gpu_serving.parallelism or TENSOR
    if parallelism not in PARALLELISMS:
        raise UnknownName("parallelism", parallelism, PARALLELISMS)
    check_objective(request)
    check_drafts(request)
    if request.drafts.draft_place not in (None, SAME):
        msg = f"--draft-place {request.drafts.draft_place}: drafts of GPUs are made on the same GPUs; leave it out"
        raise BadInput(msg)
    loaded = load_model(request.model, with_weights=False)
    gpu, spec = load_gpu(request.gpu), loaded.spec
    if spec.experts is None and parallelism != TENSOR:
        msg = f"--parallelism {parallelism}: {spec.name} has no experts; leave it out, or give {TENSOR}"
        raise BadInput(msg)
    stack = load_stack(request.gpu_serving.stack or STACK, gpu.generation)
    server = GpuServer(
        spec=spec,
        weights=weight_format(spec, request.types.dtype),
        gpu=gpu,
        stack=stack,
        parallelism=Parallelism(
            gpus=request.gpu_serving.gpus or 1,
            attention_by_data=parallelism == DATA,
            whole_experts=parallelism in (EXPERTS, DATA),
        ),
    )
    draft_model = (
        None if request.drafts.draft_model is None else load_draft_model(request.drafts.draft_model, loaded).spec
    )
    prompt, new = request.workload.lengths(spec.context_limit)
    if request.gpu_serving.gpus is None:
        alone = dataclasses.replace(server, draft=_draft(request, server, draft_model, prompt + new / 2))
        fewest = dataclasses.replace(server.parallelism, gpus=alone.fewest_gpus() or gpu.linked_gpus)
        server = dataclasses.replace(server, parallelism=fewest)
    _check_heads(server)
    server = dataclasses.replace(server, draft=_draft(request, server, draft_model, prompt + new / 2))
    if prompt + new > spec.context_limit:
        msg = f"--prompt-len {prompt} --new-tokens {new}: {spec.name} was made for {spec.context_limit} tokens in all"
        raise BadInput(msg)
    economics = load_gpu_economics(gpu, request.costs.economics, gpu_price(request.costs.price, gpu.name))
    shape = RequestShape(prompt_tokens=prompt, new_tokens=new)
    users = _users(request, GpuDeployment(server=server, shape=shape, economics=economics))
    replicas = Goal(users=users, replicas=request.replicas).replicas_for(server.users_that_fit(prompt + new))
    return PreparedGpuEstimate(
        server=server,
        draft_model=None if request.drafts.draft_model is None else str(request.drafts.draft_model),
        draft_acceptance=request.draft,
        acceptance=None if request.draft is None else read_acceptance(request.draft),
        stack=str(request.gpu_serving.stack or STACK),
        gpu=str(request.gpu),
        parallelism=parallelism,
        users=users,
        replicas=replicas,
        prompt_tokens=prompt,
        new_tokens=new,
        verify_tokens=request.verify_tokens or 0,
        economics=economics,
        model=str(request.model),
        objective=request.serving.objective or LATENCY,
        note=dtype_note(loaded, request.types.dtype),
    )


def _draft(
    request: EstimateRequest, server: GpuServer, draft_model: ModelSpec | None, context_tokens: float
) -> GpuServer | None:
    """Return the draft for a model on GPUs: a head, or a model in the format of its checkpoint; None without drafts.

    A draft model is cut over all GPUs or is on one of them, whichever makes a token sooner.
    """
    if request.draft is None:
        return None
    if draft_model is None:
        return server.draft_head
    apart, over_all = (
        dataclasses.replace(
            server, spec=draft_model, weights=weight_format(draft_model), parallelism=Parallelism(gpus=n)
        )
        for n in (1, server.parallelism.gpus)
    )
    return min(apart, over_all, key=lambda one: one.draft_s(1, 1, context_tokens))


def _users(request: EstimateRequest, deployment: GpuDeployment) -> int:
    """Return the users of a request: those requested, or those that serve its objective best.

    Args:
        request: The request. Its batch is the number of all users, because GPUs decode for all of them at once.
        deployment: The model on the GPUs.

    Returns:
        Without ``--users`` and ``--batch``: 1 for latency; for throughput and cost the users that saturate the GPUs.

    Raises:
        BadInput: ``--users`` and ``--batch`` differ.
    """
    users, batch = request.serving.users, request.serving.batch
    if users is not None and batch is not None and users != batch:
        msg = f"--users {users} and --batch {batch}: GPUs decode for all users at once; leave out --batch"
        raise BadInput(msg)
    if users or batch or request.serving.objective in (None, LATENCY):
        return users or batch or 1
    return max(1, saturating_users(deployment))


def _check_heads(server: GpuServer) -> None:
    """Refuse GPUs that heads are not cut over evenly."""
    heads, gpus = server.spec.head_count, server.parallelism.gpus
    if server.parallelism.attention_by_data or heads % gpus == 0:
        return
    counts = [str(count) for count in range(1, server.gpu.linked_gpus + 1) if heads % count == 0]
    some = ", ".join(counts[:8])
    msg = f"--gpus {gpus}: the {heads} heads of {server.spec.name} are not divided by it; give one of {some}"
    raise BadInput(msg)


def _check_users(server: GpuServer, users: int, tokens: int, option: str, replicas: int) -> None:
    """Refuse more users of so many tokens than the caches have room for, or the stack takes at a time.

    Args:
        server: The model on its GPUs.
        users: The users that were requested.
        tokens: Of each of them, prompt and answer.
        option: The option that they were requested with.
        replicas: Equal machines that share the users.

    Raises:
        BadInput: with the number that fits and the options that raise it.
    """
    most = replicas * server.users_that_fit(tokens)
    if users <= most:
        return
    model, machine = f"{server.spec.name} as {server.weights.name}", f"{server.parallelism.gpus} {server.gpu.name}"
    model += "" if server.draft is None else " and its draft"
    machine += "" if replicas == 1 else f" on each of {replicas:,} replicas"
    remedy = f"give {option} {most}" if most else "give shorter --prompt-len and --new-tokens"
    shares = option == "--users"  # those of --batch are on one machine
    if most == replicas * server.max_sequences:
        limit = f"{server.stack.name} serves at most {plural(most, 'user')} at a time on {machine}"
        more = ["--replicas"] * shares
    else:
        limit = f"beside {model} the KV cache of {machine} holds {plural(most, 'user')} of {tokens:,} tokens"
        more = ["--gpus", *["--replicas"] * (shares and most > 0)]
    msg = f"{option} {users}: {limit}; {remedy}" + (f", or more {' or '.join(more)}" if more else "")
    raise BadInput(msg)


def _flag(field: str) -> str:
    return options_of(EstimateRequest)[field].flag

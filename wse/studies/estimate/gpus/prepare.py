"""PreparedGpuEstimate: a model on GPUs, from the checked options of ``wse estimate --gpu``."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from wse.errors import BadInput
from wse.models.load import load_model
from wse.models.spec import ModelSpec
from wse.program.routing import EVEN
from wse.serving.deployment.gpus import GpuDeployment
from wse.serving.economics import Economics, load_gpu_economics
from wse.serving.goal import LATENCY, Goal
from wse.serving.gpus.load import load_gpu, load_stack
from wse.serving.gpus.roofline import Parallelism
from wse.serving.gpus.server import BLOCK_TOKENS, GpuServer
from wse.serving.gpus.weights import weight_format
from wse.serving.operating_point import RequestShape, operating_point, users_with_room
from wse.serving.plan import saturating_users
from wse.serving.prices import own_price, unused_prices_note
from wse.studies.estimate.gpus.checks import DATA, EXPERTS, TENSOR, check_heads, check_options, check_users
from wse.studies.estimate.prepare import load_draft_model
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.basis import dtype_note
from wse.studies.options.drafts.acceptance import DraftAcceptance, read_acceptance
from wse.studies.options.routing import read_routing

STACK: Final = "vllm"
"""Default serving stack."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedGpuEstimate:
    """Request for an estimate on GPUs, with everything loaded and all defaults filled in.

    Attributes:
        request: The request, with the lengths of a named workload filled in.
        server: The model on its GPUs, with its draft.
        acceptance: Probabilities that draft tokens are accepted; None without speculative decoding.
        stack: Name or file of the serving stack.
        gpu: Name or file of the GPU.
        parallelism: ``tensor``, ``experts`` or ``data``.
        users: Concurrent users on all replicas together. If not requested, they fit in addition to
            the draft.
        replicas: Number of identical machines that share the users.
        prompt_tokens: Length of each prompt in tokens.
        new_tokens: Generated tokens of each request.
        economics: Power and price; None if the power or price of the GPU is unknown.
        note: Note about an element type that was chosen by default and about unused prices, or None.
    """

    request: EstimateRequest
    server: GpuServer
    acceptance: DraftAcceptance | None
    stack: str
    gpu: str
    parallelism: str
    users: int
    replicas: int
    prompt_tokens: int
    new_tokens: int
    economics: Economics | None
    note: str | None = None

    @cached_property
    def deployment(self) -> GpuDeployment:
        """The model as served on the GPUs of one replica, without speculative decoding."""
        shape = _shape(self.request, self.prompt_tokens, self.new_tokens)
        plain_server = dataclasses.replace(self.server, draft=None)
        return GpuDeployment(server=plain_server, shape=shape, economics=self.economics)

    @property
    def users_option(self) -> str:
        """Name of the option for the number of users: ``batch`` if only it was given, else ``users``."""
        serving = self.request.serving
        return "users" if serving.batch is None or serving.users is not None else "batch"

    @cached_property
    def users_of_one(self) -> int:
        """Requests that a replica serves at a time, rounded up. Replicas are identical machines."""
        in_flight = operating_point(self.deployment, self.users, self.replicas).in_flight
        return min(math.ceil(in_flight / self.replicas), self.deployment.max_concurrency)

    @property
    def middle_context(self) -> float:
        """Context length in tokens halfway through the answer."""
        return self.prompt_tokens + self.new_tokens / 2


def prepare_gpu_estimate(request: EstimateRequest) -> PreparedGpuEstimate:
    """Load the files of a request for GPUs, fill in its defaults, and check that all users fit.

    The files describe the model, the GPU and the serving stack (the software that serves models).

    Raises:
        BadInput: A name is unknown, a file is missing or cannot be used, or the KV caches of the
            users do not fit. The message says how many users fit.
        DoesNotFit: The weights do not fit.
    """
    prepared_estimate = prepare_gpus(request)
    shape, option = prepared_estimate.deployment.shape, f"--{prepared_estimate.users_option}"
    requests = prepared_estimate.replicas if shape.think_s else prepared_estimate.users  # pausing users may wait
    check_users(prepared_estimate.server, requests, shape, option, prepared_estimate.replicas)
    return prepared_estimate


def prepare_gpus(request: EstimateRequest) -> PreparedGpuEstimate:
    """Load the model, GPU and serving stack of a request, and fill in its defaults.

    Unlike `prepare_gpu_estimate`, this function does not check whether the KV caches of the users
    fit.

    1. Check the options.
    2. Load model, GPU and serving stack.
    3. Choose the number of GPUs and the place of the draft.
    4. Choose the numbers of users and replicas.

    Raises:
        BadInput: A name is unknown, or a file is missing or cannot be used.
        DoesNotFit: The weights do not fit.
    """
    request = dataclasses.replace(request, workload=request.workload.with_named_lengths())
    assert request.gpu is not None  # callers use this function for requests with a GPU only
    # 1. Options.
    check_options(request)
    parallelism = request.gpu_serving.parallelism or TENSOR
    # 2. Model, GPU and serving stack.
    loaded_model = load_model(request.model, with_weights=False)
    server = _server(request, loaded_model.spec, parallelism)
    gpu, spec = server.gpu, server.spec
    draft_model = (
        None if request.drafts.draft_model is None else load_draft_model(request.drafts.draft_model, loaded_model).spec
    )
    # 3. The number of GPUs and the draft, which needs the final number of GPUs.
    prompt, new = request.workload.lengths(spec.context_limit)
    if request.gpu_serving.gpus is None:
        one_gpu = dataclasses.replace(server, draft=_draft(request, server, draft_model, prompt + new / 2))
        parallelism_of_fewest = dataclasses.replace(server.parallelism, gpus=one_gpu.fewest_gpus() or gpu.linked_gpus)
        server = dataclasses.replace(server, parallelism=parallelism_of_fewest)
    server = dataclasses.replace(server, draft=_draft(request, server, draft_model, prompt + new / 2))
    check_heads(server)
    if prompt + new > spec.context_limit:
        options = f"--prompt-len {prompt} --new-tokens {new}"
        raise BadInput(f"{options}: {spec.name} supports at most {spec.context_limit:,} tokens in total")
    # 4. Users and replicas.
    economics = load_gpu_economics(gpu, request.costs.economics, own_price(request.costs.price, (gpu.name,)))
    deployment = GpuDeployment(server=server, shape=_shape(request, prompt, new), economics=economics)
    users = _users(request, deployment)
    replicas = Goal(users=users, replicas=request.replicas).replicas_for(users_with_room(deployment))
    notes = (dtype_note(loaded_model, request.types.dtype), unused_prices_note(request.costs.price, (gpu.name,)))
    return PreparedGpuEstimate(
        request=request,
        server=server,
        acceptance=None if request.draft is None else read_acceptance(request.draft),
        stack=str(request.gpu_serving.stack or STACK),
        gpu=str(request.gpu),
        parallelism=parallelism,
        users=users,
        replicas=replicas,
        prompt_tokens=prompt,
        new_tokens=new,
        economics=economics,
        note="; ".join(filter(None, notes)) or None,
    )


def _shape(request: EstimateRequest, prompt_tokens: int, new_tokens: int) -> RequestShape:
    """Return the lengths of the requests of all users, and the pause between them.

    Only whole blocks of a shared prefix are reused.

    Raises:
        BadInput: The requested number of shared tokens is negative or not less than that of the prompt.
    """
    prefix_tokens = request.workload.shared_tokens(prompt_tokens) // BLOCK_TOKENS * BLOCK_TOKENS
    return RequestShape(
        prompt_tokens=prompt_tokens, new_tokens=new_tokens, prefix_tokens=prefix_tokens, think_s=request.think_s
    )


def _server(request: EstimateRequest, spec: ModelSpec, parallelism: str) -> GpuServer:
    """Return the timing model of the requested GPUs, or of one GPU if no number is requested.

    Args:
        request: The request.
        spec: The model.
        parallelism: How the model is partitioned across the GPUs.

    Raises:
        BadInput: A name is unknown, or experts are to be divided and the model has none.
    """
    assert request.gpu is not None
    gpu = load_gpu(request.gpu)
    if spec.experts is None and parallelism != TENSOR:
        raise BadInput(f"--parallelism {parallelism}: {spec.name} has no experts; leave it out, or give {TENSOR}")
    return GpuServer(
        spec=spec,
        weights=weight_format(spec, request.types.dtype),
        gpu=gpu,
        stack=load_stack(request.gpu_serving.stack or STACK, gpu.generation),
        parallelism=Parallelism(
            gpus=request.gpu_serving.gpus or 1,
            attention_by_data=parallelism == DATA,
            whole_experts=parallelism in (EXPERTS, DATA),
        ),
        routing=read_routing(request.serving.routing, spec),
    )


def _draft(
    request: EstimateRequest, server: GpuServer, draft_model: ModelSpec | None, context_tokens: float
) -> GpuServer | None:
    """Return the timing model of the draft head or draft model on GPUs; None if there is none.

    A draft head is an additional layer of the model. A draft model has the number format of its
    published weights. It is divided over all GPUs or stored on one GPU, whichever is faster.

    Args:
        request: The request.
        server: The model on its GPUs.
        draft_model: The draft model; None for a draft head.
        context_tokens: Context length for which the two placements are compared.
    """
    if request.draft is None:
        return None
    if draft_model is None:
        return server.draft_head
    on_one_gpu, over_all_gpus = (
        dataclasses.replace(
            server,
            spec=draft_model,
            weights=weight_format(draft_model),
            parallelism=Parallelism(gpus=n),
            routing=EVEN,
        )
        for n in (1, server.parallelism.gpus)
    )
    return min(on_one_gpu, over_all_gpus, key=lambda draft: draft.draft_s(1, 1, context_tokens))


def _users(request: EstimateRequest, deployment: GpuDeployment) -> int:
    """Return the number of users to estimate: the requested number, or the best for the objective.

    By default, this is one user for the objective latency. For throughput and cost, it is the
    number of users above which throughput no longer rises. ``--users`` and ``--batch`` have the
    same meaning on GPUs, because a decode pass is for all users.

    Args:
        request: The request.
        deployment: The model on the GPUs.

    Raises:
        BadInput: ``--users`` and ``--batch`` differ.
    """
    users, batch = request.serving.users, request.serving.batch
    if users is not None and batch is not None and users != batch:
        raise BadInput(f"--users {users} and --batch {batch}: GPUs decode for all users at once; leave out --batch")
    if users or batch or request.serving.objective in (None, LATENCY):
        return users or batch or 1
    return max(1, saturating_users(deployment))

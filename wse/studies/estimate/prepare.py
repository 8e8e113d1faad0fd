"""PreparedEstimate: a checked EstimateRequest with all files loaded and defaults filled in."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from wse.compiler.options import check_takes_drafts
from wse.errors import BadInput
from wse.hardware.live_mesh import logical_wafer
from wse.models.load import LoadedModel, load_model
from wse.models.spec import ModelSpec
from wse.serving.economics import Economics, load_economics
from wse.serving.goal import LATENCY, Goal
from wse.serving.network import Network, load_network
from wse.serving.operating_point import RequestShape
from wse.serving.prices import WAFER, own_price, unused_prices_note
from wse.studies.estimate.checks import check_options
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.basis import (
    PreparedPlacement,
    check_context,
    check_pass,
    dtype_note,
    load_basis,
    placement_options,
)
from wse.studies.options.drafts.acceptance import DraftAcceptance, read_acceptance
from wse.studies.options.drafts.draft import check_vocabulary
from wse.studies.options.listed_regions import check_listed
from wse.studies.options.routing import read_routing
from wse.studies.options.serving import LENGTH
from wse.studies.options.settings import with_settings


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedEstimate(PreparedPlacement):
    """A request for an estimate on wafers, with files loaded and defaults filled in.

    Only the layout of the wafers remains to be chosen.

    Attributes:
        request: The request. Settings such as ``wafer.clock_hz=x2`` are converted to numbers.
        economics: Power and price of a wafer.
        network: Network and service delays between a remote user and the machine.
        acceptance: Probabilities that draft tokens are accepted; None without speculative decoding.
    """

    request: EstimateRequest
    economics: Economics
    network: Network
    acceptance: DraftAcceptance | None = None

    @property
    def goal(self) -> Goal:
        """Users, replicas and objective for which the layout of the wafers is chosen.

        Users may not wait if all of them must also fit with drafts on this layout (with a draft
        model), or on as many replicas as this layout needs (with a draft head and ``--replicas
        auto``).
        """
        request = self.request
        has_own_layout = request.drafts.draft_model is None and request.replicas is not None  # the model with a head
        return Goal(
            users=request.serving.users,
            replicas=request.replicas,
            objective=request.serving.objective or LATENCY,
            users_may_wait=self.acceptance is None or has_own_layout,
        )

    def serves_one_user(self, goal: Goal) -> bool:
        """Return whether a goal asks for the lowest latency of machines that serve one user at a time.

        A goal without a number of users is for the users of one pass. With latency limits, layouts
        that are not the fastest may be needed.
        """
        is_for_one = self.options.batch == 1 and (goal.requests or 1) <= (goal.replicas or 1)
        return is_for_one and goal.objective == LATENCY and not goal.limits_s

    @property
    def prompt_len(self) -> int:
        """Length of each user's prompt in tokens."""
        return self.options.prompt_tokens[0]

    @property
    def cached_users(self) -> int:
        """Number of users whose KV caches must fit on a replica at the same time.

        It is 0 if no number of users is requested, if users pause and may therefore wait for room,
        or if the number of replicas is chosen automatically.
        """
        users, replicas = self.request.serving.users, self.request.replicas
        return 0 if users is None or replicas is None or self.shape.think_s else math.ceil(users / replicas)

    @property
    def shape(self) -> RequestShape:
        """Lengths of the requests of all users, and the pause between them."""
        return RequestShape(
            prompt_tokens=self.prompt_len,
            new_tokens=self.new_tokens,
            prefix_tokens=self.options.prefix_tokens,
            think_s=self.request.think_s,
        )

    @property
    def note(self) -> str | None:
        """Note about values that the user may not expect; None if there are none.

        It mentions lengths that were shortened because the context is limited, an element type that
        was assumed because the model's files do not specify one, and prices that are not used.
        """
        notes = (
            self._lengths_note,
            dtype_note(self.loaded, self.request.types.dtype),
            unused_prices_note(self.request.costs.price, (WAFER, self.whole.name)),
        )
        return "; ".join(filter(None, notes)) or None

    @property
    def _lengths_note(self) -> str | None:
        """Sentence about default lengths that were shortened to fit the context, or None."""
        lengths = [
            ("of prompt", self.prompt_len, self.request.workload.prompt_len),
            ("generated", self.new_tokens, self.request.workload.new_tokens),
        ]
        short_lengths = [
            f"{count:,} {'token' if count == 1 else 'tokens'} {token_kind}"
            for token_kind, count, requested_count in lengths
            if requested_count is None and count < LENGTH
        ]
        if not short_lengths:
            return None
        limit = self.request.context or self.spec.context_limit
        limit_origin = f"of --context {limit}" if self.request.context else f"that {self.spec.name} supports"
        return (
            f"{' and '.join(short_lengths)} instead of {LENGTH:,}, for a total of the {limit:,} tokens {limit_origin}"
        )


def prepare_estimate(request: EstimateRequest) -> PreparedEstimate:
    """Load the files that an estimate request names, and fill in its defaults.

    1. Check the options that can be checked without loading files.
    2. Load the model, wafer, software profile and prices.
    3. Determine the prompt and answer lengths, and the compiler options.
    4. Determine the mesh of usable PEs, which is smaller than the wafer's if there are dead PEs.
       Check that the regions of a mapping file fit on it.

    Raises:
        UnknownName: A name in the request is unknown.
        BadInput: A file is missing or cannot be used, a number is out of range, or options
            contradict each other.
    """
    # 1. Options.
    request = with_settings(replace(request, workload=request.workload.with_named_lengths()))
    check_options(request)
    # 2. Model, wafer, software profile and prices.
    basis = load_basis(request, fetches_weights=False)
    if request.draft is not None:
        check_takes_drafts(basis.spec)
    if request.drafts.draft_model is not None:
        load_draft_model(request.drafts.draft_model, basis.loaded)
    price = own_price(request.costs.price, (WAFER, basis.whole.name))
    economics = load_economics(basis.whole, request.costs.economics, price)
    wafer = basis.mesh or basis.whole
    # 3. Lengths and options of the compiler.
    prompt_len, new_tokens = _lengths(request, basis.spec)
    context, prompt_tokens = request.context or prompt_len + new_tokens, (prompt_len,) * (request.serving.batch or 1)
    check_pass(request.verify_tokens, context, prompt_len)
    other_options = {
        "prefix_tokens": request.workload.shared_tokens(prompt_len),
        "capacity": request.capacity,
        "verify_tokens": request.verify_tokens or 0,
        "routing": read_routing(request.serving.routing, basis.spec),
    }
    options = placement_options(request, basis, context, prompt_tokens, **other_options)
    # 4. The mesh that programs see.
    wafer, meshes = logical_wafer(wafer, basis.defects, options.wafers, grow_to=None)
    check_listed(options, basis.spec, wafer, live=bool(meshes))
    return PreparedEstimate(
        request=request,
        loaded=basis.loaded,
        whole=basis.whole,
        wafer=wafer,
        software=basis.software,
        options=options,
        economics=economics,
        network=load_network(request.network),
        acceptance=None if request.draft is None else read_acceptance(request.draft),
        new_tokens=new_tokens,
        defects=basis.defects,
        meshes=meshes,
    )


def load_draft_model(name: str | Path, target: LoadedModel) -> LoadedModel:
    """Load a draft model without its weights, and check that it has the target's vocabulary.

    Args:
        name: Name or path of the draft model.
        target: Model that verifies the draft tokens.

    Raises:
        BadInput: The two models have different vocabularies.
    """
    draft = load_model(name, with_weights=False)
    remedy = "give a draft with the model's own vocabulary, or leave it out for a head"
    check_vocabulary(f"--draft-model {name}", draft, target, remedy)
    return draft


def _lengths(request: EstimateRequest, spec: ModelSpec) -> tuple[int, int]:
    """Return a request's prompt-token and new-token counts, with defaults filled in.

    Raises:
        BadInput: The tokens exceed the requested context, or the model's maximum context.
    """
    check_context(request.context, spec)
    limit = request.context or spec.context_limit
    prompt_len, new_tokens = request.workload.lengths(limit)
    tokens = prompt_len + new_tokens
    if tokens > limit:
        lengths = (("--prompt-len", request.workload.prompt_len), ("--new-tokens", request.workload.new_tokens))
        given_options = [f"{option} {length}" for option, length in lengths if length is not None] or ["a prompt"]
        if request.workload.workload_name is not None:
            given_options = [f"--workload {request.workload.workload_name}:", *given_options]
        limit_origin, larger_models = f"--context {limit}", ""
        if request.context is None:
            limit_origin = f"the {limit:,} tokens that {spec.name} supports"
            larger_models = ", or a model with a larger context (wse models lists them)"
        raise BadInput(
            f"{' '.join(given_options)}: {tokens:,} tokens are more than {limit_origin}; "
            f"give at most {limit:,} prompt and new tokens in total{larger_models}"
        )
    return prompt_len, new_tokens

"""Validation of a serving request, and PreparedServe, with loaded machines and a workload."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from wse.errors import BadInput, UnknownName
from wse.files import path_exists
from wse.models.load import load_model
from wse.serving.goal import THROUGHPUT
from wse.serving.prices import prices_of_gpu, prices_without_gpus
from wse.serving.simulation.arrivals import ARRIVALS
from wse.serving.simulation.workload import Workload, WorkloadOptions, draw_workload
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.basis import check_context
from wse.studies.options.option import replace_options
from wse.studies.serve_sim.check_options import check_draft_tokens, check_options, given_value
from wse.studies.serve_sim.options import LOAD, OWN, SKIP
from wse.studies.serve_sim.prefill_machine import Placement, prefill_errors, prefill_machine, prepare_machine
from wse.studies.serve_sim.request import ServeRequest
from wse.studies.serve_sim.traces.read_trace import Trace, read_trace

REQUESTS: Final = 10_000
REQUESTS_PER_USER: Final = 10
"""Minimum number of requests per user by default, so that start and end of a closed loop matter little."""
LONGEST: Final = 4
"""Maximum request length relative to the mean, if lengths vary and no context is specified."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedServe:
    """A validated serving request. Machines and workload are known, but no pass is timed yet.

    Attributes:
        request: The serving request with all options.
        decode: The decode machine.
        prefill: The separate machine that reads prompts. None if the decode machine reads them.
        context: Maximum number of tokens per request.
        workload: The users' requests. Until the arrival rate is known, random requests arrive at a
            rate of one per second.
        typical: Requests whose mean lengths determine the machine: those of the trace, or random
            requests that depend neither on the number of requests nor on the seed.
        trace: The file of recorded requests that are simulated; None if requests are random.
    """

    request: ServeRequest
    decode: Placement
    prefill: Placement | None
    context: int
    workload: Workload
    typical: Workload
    trace: Trace | None

    @property
    def shares_wafers(self) -> bool:
        """True if prompts are read on a separate part of the same wafers."""
        return self.request.prefilling.prefill_mesh is not None

    @property
    def has_times(self) -> bool:
        """True if the arrival times come from a trace and must not change."""
        return self.trace is not None

    @property
    def mean_tokens(self) -> int:
        """Mean number of tokens of a typical request, prompt plus answer, rounded up."""
        return math.ceil(float(self.typical.prompt_tokens.mean() + self.typical.new_tokens.mean()))

    @property
    def load(self) -> float:
        """Requested or default arrival rate, as a fraction of the service's capacity."""
        return LOAD if self.request.traffic.load is None else self.request.traffic.load

    @property
    def rate_of_users(self) -> int | None:
        """Number of users from which the arrival rate is computed, or None.

        Each user sends the next request when the previous answer ends. The number is None if
        arrival times come from a trace or no number of users is given.
        """
        return None if self.has_times else self.request.base.serving.users


def prepare_serve(request: ServeRequest) -> PreparedServe:
    """Validate a serving request, load the named files, and generate or read the users' requests.

    Raises:
        BadInput: An option is invalid, or an item that it names, such as a model or a file, is
            missing or unusable. The subclass indicates the cause.
    """
    check_options(request)
    if str(request.arrivals) in ARRIVALS:
        request = replace(request, base=replace(request.base, workload=request.base.workload.with_named_lengths()))
        trace, (workload, typical, context) = None, _drawn_requests(request)
    else:
        trace, workload, context = _requests_of_trace(request, _trace_path(request))
        typical = workload
    check_draft_tokens(request, context)
    prompt, answer = (max(1, int(n.mean())) for n in (typical.prompt_tokens, typical.new_tokens))
    is_shared_by_all = request.keeps_prefixes and _prefix_count(request) == 1
    prefix = min(request.base.workload.prefix_tokens or 0, prompt - 1) if is_shared_by_all else 0
    placement = _decode_request(request, prompt_len=prompt, new_tokens=answer, prefix_tokens=prefix, context=context)
    decode, prefill = prepare_machine(placement), None
    if request.prefilling.prefill == OWN:
        with prefill_errors(request):
            prefill = prefill_machine(request, placement)
    return PreparedServe(
        request=request,
        decode=decode,
        prefill=prefill,
        context=context,
        workload=workload,
        typical=typical,
        trace=trace,
    )


def _trace_path(request: ServeRequest) -> Path:
    """Return the path of the trace named by ``--arrivals``.

    Raises:
        UnknownName: ``--arrivals`` is neither a known random process nor a file.
        BadInput: Options for random requests are specified as well.
    """
    lengths, path = request.base.workload, Path(request.arrivals)
    if lengths.workload_name is not None:
        raise BadInput(f"--workload {lengths.workload_name}: {path} already defines the requests; leave it out")
    if not path.suffix and not path_exists(str(path)):
        raise UnknownName("arrivals", str(path), (*ARRIVALS, "a file with a trace"))
    properties = ("--users", "--load", "--prompt-len", "--new-tokens", "--prefix-tokens", "--length-cv", "--fast-share")
    for option in properties:
        if (value := given_value(request, option)) is not None:
            raise BadInput(f"{option} {value:g}: {path} already defines the requests; leave it out")
    return path


def _requests_of_trace(request: ServeRequest, path: Path) -> tuple[Trace, Workload, int]:
    """Read the users' requests from a trace, and scale their arrival times as requested.

    Returns:
        The trace, the requests that are simulated, and the context length in tokens that the
        machine must support.
    """
    traffic, context = request.traffic, request.base.context
    spec = load_model(request.base.model, with_weights=False).spec
    check_context(context, spec)
    made_for = f"the {spec.context_limit:,} tokens that {spec.name} supports"
    trace = read_trace(
        path,
        context=context or spec.context_limit,
        limit_source=made_for if context is None else f"--context {context}",
        skips_too_long=traffic.too_long == SKIP,
        max_requests=traffic.requests,
    )
    workload = trace.workload
    if traffic.time_scale is not None:
        workload = replace(workload, arrival_s=workload.arrival_s * traffic.time_scale)
    if traffic.rate is not None:
        workload = workload.at_rate(traffic.rate)
    return trace, workload, context or workload.max_tokens


def _drawn_requests(request: ServeRequest) -> tuple[Workload, Workload, int]:
    """Generate random requests of users.

    Returns:
        The requests, typical requests (`PreparedServe.typical`), and the context length in tokens
        that the machine must support.

    Raises:
        BadInput: The lengths exceed the context, or the number of shared tokens is negative or not
            less than that of the prompt.
    """
    base, traffic = request.base, request.traffic
    spec = load_model(base.model, with_weights=False).spec
    check_context(base.context, spec)
    limit = base.context or spec.context_limit
    lengths = _decode_request(
        request, prompt_len=base.workload.prompt_len, new_tokens=base.workload.new_tokens, context=base.context
    )
    prepare_machine(lengths)  # checks the lengths
    prompt, answer = base.workload.lengths(limit)
    if prompt + answer > limit:  # GPUs have no compiled context
        raise BadInput(
            f"--prompt-len {prompt} --new-tokens {answer}: {prompt + answer:,} tokens are more than --context {limit}; "
            f"give at most {limit:,} prompt and new tokens in total"
        )
    named_workload = base.workload.named_workload
    if base.workload.prefix_tokens is None and named_workload is not None:
        prefix = named_workload.prefix_tokens(prompt)
    else:
        prefix = base.workload.shared_tokens(prompt)
    lengths_cv = (0.0, 0.0) if named_workload is None else (named_workload.prompt_cv, named_workload.new_cv)
    prompt_cv, answer_cv = lengths_cv if traffic.length_cv is None else (traffic.length_cv,) * 2
    times = LONGEST if prompt_cv or answer_cv else 1
    context = base.context or min(times * (prompt + answer), limit)
    options = WorkloadOptions(
        requests=traffic.requests or max(REQUESTS, REQUESTS_PER_USER * (base.serving.users or 0)),
        arrivals=next(name for name in ARRIVALS if name == request.arrivals),
        burst=traffic.burst,
        prompt_tokens=prompt,
        new_tokens=answer,
        prompt_cv=prompt_cv,
        answer_cv=answer_cv,
        context=context,
        fast_share=traffic.fast_share,
        prefix_tokens=prefix,
        prefixes=_prefix_count(request),
        scales_prefixes=_has_session_prefixes(request),
        seed=traffic.seed,
    )
    typical = draw_workload(replace(options, requests=REQUESTS, seed=0))
    return replace(draw_workload(options), think_s=base.think_s), typical, context


def _has_session_prefixes(request: ServeRequest) -> bool:
    """Return whether each prompt of the workload begins with the history of its session."""
    named_workload = request.base.workload.named_workload
    return named_workload is not None and named_workload.prefix_scope == "session"


def _prefix_count(request: ServeRequest) -> int:
    """Return the number of different shared prefixes: by default one, or one for each session.

    Raises:
        BadInput: The number is needed, but neither it nor the number of users is specified.
    """
    traffic, users = request.traffic, request.base.serving.users
    if traffic.prefixes is not None:
        return traffic.prefixes
    if not _has_session_prefixes(request) or request.base.workload.prefix_tokens == 0:
        return 1
    if users is None and request.prefix_option is not None:
        options = f"{request.prefix_option} --workload {request.base.workload.workload_name}"
        raise BadInput(
            f"{options}: each session has a prefix of its own; give the number of sessions as --users or --prefixes"
        )
    return users or 1


def _decode_request(request: ServeRequest, **lengths: int | None) -> EstimateRequest:
    """Return the request for the decode machine. On wafers, its default objective is throughput.

    The price of the prefill machine is left out if that machine is of a different type (wafers or
    GPUs).

    Args:
        request: The serving request.
        lengths: Prompt tokens, of them cached ones, new tokens and context length; None for a
            default. GPUs need no context length.
    """
    base, price, prefilling = request.base, request.base.costs.price, request.prefilling
    if prefilling.prefill_gpu is not None:
        price = prices_without_gpus(price, [prefilling.prefill_gpu])
    elif prefilling.prefill_wafer is not None and base.gpu is not None:
        price = prices_of_gpu(price, base.gpu)
    placement = replace_options(
        base,
        **lengths | {"context": None if base.gpu is not None else lengths["context"]},
        draft=request.draft,
        price=price,
        replicas=1 if base.serving.users is None else base.replicas,
    )
    return (
        placement
        if base.gpu is not None
        else replace_options(placement, objective=base.serving.objective or THROUGHPUT)
    )

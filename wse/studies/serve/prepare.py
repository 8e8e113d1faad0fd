"""A ServeRequest, checked, with its requests drawn or read and everything loaded that serves them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from wse.errors import BadInput, UnknownName
from wse.hardware.mesh import parse_mesh
from wse.models.load import load_model
from wse.serving.prices import prices_of_gpu, prices_without_gpus
from wse.serving.simulation.workload import ARRIVALS, Workload, WorkloadOptions, draw_workload
from wse.studies.estimate.gpus.prepare import PreparedGpuEstimate, check_machine, prepare_gpu_estimate
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.basis import check_context
from wse.studies.options.option import check_counts
from wse.studies.serve.arrivals_file import read_arrivals
from wse.studies.serve.prefill_options import prefill_errors
from wse.studies.serve.request import BATCHING, DISPATCHES, LOAD, OWN, PREFILL_PLACES, STATIC, ServeRequest

REQUESTS: Final = 10_000
MOST_REQUESTS: Final = 1_000_000
LONGEST: Final = 4
"""Times the mean that requests of different lengths may have, where no context was asked for."""
MOST_CV: Final = 10.0
MOST_LATENCY_US: Final = 1e9
MOST_DRAFTED: Final = 64
"""Tokens of a draft; no measured one has as many."""


Placement = PreparedEstimate | PreparedGpuEstimate
"""A model on wafers, or on GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedServe:
    """A request with everything loaded and decided but the costs of passes.

    Attributes:
        request: The request.
        decode: The placement that decodes.
        prefill: The placement that reads prompts, where that is another.
        context: Tokens that the longest request may have.
        workload: The requests; those that were drawn come at one a second, until their rate is known.
        has_times: Whether the times of arrival are to be kept as they are, from a file.
        beside: Whether prompts are read on a part of the same wafers.
    """

    request: ServeRequest
    decode: Placement
    prefill: Placement | None
    context: int
    workload: Workload
    has_times: bool
    beside: bool

    @property
    def load(self) -> float:
        """The load that was asked for, where no rate was."""
        return LOAD if self.request.load is None else self.request.load


def prepare_serve(request: ServeRequest) -> PreparedServe:
    """Load and check all that a request names.

    Raises:
        BadInput and its kinds: something that was named is missing or cannot be used.
    """
    _check(request)
    is_drawn = str(request.arrivals) in ARRIVALS
    workload, context = _drawn(request) if is_drawn else _read(request, _arrivals_path(request))
    _check_draft_tokens(request, context)
    prompt, answer = (max(1, int(n.mean())) for n in (workload.prompt_tokens, workload.new_tokens))
    placement = _decode_request(request, prompt_len=prompt, new_tokens=answer, context=context)
    return PreparedServe(
        request=request,
        decode=_prepare(placement),
        prefill=_own_prefill(request, placement) if request.prefill == OWN else None,
        context=context,
        workload=workload,
        has_times=not is_drawn,
        beside=request.prefill_mesh is not None,
    )


def _check(request: ServeRequest) -> None:
    """Raise BadInput for an option that is out of range, or that another one leaves without meaning."""
    check_counts(
        requests=request.requests,
        burst=request.burst,
        max_users=request.max_users,
        chunk=request.chunk,
        prefill_wafers=request.prefill_wafers,
        prefill_gpus=request.prefill_gpus,
        prefix_tokens=request.prefix_tokens,
        prefixes=request.prefixes,
        draft_tokens=request.draft_tokens,
    )
    if request.requests is not None and request.requests > MOST_REQUESTS:
        message = f"--requests {request.requests}: give at most {MOST_REQUESTS:,}"
        raise BadInput(message)
    _check_numbers(request)
    if request.batching not in BATCHING:
        raise UnknownName("batching", request.batching, BATCHING)
    if request.prefill not in PREFILL_PLACES:
        raise UnknownName("place of prefill", request.prefill, PREFILL_PLACES)
    if request.rate is not None and request.load is not None:
        message = "--rate and --load: one follows from the other; give one of them"
        raise BadInput(message)
    if request.dispatch not in DISPATCHES:
        raise UnknownName("dispatch", request.dispatch, DISPATCHES, where="--dispatch")
    _check_replicas(request)
    is_static, has_own, on_gpus = request.batching == STATIC, request.prefill == OWN, request.base.gpu is not None
    prompts_on_gpus = request.prefill_gpu is not None or (on_gpus and request.prefill_wafer is None)
    for option, is_given, needs, is_there in (
        ("--batch-wait", request.batch_wait is not None, "--batching static", is_static),
        ("--prefill-wafers", request.prefill_wafers is not None, "--prefill own", has_own),
        ("--prefill-mesh", request.prefill_mesh is not None, "--prefill own", has_own),
        ("--prefill-gpus", request.prefill_gpus is not None, "--prefill own", has_own),
        ("--prefill-wafer", request.prefill_wafer is not None, "--prefill own", has_own),
        ("--prefill-wafer", request.prefill_wafer is not None, "--gpu", on_gpus),
        ("--prefill-gpu", request.prefill_gpu is not None, "--prefill own", has_own),
        ("--prefill-gpus", request.prefill_gpus is not None, "--gpu or --prefill-gpu", prompts_on_gpus),
        ("--prefill-stack", request.prefill_stack is not None, "--prefill-gpu", request.prefill_gpu is not None),
        ("--kv-bandwidth", request.kv_bandwidth is not None, "--prefill own", has_own),
        ("--kv-latency", request.kv_latency is not None, "--prefill own", has_own),
        ("--prefill own", has_own, "--batching continuous", not is_static),
        ("--prefix-cache", request.prefix_cache, "--batching continuous", not is_static),
        ("--prefix-cache", request.prefix_cache, "--prefill same", not has_own),
        ("--fast-share", request.fast_share > 0, "--batching continuous", not is_static),
        ("--prefixes", request.prefixes != 1, "--prefix-tokens", request.prefix_tokens is not None),
        ("--draft-tokens", request.draft_tokens is not None, "--draft", request.draft is not None),
    ):
        if is_given and not is_there:
            message = f"{option}: needs {needs}; give that too, or leave it out"
            raise BadInput(message)
    for option, is_given in (
        ("--prefill-wafers", request.prefill_wafers is not None and request.prefill_wafer is None),
        ("--prefill-gpu", request.prefill_gpu is not None),
        ("--prefill-mesh", request.prefill_mesh is not None),
    ):
        if is_given and on_gpus:
            message = f"{option}: is of wafers that decode; leave it out, or leave out --gpu"
            raise BadInput(message)
    on_other, on_part = request.prefill_gpu is not None, request.prefill_mesh is not None
    for option, is_given, reason in (
        ("--prefill-wafers", on_other and request.prefill_wafers is not None, "GPUs read prompts"),
        ("--prefill-mesh", on_other and on_part, "GPUs read prompts"),
        ("--kv-bandwidth", on_part and request.kv_bandwidth is not None, "caches stay on a wafer"),
        ("--kv-latency", on_part and request.kv_latency is not None, "caches stay on a wafer"),
    ):
        if is_given:
            message = f"{option}: {reason}; leave it out"
            raise BadInput(message)


def _check_replicas(request: ServeRequest) -> None:
    """Raise BadInput for replicas in batches that wait, or whose number cannot be found."""
    replicas, is_drawn = request.base.replicas, str(request.arrivals) in ARRIVALS
    check_counts(replicas=replicas)
    if replicas == 1:
        return
    if request.batching == STATIC:
        message = f"--replicas {replicas or 'auto'}: needs --batching continuous; give that too, or leave it out"
        raise BadInput(message)
    if replicas is None and is_drawn and request.rate is None and request.base.users is None:
        message = "--replicas auto: the number follows from --users or --rate; give one of them"
        raise BadInput(message)


def _check_draft_tokens(request: ServeRequest, context: int) -> None:
    most = min(MOST_DRAFTED, context - 2)
    if request.draft_tokens is not None and request.draft_tokens > most:
        message = f"--draft-tokens {request.draft_tokens}: of a context of {context:,} tokens give at most {most}"
        raise BadInput(message)


def _check_numbers(request: ServeRequest) -> None:
    for option, value, most, what in (
        ("--rate", request.rate, 1e12, "requests a second"),
        ("--load", request.load, 1e6, "a share"),
        ("--batch-wait", request.batch_wait, 1e9, "seconds"),
        ("--ttft", request.ttft, 1e9, "seconds"),
        ("--tpot", request.tpot, 1e9, "seconds"),
        ("--kv-bandwidth", request.kv_bandwidth, 1e9, "GB/s"),
    ):
        if value is not None and not 0 < value <= most:
            message = f"{option} {value:g}: give {what} of more than 0"
            raise BadInput(message)
    for option, value, most, unit in (
        ("--length-cv", request.length_cv, MOST_CV, ""),
        ("--fast-share", request.fast_share, 1, ""),
        ("--kv-latency", request.kv_latency or 0.0, MOST_LATENCY_US, " µs"),
    ):
        if not 0 <= value <= most:
            message = f"{option} {value:g}: give a number from 0 to {most:g}{unit}"
            raise BadInput(message)


def _arrivals_path(request: ServeRequest) -> Path:
    """The file of arrivals that a request names. Raises BadInput where options of drawn requests are beside it."""
    path = Path(request.arrivals)
    if not path.suffix and not path.exists():
        raise UnknownName("arrivals", str(request.arrivals), (*ARRIVALS, "a CSV file"))
    base = request.base
    for option, value in (
        ("--rate", request.rate),
        ("--load", request.load),
        ("--requests", request.requests),
        ("--prompt-len", base.prompt_len),
        ("--new-tokens", base.new_tokens),
        ("--prefix-tokens", request.prefix_tokens),
        ("--length-cv", request.length_cv or None),
        ("--fast-share", request.fast_share or None),
    ):
        if value is not None:
            message = f"{option} {value:g}: {path} says what requests there are; leave it out"
            raise BadInput(message)
    return path


def _read(request: ServeRequest, path: Path) -> tuple[Workload, int]:
    """The requests of a file, and the context that they need."""
    context, spec = request.base.context, load_model(request.base.model, with_weights=False).spec
    check_context(context, spec)
    if context is not None:
        return read_arrivals(path, context, f"--context {context}"), context
    whose = f"the {spec.context_limit} tokens that {spec.name} was made for"
    workload = read_arrivals(path, spec.context_limit, whose)
    return workload, context or workload.most_tokens


def _drawn(request: ServeRequest) -> tuple[Workload, int]:
    """Requests that are drawn, and the context that they need. A prompt is longer than its prefix."""
    base = request.base
    spec = load_model(base.model, with_weights=False).spec
    check_context(base.context, spec)
    limit = base.context or spec.context_limit
    lengths = _decode_request(request, prompt_len=base.prompt_len, new_tokens=base.new_tokens, context=base.context)
    _prepare(lengths)  # refuses lengths that are more than the context
    prompt, answer = base.lengths(limit)
    if prompt + answer > limit:  # on GPUs, of which none is compiled
        message = (
            f"--prompt-len {prompt} --new-tokens {answer}: {prompt + answer} tokens are more than --context {limit}; "
            f"give at most {limit} together"
        )
        raise BadInput(message)
    prefix = request.prefix_tokens or 0
    if prefix >= prompt:
        message = f"--prefix-tokens {prefix}: give fewer than the {prompt} of --prompt-len"
        raise BadInput(message)
    times = LONGEST if request.length_cv else 1
    context = base.context or min(times * (prompt + answer), limit)
    options = WorkloadOptions(
        requests=request.requests or REQUESTS,
        arrivals=next(name for name in ARRIVALS if name == request.arrivals),
        burst=request.burst,
        prompt_tokens=prompt,
        new_tokens=answer,
        length_cv=request.length_cv,
        context=context,
        fast_share=request.fast_share,
        prefix_tokens=prefix,
        prefixes=request.prefixes,
        seed=request.seed,
    )
    return draw_workload(options), context


def _prepare(placement: EstimateRequest) -> Placement:
    """The placement of a request, on wafers or GPUs."""
    check_machine(placement)
    return prepare_estimate(placement) if placement.gpu is None else prepare_gpu_estimate(placement)


def _decode_request(request: ServeRequest, **lengths: int | None) -> EstimateRequest:
    """Return the placement that decodes, with the given prices of its machine alone."""
    placement, gpu = request.estimate_request(**lengths), request.base.gpu
    price = placement.price
    if request.prefill_gpu is not None:
        price = prices_without_gpus(price, [request.prefill_gpu])
    elif request.prefill_wafer is not None and gpu is not None:
        price = prices_of_gpu(price, gpu)
    return replace(placement, price=price)


def _other_machine(request: ServeRequest, placement: EstimateRequest) -> EstimateRequest:
    """The placement of the same model, types and lengths on GPUs where wafers decode, or on wafers where GPUs do."""
    shared = EstimateRequest(
        model=placement.model,
        dtype=placement.dtype,
        prompt_len=placement.prompt_len,
        new_tokens=placement.new_tokens,
        economics=placement.economics,
    )
    if request.prefill_gpu is not None:
        price = prices_of_gpu(request.base.price, request.prefill_gpu)
        gpu, gpus, stack = request.prefill_gpu, request.prefill_gpus, request.prefill_stack
        return replace(shared, gpu=gpu, gpus=gpus, stack=stack, price=price)
    assert request.prefill_wafer is not None
    assert request.base.gpu is not None  # `_check` has refused the request otherwise
    price = prices_without_gpus(request.base.price, [request.base.gpu])
    return replace(shared, wafer=request.prefill_wafer, wafers=request.prefill_wafers, price=price)


def _own_prefill(request: ServeRequest, placement: EstimateRequest) -> Placement:
    """The placement that reads prompts; errors on it name its own options."""
    with prefill_errors(request):
        return _prefill(request, placement)


def _prefill(request: ServeRequest, placement: EstimateRequest) -> Placement:
    """The placement that reads prompts: on wafers or GPUs of its own, or on a part of the wafers that decode."""
    placement = replace(placement, draft=None, draft_model=None, draft_place=None, users=None, replicas=1)
    if request.prefill_gpu is not None or request.prefill_wafer is not None:
        return _prepare(_other_machine(request, placement))
    if placement.gpu is not None:
        return prepare_gpu_estimate(replace(placement, gpus=request.prefill_gpus or placement.gpus))
    if request.prefill_mesh is None:
        return prepare_estimate(replace(placement, wafers=request.prefill_wafers or placement.wafers))
    if request.base.mesh is None or request.prefill_wafers is not None:
        message = (
            f"--prefill-mesh {request.prefill_mesh}: is beside the --mesh that decodes, on the same wafers; give "
            "--mesh, and no --prefill-wafers"
        )
        raise BadInput(message)
    prepared = prepare_estimate(replace(placement, mesh=request.prefill_mesh))
    sizes = [parse_mesh(mesh) for mesh in (request.base.mesh, request.prefill_mesh)]
    (rows, cols), (more_rows, more_cols) = sizes
    whole = prepared.whole
    is_below = rows + more_rows <= whole.mesh_rows and max(cols, more_cols) <= whole.mesh_cols
    is_beside = cols + more_cols <= whole.mesh_cols and max(rows, more_rows) <= whole.mesh_rows
    if not (is_below or is_beside):
        message = (
            f"--mesh {request.base.mesh} and --prefill-mesh {request.prefill_mesh}: a wafer has {whole.mesh_rows}x"
            f"{whole.mesh_cols} PEs, where they do not fit beside each other; give smaller ones"
        )
        raise BadInput(message)
    return prepared

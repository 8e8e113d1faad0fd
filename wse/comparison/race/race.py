"""The study of ``wse race``: the pace of an answer on wafers and GPUs of its own, and on such that others use too."""

from __future__ import annotations

from dataclasses import replace

from wse.comparison.race.alone import gpu_lane, wafer_lane
from wse.comparison.race.machines import on_gpus, on_wafers
from wse.comparison.race.result import LaneResult, RaceResult
from wse.comparison.race.shared import shared_lane
from wse.errors import BadInput
from wse.models.load import load_model
from wse.report.progress import OnProgress, ignore
from wse.report.terminal import plural
from wse.request.gpu_estimate_request import check_users, prepare_gpu_estimate
from wse.request.option import check_counts
from wse.request.race_request import FASTEST, SLOWEST, USERS, RaceRequest
from wse.serving.network import load_network


def race(request: RaceRequest, tokens: int, on_progress: OnProgress = ignore) -> RaceResult:
    """The paces of an answer of so many tokens, the quickest machine first.

    Raises:
        BadInput and its kinds: a speed beyond what can be seen, more users or requests than a machine serves, or as of
            ``wse estimate``.
    """
    _check(request)
    prompt_tokens = _prompt_tokens(request, tokens)
    base = replace(request.base, prompt_len=prompt_tokens, new_tokens=tokens)
    network, gpus = load_network(base.network), on_gpus(request, base)
    is_loaded = request.load is not None or request.rate is not None
    users = 1 if is_loaded else request.users or USERS
    check_users(prepare_gpu_estimate(gpus).server, users, prompt_tokens + tokens, "--users", "--prompt-len")
    on_progress(0, 4, "wafers")
    lanes: list[LaneResult] = [wafer_lane(on_wafers(request, base), tokens)]
    for number in dict.fromkeys((1, users)):
        on_progress(1, 4, plural(number, "user"))
        lanes.append(gpu_lane(replace(gpus, batch=number), network, tokens))
    if is_loaded:
        for done, machine in enumerate((on_wafers(request, base), gpus), 2):
            on_progress(done, 4, "wafers with others" if machine.gpu is None else "GPUs with others")
            lanes.append(shared_lane(request, machine, network, tokens))
    on_progress(4, 4, "")
    return RaceResult(
        model=str(base.model),
        tokens=tokens,
        prompt_tokens=prompt_tokens,
        lanes=tuple(sorted(lanes, key=lambda lane: lane.done_s)),
    )


def _check(request: RaceRequest) -> None:
    """Raise BadInput for an option that is out of range, or that another one leaves without meaning."""
    if not SLOWEST <= request.speed <= FASTEST:
        message = f"--speed {request.speed:g}: give a number from {SLOWEST:g} to {FASTEST:g}"
        raise BadInput(message)
    check_counts(users=request.users, gpus=request.gpus, prompt_len=request.base.prompt_len)
    if request.load is not None and request.rate is not None:
        message = "--rate and --load: one follows from the other; give one of them"
        raise BadInput(message)
    if request.load is not None and not 0 < request.load < 1:
        message = f"--load {request.load:g}: give a share above 0 and below 1, from which on a queue grows without end"
        raise BadInput(message)
    if request.rate is not None and not 0 < request.rate < 1e12:
        message = f"--rate {request.rate:g}: give requests a second of more than 0"
        raise BadInput(message)
    if request.users is not None and (request.load is not None or request.rate is not None):
        message = f"--users {request.users}: with --load and --rate users follow from the requests; leave it out"
        raise BadInput(message)


def _prompt_tokens(request: RaceRequest, tokens: int) -> int:
    """Tokens of the prompt before an answer of so many. Raises BadInput where both are more than the context."""
    base = request.base
    spec = load_model(base.model, with_weights=False).spec
    limit = min(base.context or spec.context_limit, spec.context_limit)
    if (base.prompt_len or 1) + tokens > limit:
        answer = "the answer" if request.text is None else f"--text {request.text}"
        prompt = "" if base.prompt_len is None else f" and --prompt-len {base.prompt_len}"
        whose = f"--context {limit}" if limit == base.context else f"the {limit:,} that {spec.name} was made for"
        message = f"{answer} of some {tokens:,} tokens{prompt}: more than {whose}; give a shorter text or prompt"
        raise BadInput(message)
    return replace(base, new_tokens=tokens).lengths(limit)[0]

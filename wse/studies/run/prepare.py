"""A RunRequest, checked, with everything loaded and its defaults filled in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from wse.backends.execute.sampling import Sampling
from wse.backends.execute.tiles import Source
from wse.compiler.options import Options
from wse.compiler.search.remedies import smallest_mesh
from wse.errors import BadInput, BadModel
from wse.hardware.live_mesh import logical_wafer
from wse.hardware.mesh import mesh_on
from wse.hardware.quantity import whole_number
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.load import LoadedModel
from wse.models.spec import ModelSpec
from wse.reports.terminal import plural
from wse.studies.options.basis import PreparedPlacement, check_context, check_pass, load_basis, placement_options
from wse.studies.options.draft import HOST, NGRAM, check_draft, draft_name, draft_place, has_draft, pass_tokens
from wse.studies.options.engine import RAY
from wse.studies.options.mapping_file import check_listed, mesh_of_listed
from wse.studies.options.option import check_counts
from wse.studies.options.settings import with_settings
from wse.studies.run.prompts import end_ids, prompt_ids, prompts_of
from wse.studies.run.request import RunRequest

NEW_TOKENS = 256
"""Tokens that are generated where the request does not say how many, if the context has room for them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedRun(PreparedPlacement):
    """A request with everything loaded and decided but the Program."""

    request: RunRequest
    prompts: tuple[tuple[int, ...], ...]  # token ids, a user each
    end_ids: tuple[int, ...]  # that generation stops at


def prepare(request: RunRequest, *, to_run: bool = False) -> PreparedRun:
    """Load and check all that a request names; weights too where it is ``to_run``.

    Raises:
        BadModel: there are no weights to run.
        BadInput and its kinds: something that was named is missing or cannot be used.
        DoesNotFit: no square mesh of the wafer stores the model (only when the mesh is left to be found).
    """
    request = with_settings(request)
    check_counts(wafers=request.wafers, new_tokens=request.inputs.new_tokens, context=request.context)
    check_sampling(request.sampling.rule())
    if request.weights is not None:
        weights_seed(request.weights)
    basis = load_basis(request, with_weights=request.weights is None)
    if to_run:
        weights_of(request, basis.loaded)
    spec, whole, software = basis.spec, basis.whole, basis.software
    prompts = tuple(prompt_ids(prompt, request, basis.loaded) for prompt in prompts_of(request))
    context, new_tokens = _lengths(request, spec, max(map(len, prompts)))
    _check_passes(request, context, prompts)
    verify_tokens = pass_tokens(request, context, max(map(len, prompts)))
    options = placement_options(
        request,
        basis,
        context,
        tuple(map(len, prompts)),
        verify_tokens=verify_tokens,
        verify_ids="host" if has_draft(request) and draft_place(request) == HOST else "wafer",
        sampling="host" if request.sampling.rule().on_host else "wafer",
        logits_out="prompt" if request.logits else "none",
    )
    wanted = basis.mesh or _smallest(spec, whole, software, options)
    grow_to = None if basis.mesh else whole
    wafer, meshes = logical_wafer(wanted, basis.defects, options.wafers, grow_to=grow_to)
    check_listed(options, spec, wafer, live=bool(meshes))
    return PreparedRun(
        request=request,
        loaded=basis.loaded,
        whole=whole,
        wafer=wafer,
        software=software,
        options=options,
        prompts=prompts,
        new_tokens=new_tokens,
        defects=basis.defects,
        meshes=meshes,
        end_ids=end_ids(basis.loaded, chat=request.inputs.chat),
    )


def _check_passes(request: RunRequest, context: int, prompts: Sequence[Sequence[int]]) -> None:
    """Check the passes that verify drafts, or that users take in turn.

    Raises:
        BadInput: they have more tokens than the context leaves; several users have drafts; or what cannot draw ids on
            the host is asked to.
    """
    check_draft(request)
    if request.drafts.verify_tokens not in (None, 1):
        check_pass(request.drafts.verify_tokens, context, max(map(len, prompts)))
    asked = (
        f"--verify-tokens {request.drafts.verify_tokens}"
        if request.drafts.draft is None
        else f"--draft {request.drafts.draft}"
    )
    if len(prompts) > 1 and has_draft(request):
        message = (
            f"{asked}: drafts are of one user, and there are {len(prompts)} prompts; "
            "give one, or --verify-tokens 1 for passes without drafts"
        )
        raise BadInput(message)
    in_passes = has_draft(request) or request.drafts.verify_tokens is not None
    if (
        in_passes
        and request.sampling.rule().on_host
        and (request.checkpoints.checkpoint is not None or request.engine == RAY)
    ):
        option = "--checkpoint" if request.checkpoints.checkpoint is not None else f"--engine {RAY}"
        message = (
            f"{asked}: {option} knows no draws of accepted tokens; leave out --temperature and --repetition-penalty"
        )
        raise BadInput(message)
    if request.checkpoints.checkpoint is not None and has_draft(request) and draft_name(request) != NGRAM:
        message = f"{asked}: --checkpoint keeps no state of a draft model; give --draft {NGRAM}, or leave one out"
        raise BadInput(message)


def weights_of(request: RunRequest, loaded: LoadedModel) -> Callable[[str], Source]:
    """Return the model's tensors by name: random ones where the request asks for them, else those of its files.

    Raises:
        BadModel: it has none.
        BadInput: random weights are requested without a seed.
    """
    if request.weights is not None:
        from wse.backends.execute.random_weights import RandomWeights  # brings numba, which wse compile does without

        return RandomWeights(loaded.spec, weights_seed(request.weights)).rows
    if loaded.checkpoint is None:
        model = request.model
        message = (
            f"{model}: has no weights to run; run it on random ones with --weights random:0, time it from its "
            f"configuration alone with wse estimate {model}, or give a GGUF file, or a folder with model.safetensors "
            "or its shards and their index"
        )
        raise BadModel(message)
    return loaded.checkpoint.rows


def weights_seed(text: str) -> int:
    """Return the seed of ``random:SEED``, in plain decimal digits.

    Raises BadInput for any other text, or one out of range.
    """
    seed = whole_number(text.partition(":")[2])
    if seed is None or not 0 <= seed <= LARGEST_SEED or text != f"random:{seed}":
        message = (
            f"--weights {text!r}: give random:SEED with a whole number from 0 to {LARGEST_SEED:,}, such as random:7; "
            "weights of a model's own are in its folder or GGUF file"
        )
        raise BadInput(message)
    return seed


def _lengths(request: RunRequest, spec: ModelSpec, prompt_tokens: int) -> tuple[int, int]:
    """Context and new tokens."""
    limit = min(request.context or spec.context_limit, spec.context_limit)
    check_context(request.context, spec)
    room = limit - prompt_tokens
    if room < (request.inputs.new_tokens or 1):
        wanted = request.inputs.new_tokens or 1
        message = (
            f"prompt of {plural(prompt_tokens, 'token')} plus {wanted} new: {prompt_tokens + wanted} is beyond "
            f"the context of {limit}; " + _room_remedy(room, prompt_tokens + wanted, spec.context_limit)
        )
        raise BadInput(message)
    new_tokens = request.inputs.new_tokens or min(NEW_TOKENS, room)
    return request.context or prompt_tokens + new_tokens, new_tokens


def _room_remedy(room: int, wanted: int, context_limit: int) -> str:
    """Return what to do where a context has ``room`` beside the prompt, and ``wanted`` tokens are requested in all."""
    remedies = [f"--new-tokens {room} or less"] if room > 0 else []
    remedies += [f"--context {wanted} or more"] if wanted <= context_limit else []
    return f"give {', '.join(remedies)}{', or ' if remedies else ''}a shorter prompt"


def _smallest(spec: ModelSpec, whole: WaferSpec, software: SoftwareProfile, options: Options) -> WaferSpec:
    if options.region is not None:
        return whole
    if options.listed:
        rows, cols = mesh_of_listed(options)
        return mesh_on(whole, min(rows, whole.mesh_rows), min(cols, whole.mesh_cols))
    mesh = smallest_mesh(spec, whole, software, options)
    return whole if mesh is None else mesh_on(whole, *mesh)


LARGEST_FACTOR: Final = 1e6  # of temperature and penalty: far beyond use, and no logit overflows
LARGEST_SEED: Final = 2**63 - 1


def check_sampling(sampling: Sampling) -> None:
    """Refuse what cannot be, or would have no effect.

    Raises:
        BadInput: a value is out of range, or limits a draw where the temperature is 0 and nothing is drawn.
    """
    if not 0.0 <= sampling.temperature < LARGEST_FACTOR:
        _refuse("temperature", sampling.temperature, "give 0 for greedy, or a positive number")
    if sampling.top_k < 0:
        _refuse("top-k", sampling.top_k, "give a number of at least 1, or 0 for no limit")
    if not 0.0 < sampling.top_p <= 1.0:
        _refuse("top-p", sampling.top_p, "give a number above 0, at most 1 (1: no limit)")
    if not 0.0 <= sampling.min_p <= 1.0:
        _refuse("min-p", sampling.min_p, "give a number from 0 (no limit) to 1")
    if not 1 / LARGEST_FACTOR <= sampling.repetition_penalty <= LARGEST_FACTOR:
        _refuse("repetition-penalty", sampling.repetition_penalty, "give a number above 0 (1: no penalty)")
    if not 0 <= sampling.seed <= LARGEST_SEED:
        _refuse("seed", sampling.seed, f"give a number from 0 to {LARGEST_SEED:,}")
    if sampling.temperature == 0:
        limits = (("top-k", sampling.top_k, 0), ("top-p", sampling.top_p, 1.0), ("min-p", sampling.min_p, 0.0))
        for name, value, none in limits:
            if value != none:
                _refuse(name, value, "nothing is drawn at temperature 0; give --temperature too, such as 0.8")


def _refuse(name: str, value: float, remedy: str) -> NoReturn:
    message = f"--{name} {value}: {remedy}"
    raise BadInput(message)

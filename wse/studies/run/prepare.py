"""Validation of a run request, and PreparedRun, which has its files loaded and defaults set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from wse.backends.execute.host_tokens.sampling import Sampling
from wse.backends.execute.weight_storage.tiles import Source
from wse.compiler.options import Options
from wse.compiler.search.smallest_mesh import smallest_mesh
from wse.errors import BadInput, BadModel
from wse.hardware.live_mesh import logical_wafer
from wse.hardware.quantity import whole_number
from wse.hardware.spec import SoftwareProfile, WaferSpec, mesh_on
from wse.models.load import LoadedModel
from wse.models.spec import ModelSpec
from wse.reports.number_text import plural
from wse.studies.options.amounts import check_counts
from wse.studies.options.basis import PreparedPlacement, check_context, check_pass, load_basis, placement_options
from wse.studies.options.drafts.draft import HOST, NGRAM, check_draft, draft_name, draft_place, has_draft, pass_tokens
from wse.studies.options.engine import RAY
from wse.studies.options.listed_regions import check_listed, mesh_of_listed
from wse.studies.options.settings import with_settings
from wse.studies.run.prompts import end_ids, prompt_ids, prompts_of
from wse.studies.run.request import RunRequest

NEW_TOKENS = 256
"""Default number of generated tokens, reduced if they do not fit in the context."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedRun(PreparedPlacement):
    """A validated run request with everything needed to compile and execute it.

    The model, wafer and software profile are loaded and all defaults are set. The Program has not
    been compiled yet.

    Attributes:
        request: The request, with the settings of ``--set`` applied.
        prompts: Token ids of each user's prompt.
        end_ids: Token ids that stop generation.
    """

    request: RunRequest
    prompts: tuple[tuple[int, ...], ...]
    end_ids: tuple[int, ...]


def prepare(request: RunRequest, *, to_run: bool = False) -> PreparedRun:
    """Check a run request, load the files that it names, and set its defaults.

    Args:
        request: The request.
        to_run: Whether the run will be executed. If so, the model must have weights.

    Raises:
        BadModel: The run will be executed, but the model has no weights.
        BadInput: An option is invalid, or an item that it names, such as a model or a file, is
            missing or unusable. The subclass indicates the cause.
        DoesNotFit: No mesh is specified, and no square mesh on the wafer can hold the model.
    """
    request = with_settings(request)
    check_counts(wafers=request.wafers, new_tokens=request.inputs.new_tokens, context=request.context)
    check_sampling(request.sampling.rule())
    if request.weights is not None:
        weights_seed(request.weights)
    basis = load_basis(request, with_weights=request.weights is None)
    if to_run:
        weights_of(request, basis.loaded)
    spec, full_wafer, software = basis.spec, basis.whole, basis.software
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
    requested_mesh = basis.mesh or _smallest_mesh(spec, full_wafer, software, options)
    grow_to = None if basis.mesh else full_wafer
    wafer, meshes = logical_wafer(requested_mesh, basis.defects, options.wafers, grow_to=grow_to)
    check_listed(options, spec, wafer, live=bool(meshes))
    return PreparedRun(
        request=request,
        loaded=basis.loaded,
        whole=full_wafer,
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
    """Check the options of verification passes, which run several new tokens of one user at once.

    ``--verify-tokens 1`` is also valid: each pass then runs only the next token of one user, and
    the users are served round-robin.

    Args:
        request: The request.
        context: Maximum number of tokens in a user's KV cache.
        prompts: Token ids of each user's prompt.

    Raises:
        BadInput: A pass has more tokens than fit in the context after the prompts, or there are
            drafts for several users. Or an unsupported combination is requested: random sampling
            with a checkpoint or on Ray, or a draft model with a checkpoint.
    """
    check_draft(request)
    draft, verify_tokens = request.drafts.draft, request.drafts.verify_tokens
    checkpoint = request.checkpoints.checkpoint
    if verify_tokens not in (None, 1):
        check_pass(verify_tokens, context, max(map(len, prompts)))
    draft_option = f"--verify-tokens {verify_tokens}" if draft is None else f"--draft {draft}"
    if len(prompts) > 1 and has_draft(request):
        raise BadInput(
            f"{draft_option}: drafts support a single prompt, but there are {len(prompts)}; "
            "give one, or --verify-tokens 1 for passes without drafts"
        )
    in_passes = has_draft(request) or verify_tokens is not None
    is_on_ray = request.engine_choice.engine == RAY
    if in_passes and request.sampling.rule().on_host and (checkpoint is not None or is_on_ray):
        option = "--checkpoint" if checkpoint is not None else f"--engine {RAY}"
        raise BadInput(
            f"{draft_option}: {option} does not allow sampling; leave out --temperature and --repetition-penalty"
        )
    if checkpoint is not None and has_draft(request) and draft_name(request) != NGRAM:
        raise BadInput(
            f"{draft_option}: --checkpoint cannot store a draft model; give --draft {NGRAM}, or leave --checkpoint out"
        )


def weights_of(request: RunRequest, loaded_model: LoadedModel) -> Callable[[str], Source]:
    """Return a function that looks up the weights of a tensor by name.

    The weights come from the model's files, or are random if requested.

    Raises:
        BadModel: The model has no weights.
        BadInput: Random weights are requested without a valid seed.
    """
    if request.weights is not None:
        from wse.backends.execute.weight_storage.random_weights import (
            RandomWeights,  # brings numba, which wse compile does without
        )

        return RandomWeights(loaded_model.spec, weights_seed(request.weights)).rows
    if loaded_model.checkpoint is None:
        model = request.model
        raise BadModel(
            f"{model}: has no weights to run; run it on random ones with --weights random:0, time it from its "
            f"configuration alone with wse estimate {model}, or give a GGUF file, or a folder with model.safetensors "
            "or its shards and their index"
        )
    return loaded_model.checkpoint.rows


def weights_seed(text: str) -> int:
    """Parse a string ``random:SEED`` and return the seed, which must consist of decimal digits.

    Raises:
        BadInput: The string has a different form, or the seed is out of range.
    """
    seed = whole_number(text.partition(":")[2])
    if seed is None or not 0 <= seed <= LARGEST_SEED or text != f"random:{seed}":
        raise BadInput(
            f"--weights {text!r}: give random:SEED with a whole number from 0 to {LARGEST_SEED:,}, such as random:7; "
            "weights of a model's own are in its folder or GGUF file"
        )
    return seed


def _lengths(request: RunRequest, spec: ModelSpec, prompt_tokens: int) -> tuple[int, int]:
    """Return the context length and the number of tokens to generate, with defaults filled in.

    Args:
        request: The request.
        spec: The model, whose context limit applies.
        prompt_tokens: Number of tokens in the longest prompt.

    Raises:
        BadInput: The prompt and the new tokens exceed the context.
    """
    limit = min(request.context or spec.context_limit, spec.context_limit)
    check_context(request.context, spec)
    room = limit - prompt_tokens
    min_tokens = request.inputs.new_tokens or 1
    if room < min_tokens:
        raise BadInput(
            f"prompt of {plural(prompt_tokens, 'token')} plus {min_tokens} new: {prompt_tokens + min_tokens} is beyond "
            f"the context of {limit}; " + _room_remedy(room, prompt_tokens + min_tokens, spec.context_limit)
        )
    new_tokens = request.inputs.new_tokens or min(NEW_TOKENS, room)
    return request.context or prompt_tokens + new_tokens, new_tokens


def _room_remedy(room: int, total_tokens: int, context_limit: int) -> str:
    """Return advice on how to make a request fit into the context, for an error message.

    The text suggests fewer new tokens, a longer context, or a shorter prompt.

    Args:
        room: Context minus prompt, in tokens; negative if the prompt is too long.
        total_tokens: Number of prompt tokens plus requested new tokens.
        context_limit: Maximum context of the model.
    """
    remedies = [f"--new-tokens {room} or less"] if room > 0 else []
    remedies += [f"--context {total_tokens} or more"] if total_tokens <= context_limit else []
    return f"give {', '.join(remedies)}{', or ' if remedies else ''}a shorter prompt"


def _smallest_mesh(spec: ModelSpec, full_wafer: WaferSpec, software: SoftwareProfile, options: Options) -> WaferSpec:
    if options.region is not None:
        return full_wafer
    if options.listed:
        rows, cols = mesh_of_listed(options)
        return mesh_on(full_wafer, min(rows, full_wafer.mesh_rows), min(cols, full_wafer.mesh_cols))
    mesh = smallest_mesh(spec, full_wafer, software, options)
    return full_wafer if mesh is None else mesh_on(full_wafer, *mesh)


LARGEST_FACTOR: Final = 1e6  # of temperature and penalty: far beyond use, and no logit overflows
LARGEST_SEED: Final = 2**63 - 1


def check_sampling(sampling: Sampling) -> None:
    """Check the values of sampling options.

    Raises:
        BadInput: A value is out of range. Or ``top_k``, ``top_p`` or ``min_p`` is set although the
            temperature is 0, so that no sampling takes place.
    """
    temperature, top_k, top_p, min_p = sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p
    penalty, is_drawn = sampling.repetition_penalty, temperature != 0
    no_effect = "has no effect at temperature 0; give --temperature too, such as 0.8"
    for name, value, is_valid, remedy in (
        ("temperature", temperature, 0.0 <= temperature < LARGEST_FACTOR, "give 0 for greedy, or a positive number"),
        ("top-k", top_k, top_k >= 0, "give a number of at least 1, or 0 for no limit"),
        ("top-p", top_p, 0.0 < top_p <= 1.0, "give a number above 0, at most 1 (1: no limit)"),
        ("min-p", min_p, 0.0 <= min_p <= 1.0, "give a number from 0 (no limit) to 1"),
        (
            "repetition-penalty",
            penalty,
            1 / LARGEST_FACTOR <= penalty <= LARGEST_FACTOR,
            "give a number above 0 (1: no penalty)",
        ),
        ("seed", sampling.seed, 0 <= sampling.seed <= LARGEST_SEED, f"give a number from 0 to {LARGEST_SEED:,}"),
        ("top-k", top_k, is_drawn or top_k == 0, no_effect),
        ("top-p", top_p, is_drawn or top_p == 1, no_effect),
        ("min-p", min_p, is_drawn or min_p == 0, no_effect),
    ):
        if not is_valid:
            raise BadInput(f"--{name} {value}: {remedy}")

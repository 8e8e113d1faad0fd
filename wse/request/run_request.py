"""What a user asks for, checked, with its defaults filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wse.compiler.options import Options
from wse.compiler.search.remedies import smallest_mesh
from wse.errors import BadInput, BadModel
from wse.execute.sampling import Sampling
from wse.hardware.mesh import mesh_on
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.bundled import BUNDLED
from wse.models.load import LoadedModel
from wse.models.spec import ModelSpec
from wse.models.tensors.checkpoint import Checkpoint
from wse.request.live_mesh import as_programs_see
from wse.request.placement_request import (
    Placeable,
    PlacementRequest,
    check_context,
    check_counts,
    load_basis,
    placement_options,
)
from wse.request.prompt import end_ids, text_ids
from wse.request.sampling_request import check_sampling

BUNDLED_PROMPT = "Once upon a time, there was a boy named Tim"
NEW_TOKENS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(PlacementRequest):
    """The options of ``wse run`` and ``wse compile`` as given; None where the default is to be found."""

    prompt: str | None = None
    prompt_ids: Sequence[int] | None = None  # in place of the text
    prompts: Sequence[str | Sequence[int]] = ()  # of several users, in place of one prompt
    chat: bool = False
    system: str | None = None
    max_new_tokens: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    logits: bool = False
    allow_nonfinite: bool = False

    def shorter(self, context: int, prompt_tokens: int) -> str:
        """Fewer new tokens too, where as many were asked for."""
        if self.max_new_tokens is not None and prompt_tokens + self.max_new_tokens > context:
            return f"--context {context} --max-new-tokens {context - prompt_tokens}"
        return f"--context {context}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared(Placeable):
    """A request with everything loaded and decided but the Program."""

    request: Request
    prompts: tuple[tuple[int, ...], ...]  # token ids, a user each
    end_ids: tuple[int, ...]  # that generation stops at


def prepare(request: Request, *, to_run: bool = False) -> Prepared:
    """Load and check all that a request names; weights too where it is ``to_run``.

    Raises:
        BadModel: there are no weights to run.
        BadInput and its kinds: something that was named is missing or cannot be used.
        DoesNotFit: no square mesh of the wafer holds the model (only when the mesh is left to be found).
    """
    check_counts(wafers=request.wafers, max_new_tokens=request.max_new_tokens, context=request.context)
    check_sampling(request.sampling)
    basis = load_basis(request)
    if to_run:
        checkpoint_of(basis.loaded, request.model)
    spec, whole, software = basis.spec, basis.whole, basis.software
    prompts = tuple(prompt_ids(one, basis.loaded) for one in _by_user(request))
    context, new_tokens = _lengths(request, spec, max(map(len, prompts)))
    options = placement_options(
        request,
        basis,
        context,
        tuple(map(len, prompts)),
        sampling="host" if request.sampling.on_host else "wafer",
        logits_out="prompt" if request.logits else "none",
    )
    wanted = basis.mesh or _smallest(spec, whole, software, options)
    grow_to = None if basis.mesh else whole
    wafer, meshes = as_programs_see(wanted, basis.defects, options.wafers, grow_to=grow_to)
    return Prepared(
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
        end_ids=end_ids(basis.loaded, chat=request.chat),
    )


def checkpoint_of(loaded: LoadedModel, named: str) -> Checkpoint:
    """The weights of a model that the user named so.

    Raises:
        BadModel: it has none.
    """
    if loaded.checkpoint is None:
        message = (
            f"{named}: has no weights to run; time it from its configuration alone with wse estimate {named}, "
            "or give a folder or a GGUF file that holds the weights"
        )
        raise BadModel(message)
    return loaded.checkpoint


def _by_user(request: Request) -> list[Request]:
    """The request of each user, with one prompt."""
    if not request.prompts:
        return [request]
    return [
        replace(request, prompts=(), prompt=p) if isinstance(p, str) else replace(request, prompts=(), prompt_ids=p)
        for p in request.prompts
    ]


def prompt_ids(request: Request, loaded: LoadedModel) -> tuple[int, ...]:
    """Token ids of the prompt: as given, from the text, or the model's begin token."""
    spec = loaded.spec
    if request.system is not None and not request.chat:
        message = f"--system {request.system!r}: a system's turn is part of a chat; give --chat too"
        raise BadInput(message)
    if request.prompt_ids is not None and request.chat:
        message = "--chat: --prompt-ids are used as they are, without a template; give --prompt, or leave --chat out"
        raise BadInput(message)
    if request.prompt_ids is not None:
        return _checked_ids(request.prompt_ids, spec)
    text = request.prompt
    if text is None and request.chat:
        message = "--chat: there is no turn of the user; give it with --prompt"
        raise BadInput(message)
    if text is None and request.model in BUNDLED:
        text = BUNDLED_PROMPT
    if text is None:
        if spec.bos_token_id is None and loaded.checkpoint is None:
            return (0,)  # nothing will be executed: any id stands for a prompt
        if spec.bos_token_id is None:
            message = f"{spec.name}: has no begin token to start from; give --prompt or --prompt-ids"
            raise BadInput(message)
        return (spec.bos_token_id,)
    return text_ids(text, loaded, chat=request.chat, system=request.system)


def _checked_ids(ids: Sequence[int], spec: ModelSpec) -> tuple[int, ...]:
    if not ids:
        message = "--prompt-ids: the prompt is empty; give at least one id"
        raise BadInput(message)
    for token in ids:
        if not 0 <= token < spec.vocab_size:
            message = (
                f"--prompt-ids: {token} is outside the vocabulary of {spec.name}; "
                f"give ids from 0 to {spec.vocab_size - 1:,}"
            )
            raise BadInput(message)
    return tuple(ids)


def _lengths(request: Request, spec: ModelSpec, prompt_tokens: int) -> tuple[int, int]:
    """Context and new tokens."""
    limit = min(request.context or spec.context_limit, spec.context_limit)
    check_context(request.context, spec)
    room = limit - prompt_tokens
    if room < (request.max_new_tokens or 1):
        wanted = request.max_new_tokens or 1
        message = (
            f"prompt of {prompt_tokens} tokens plus {wanted} new: {prompt_tokens + wanted} is beyond "
            f"the context of {limit}; "
            + (f"give --max-new-tokens {room} or less, or a shorter prompt" if room > 0 else "give a shorter prompt")
        )
        raise BadInput(message)
    new_tokens = request.max_new_tokens or min(NEW_TOKENS, room)
    return request.context or prompt_tokens + new_tokens, new_tokens


def _smallest(spec: ModelSpec, whole: WaferSpec, software: SoftwareProfile, options: Options) -> WaferSpec:
    if options.region is not None:
        return whole
    mesh = smallest_mesh(spec, whole, software, options)
    return whole if mesh is None else mesh_on(whole, *mesh)

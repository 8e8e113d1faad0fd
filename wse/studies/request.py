"""What a user asks for, checked, with its defaults filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wse.codings import CODINGS
from wse.compiler.options import Options, check_types
from wse.compiler.suggest import fewest_wafers, smallest_mesh
from wse.errors import BadInput, UnknownName
from wse.execute.sampling import Sampling
from wse.hardware.load import load_software, load_wafer
from wse.hardware.mesh import mesh_on, parse_mesh
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.load import BUNDLED, LoadedModel, load_model
from wse.models.spec import ModelSpec
from wse.studies.prompt import end_ids, text_ids
from wse.studies.sampling_request import check_sampling
from wse_mappings.expert_groups import EXPERT_PLACEMENTS, SPREAD
from wse_mappings.recipe import recipes

BUNDLED_PROMPT = "Once upon a time, there was a boy named Tim"
NEW_TOKENS = 256
ACCUMULATORS = ("float16", "float32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of ``wse run`` and ``wse compile`` as given; None where the default is to be found."""

    model: str = "story"
    wafer: str = "wse2"
    mesh: str | None = None
    wafers: int | None = 1  # None: the fewest that hold the model
    mapping: str = "region"
    region: str | None = None
    experts: str = SPREAD
    software: str = "tuned"
    dtype: str | None = None
    activations: str | None = None
    accumulate: str | None = None
    context: int | None = None
    prompt: str | None = None
    prompt_ids: Sequence[int] | None = None  # in place of the text
    prompts: Sequence[str | Sequence[int]] = ()  # of several users, in place of one prompt
    chat: bool = False
    system: str | None = None
    max_new_tokens: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    logits: bool = False
    allow_nonfinite: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """A request with everything loaded and decided but the Program. ``whole`` is the wafer at full size."""

    request: Request
    loaded: LoadedModel
    whole: WaferSpec
    wafer: WaferSpec
    software: SoftwareProfile
    options: Options
    prompts: tuple[tuple[int, ...], ...]  # token ids, a user each
    new_tokens: int
    end_ids: tuple[int, ...]  # that generation stops at

    @property
    def spec(self) -> ModelSpec:
        """Shape and mathematics of the model."""
        return self.loaded.spec


def prepare(request: Request) -> Prepared:
    """Load and check all that a request names.

    Raises:
        BadInput and its kinds: something that was named is missing or cannot be used.
        DoesNotFit: no square mesh of the wafer holds the model (only when the mesh is left to be found).
    """
    if request.mapping not in recipes():
        raise UnknownName("mapping", request.mapping, recipes())
    _check_numbers(request)
    check_sampling(request.sampling)
    whole = load_wafer(request.wafer)
    software = load_software(request.software, whole.generation)
    mesh = None if request.mesh is None else mesh_on(whole, *parse_mesh(request.mesh))
    region = None if request.region is None else parse_mesh(request.region)
    loaded = load_model(request.model)
    spec = loaded.spec
    dtype, activations = _types(request, spec)
    prompts = tuple(prompt_ids(one, loaded) for one in _by_user(request))
    context, new_tokens = _lengths(request, spec, max(map(len, prompts)))
    options = Options(
        mapping=request.mapping,
        wafers=request.wafers or 1,
        dtype=dtype,
        activations=activations,
        accumulate=_accumulator(request.accumulate, dtype),
        context=context,
        prompt_tokens=tuple(map(len, prompts)),
        region=region,
        sampling="host" if request.sampling.on_host else "wafer",
        logits_out="prompt" if request.logits else "none",
        experts=_placement_of_experts(request.experts),
    )
    if request.wafers is None:
        options = replace(options, wafers=fewest_wafers(spec, mesh or whole, software, options))
    wafer = mesh or _smallest(spec, whole, software, options)
    return Prepared(
        request=request,
        loaded=loaded,
        whole=whole,
        wafer=wafer,
        software=software,
        options=options,
        prompts=prompts,
        new_tokens=new_tokens,
        end_ids=end_ids(loaded, chat=request.chat),
    )


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


def _check_numbers(request: Request) -> None:
    for name, value in (
        ("--wafers", request.wafers),
        ("--max-new-tokens", request.max_new_tokens),
        ("--context", request.context),
    ):
        if value is not None and value < 1:
            message = f"{name} {value}: give a number of at least 1"
            raise BadInput(message)


def _types(request: Request, spec: ModelSpec) -> tuple[str, str | None]:
    """How weights are held, and the type of activations where that is another: by default the checkpoint's own."""
    dtype = spec.dtype if request.dtype is None else request.dtype
    activations = request.activations or (spec.dtype if dtype in CODINGS else None)
    check_types(dtype, activations)
    return dtype, activations


def _placement_of_experts(name: str) -> str:
    if name not in EXPERT_PLACEMENTS:
        raise UnknownName("placement of experts", name, EXPERT_PLACEMENTS)
    return name


def _accumulator(name: str | None, dtype: str) -> str:
    if name is None:
        return "float32"
    if name not in ACCUMULATORS:
        raise UnknownName("accumulator type", name, ACCUMULATORS)
    if name == "float16" and dtype != "float16":
        message = (
            f"--accumulate float16: the hardware accumulates {dtype} in float32; leave it out, or use --dtype float16"
        )
        raise BadInput(message)
    return name


def _lengths(request: Request, spec: ModelSpec, prompt_tokens: int) -> tuple[int, int]:
    """Context and new tokens."""
    limit = min(request.context or spec.context_limit, spec.context_limit)
    if request.context is not None and request.context > spec.context_limit:
        message = (
            f"--context {request.context}: {spec.name} was made for {spec.context_limit} tokens; give at most that"
        )
        raise BadInput(message)
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

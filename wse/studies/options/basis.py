"""Basis: the loaded and checked model, wafer, software profile and types of a request.

Every placement request specifies these inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from wse.cache.content_key import content_key
from wse.cache.records import cached
from wse.compiler.options import Options, check_types
from wse.compiler.placeable import Placeable
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.remedies import fewest_wafers
from wse.errors import BadInput, UnknownName
from wse.hardware.defects import Defects, check_seed, read_defects
from wse.hardware.live_mesh import fewest_wafers_with_defects
from wse.hardware.load import load_software, load_wafer
from wse.hardware.spec import SoftwareProfile, WaferSpec, mesh_on, parse_mesh
from wse.models.load import LoadedModel, load_model
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import stored_bytes
from wse.number_formats import CODINGS, DTYPES, ELEMENT_BYTES
from wse.program.line_patterns import cached_pattern
from wse.program.routing import EVEN
from wse.studies.options.mapping_file import Mapping, load_mapping
from wse.studies.options.placement import PlacementRequest
from wse.studies.options.routing import read_choices
from wse_mappings.cuts.expert_groups import AUTO, DISTRIBUTED, EXPERT_PLACEMENTS, GROUPED, is_placement

ACCUMULATORS = ("float16", "float32")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Basis:
    """The model, wafer and other files that a request names, loaded and checked.

    Attributes:
        whole: Wafer with its full mesh of PEs.
        mesh: The same wafer with the requested smaller mesh; None if no mesh is requested.
        region: Requested rows and columns of the PE rectangles (regions) that store the layers;
            None to let the mapping choose.
        mapping: Requested mapping (rule for distributing layers across PEs).
        software: Costs of the software on the wafer.
        loaded: Model with its tokenizer, and with weights if requested.
        dtype: Element type of the weights.
        activations: Element type of activations, KV caches, vocabulary tables and gains; None if it
            is the same as ``dtype``.
        accumulate: Element type of sums.
        defects: Dead PEs and links; None for a wafer without defects.
    """

    whole: WaferSpec
    mesh: WaferSpec | None
    region: tuple[int, int] | None
    mapping: Mapping
    software: SoftwareProfile
    loaded: LoadedModel
    dtype: str
    activations: str | None
    accumulate: str
    defects: Defects | None

    @property
    def spec(self) -> ModelSpec:
        """Description of the model for the compiler: its sizes and operations."""
        return self.loaded.spec


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedPlacement(Placeable):
    """A request with files loaded and defaults filled in, ready to be compiled."""

    request: PlacementRequest

    @property
    def weight_bytes(self) -> int:
        """Size of all weights in bytes, as stored in the request's element types."""
        return stored_bytes(self.spec, self.options.dtype, ELEMENT_BYTES[self.options.activation_type])

    @property
    def cached_users(self) -> int:
        """Number of users whose KV caches must fit at the same time; 0 for those of one pass."""
        return 0

    @property
    def note(self) -> str | None:
        """Note about an element type that neither the request nor the files specify, or None."""
        return dtype_note(self.loaded, self.request.types.dtype)


def load_basis(request: PlacementRequest, *, with_weights: bool = True, fetches_weights: bool = True) -> Basis:
    """Load the model, wafer and other files that a request names, and check its options.

    Args:
        request: The request.
        with_weights: True to open the weight files, so that the model can be executed.
        fetches_weights: True to download the weight files if the model is a repository of the hub
            and ``with_weights`` is set. False to download only its config.json.

    Raises:
        UnknownName: A name in the request is unknown.
        BadInput: A file is missing or cannot be used, or options contradict each other.
    """
    machine, layout = request.machine, request.layout
    mapping = load_mapping(request.mapping)
    if layout.all_reduce is not None:
        cached_pattern(layout.all_reduce)
    if not is_placement(layout.experts):
        known_placements = AUTO, GROUPED, *EXPERT_PLACEMENTS, "a number of groups"
        raise UnknownName("placement of experts", layout.experts, known_placements)
    full_wafer = load_wafer(machine.wafer, machine.wafer_values)
    software = load_software(machine.software, full_wafer.generation, machine.software_values)
    mesh = None if machine.mesh is None else mesh_on(full_wafer, *parse_mesh(machine.mesh, "--mesh"))
    region = None if layout.region is None else parse_mesh(layout.region, "--region")
    check_seed(machine.defects_seed)
    if machine.defects is None and machine.defects_seed:
        raise BadInput(f"--defects-seed {machine.defects_seed}: is the seed for --defects RATE; give that too")
    defects = None if machine.defects is None else read_defects(machine.defects, machine.defects_seed, full_wafer)
    loaded_model = load_model(request.model, with_weights=with_weights, fetches_weights=fetches_weights)
    if loaded_model.spec.experts is None and layout.experts not in (AUTO, DISTRIBUTED):
        raise BadInput(f"--experts {layout.experts}: {loaded_model.spec.name} has no experts; leave it out")
    dtype, activations = _types(request, loaded_model.spec)
    return Basis(
        whole=full_wafer,
        mesh=mesh,
        region=region,
        mapping=mapping,
        software=software,
        loaded=loaded_model,
        dtype=dtype,
        activations=activations,
        accumulate=_accumulator(request.types.accumulate, dtype),
        defects=defects,
    )


def placement_options(
    request: PlacementRequest, basis: Basis, context: int, prompt_tokens: tuple[int, ...], **other_options: Any
) -> Options:
    """Return the compiler options that follow from a request.

    The number of wafers is the requested number or, if none is requested, the number in the mapping
    file. If neither is specified, it is the smallest number of wafers on which the model fits.

    Args:
        request: The request.
        basis: The request's loaded files.
        context: KV-cache capacity of a sequence in tokens.
        prompt_tokens: Length of each user's prompt in tokens.
        other_options: Other fields of `Options`, such as ``capacity``.

    Raises:
        BadInput: The schedule is unknown, or is not valid for the model.
    """
    place_experts = request.layout.place_experts
    options = Options(
        mapping=basis.mapping.strategy,
        mapping_file=basis.mapping.file,
        listed=basis.mapping.listed,
        listed_transposed=basis.mapping.is_transposed,
        wafers=request.wafers or basis.mapping.wafers or 1,
        dtype=basis.dtype,
        activations=basis.activations,
        accumulate=basis.accumulate,
        context=context,
        prompt_tokens=prompt_tokens,
        region=basis.region,
        experts=request.layout.experts,
        schedule=request.layout.schedule,
        all_reduce=request.layout.all_reduce or "",
        placed_selections=EVEN
        if place_experts is None
        else read_choices("--place-experts", str(place_experts), basis.spec),
        **other_options,
    )
    rewrites_of(basis.spec, options)
    if request.wafers is not None or basis.mapping.wafers is not None:
        return options
    count_wafers = partial(_fewest_wafers, basis, options)
    return replace(options, wafers=fewest_wafers_with_defects(basis.mesh or basis.whole, basis.defects, count_wafers))


def _fewest_wafers(basis: Basis, options: Options, wafer: WaferSpec) -> int:
    """Return the smallest number of wafers on which the model fits, from the cache if possible.

    Args:
        basis: The request's loaded files.
        options: Compiler options of the request. Their number of wafers is ignored.
        wafer: Wafer, whose mesh is smaller than in ``basis`` if PEs are dead.
    """
    inputs = basis.spec, wafer, basis.software, options
    return cached(content_key("fewest wafers", *inputs), int, lambda: fewest_wafers(*inputs))


def check_context(context: int | None, spec: ModelSpec) -> None:
    """Raise BadInput if a context is longer than the model supports."""
    if context is not None and context > spec.context_limit:
        raise BadInput(f"--context {context}: {spec.name} supports at most {spec.context_limit:,} tokens")


def check_pass(verify_tokens: int | None, context: int, prompt_len: int) -> None:
    """Check the number of tokens in a verification pass, which processes several new tokens.

    Args:
        verify_tokens: Number of tokens in the pass; None if there is no such pass.
        context: KV-cache capacity of a sequence in tokens.
        prompt_len: Length of the prompt in tokens.

    Raises:
        BadInput: The pass has only one token, or more tokens than fit in the context after the
            prompt.
    """
    max_tokens = context - prompt_len
    if verify_tokens is not None and not 2 <= verify_tokens <= max_tokens:
        remedy = f"give 2 to {max_tokens}" if max_tokens > 1 else "give a longer --context"
        room = f"the context has {context} tokens, {max_tokens} after the prompt"
        raise BadInput(f"--verify-tokens {verify_tokens}: {room}; {remedy}")


def dtype_note(loaded_model: LoadedModel, dtype: str | None) -> str | None:
    """Return a note if the element type of the weights had to be assumed.

    Args:
        loaded_model: Loaded model.
        dtype: Requested element type; None if none was requested.

    Returns:
        The note, or None if the request or the model's files specify the type.
    """
    return None if dtype in DTYPES else loaded_model.note


def _types(request: PlacementRequest, spec: ModelSpec) -> tuple[str, str | None]:
    """Return the element types of weights and of activations.

    By default, weights have the type of the published weights. If weights are quantised,
    activations have the type of the unquantised model by default.

    Returns:
        The type of weights and the type of activations. The latter is None if both are the same.
    """
    dtype = spec.weight_type if request.types.dtype is None else request.types.dtype
    activations = request.types.activations or (spec.dtype if dtype in CODINGS else None)
    check_types(dtype, activations)
    return dtype, activations


def _accumulator(name: str | None, dtype: str) -> str:
    """Return the element type of sums.

    Args:
        name: Requested type; None for float32.
        dtype: Element type of the weights.

    Raises:
        UnknownName: The type is neither float16 nor float32.
        BadInput: The type is float16 but the weights have a different type.
    """
    if name is None:
        return "float32"
    if name not in ACCUMULATORS:
        raise UnknownName("accumulator type", name, ACCUMULATORS)
    if name == "float16" and dtype != "float16":
        raise BadInput(
            f"--accumulate float16: the hardware accumulates {dtype} in float32; leave it out, or use --dtype float16"
        )
    return name

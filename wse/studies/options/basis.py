"""Basis: the model, wafers, software and types that every request for a placement names, loaded and checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from wse.compiler.options import Options, check_types
from wse.compiler.placeable import Placeable
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.remedies import fewest_wafers
from wse.errors import BadInput, UnknownName
from wse.hardware.defects import Defects, check_seed, read_defects
from wse.hardware.live_mesh import fewest_wafers_with_defects
from wse.hardware.load import load_software, load_wafer
from wse.hardware.mesh import mesh_on, parse_mesh
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.load import LoadedModel, load_model
from wse.models.spec import ModelSpec
from wse.number_formats import CODINGS, DTYPES
from wse.program.line_patterns import kept_pattern
from wse.studies.options.mapping_file import Mapping, load_mapping
from wse.studies.options.placement import PlacementRequest
from wse_mappings.cuts.expert_groups import AUTO, EXPERT_PLACEMENTS, FEW, SPREAD, is_placement

ACCUMULATORS = ("float16", "float32")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Basis:
    """The things that a request names, loaded. ``mesh`` is the wafer with the mesh that was requested, if one was."""

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
        """Shape and mathematics of the model."""
        return self.loaded.spec


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedPlacement(Placeable):
    """A request for a placement, with everything loaded and decided that its compilation needs."""

    request: PlacementRequest

    @property
    def note(self) -> str | None:
        """A sentence on what was decided unasked; None where nothing was."""
        return dtype_note(self.loaded, self.request.types.dtype)


def load_basis(request: PlacementRequest, *, with_weights: bool = True) -> Basis:
    """Load and check what every request names; files of weights only ``with_weights``.

    Raises:
        BadInput and its kinds: something that was named is missing or cannot be used.
    """
    machine, layout = request.machine, request.layout
    mapping = load_mapping(request.mapping)
    if layout.all_reduce is not None:
        kept_pattern(layout.all_reduce)
    if not is_placement(layout.experts):
        known = AUTO, FEW, *EXPERT_PLACEMENTS, "a number of groups"
        raise UnknownName("placement of experts", layout.experts, known)
    whole = load_wafer(machine.wafer, machine.wafer_values)
    software = load_software(machine.software, whole.generation, machine.software_values)
    mesh = None if machine.mesh is None else mesh_on(whole, *parse_mesh(machine.mesh, "--mesh"))
    region = None if layout.region is None else parse_mesh(layout.region, "--region")
    check_seed(machine.defects_seed)
    if machine.defects is None and machine.defects_seed:
        message = f"--defects-seed {machine.defects_seed}: draws the dead PEs of --defects RATE; give that too"
        raise BadInput(message)
    defects = None if machine.defects is None else read_defects(machine.defects, machine.defects_seed, whole)
    loaded = load_model(request.model, with_weights=with_weights)
    if loaded.spec.experts is None and layout.experts not in (AUTO, SPREAD):
        message = f"--experts {layout.experts}: {loaded.spec.name} has no experts; leave it out"
        raise BadInput(message)
    dtype, activations = _types(request, loaded.spec)
    return Basis(
        whole=whole,
        mesh=mesh,
        region=region,
        mapping=mapping,
        software=software,
        loaded=loaded,
        dtype=dtype,
        activations=activations,
        accumulate=_accumulator(request.types.accumulate, dtype),
        defects=defects,
    )


def placement_options(
    request: PlacementRequest, basis: Basis, context: int, prompt_tokens: tuple[int, ...], **more: Any
) -> Options:
    """Options of the compiler, ``more`` among them, for as many wafers as are requested, listed, or the model takes.

    Raises:
        BadInput: the schedule is none that is known, or is not valid for the model.
    """
    options = Options(
        mapping=basis.mapping.strategy,
        mapping_file=basis.mapping.file,
        listed=basis.mapping.listed,
        listed_turned=basis.mapping.turned,
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
        **more,
    )
    rewrites_of(basis.spec, options)
    if request.wafers is not None or basis.mapping.wafers is not None:
        return options
    fewest = partial(fewest_wafers, basis.spec, software=basis.software, options=options)
    return replace(options, wafers=fewest_wafers_with_defects(basis.mesh or basis.whole, basis.defects, fewest))


def check_context(context: int | None, spec: ModelSpec) -> None:
    """Raise BadInput for a context that is longer than the model was made for."""
    if context is not None and context > spec.context_limit:
        message = f"--context {context}: {spec.name} was made for {spec.context_limit} tokens; give at most that"
        raise BadInput(message)


def check_pass(verify_tokens: int | None, context: int, prompt_len: int) -> None:
    """Raise BadInput for a pass over a single token, or over more than the context leaves after the prompt."""
    most = context - prompt_len
    if verify_tokens is not None and not 2 <= verify_tokens <= most:
        remedy = f"give 2 to {most}" if most > 1 else "give a longer --context"
        message = f"--verify-tokens {verify_tokens}: the prompt leaves {most} of {context} tokens; {remedy}"
        raise BadInput(message)


def dtype_note(loaded: LoadedModel, dtype: str | None) -> str | None:
    """Return the sentence on an element type that the model's files do not state; None where ``dtype`` states it."""
    return None if dtype in DTYPES else loaded.note


def _types(request: PlacementRequest, spec: ModelSpec) -> tuple[str, str | None]:
    """Return the type of weights, by default that of the published weights, and of activations where it differs."""
    dtype = spec.weight_type if request.types.dtype is None else request.types.dtype
    activations = request.types.activations or (spec.dtype if dtype in CODINGS else None)
    check_types(dtype, activations)
    return dtype, activations


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

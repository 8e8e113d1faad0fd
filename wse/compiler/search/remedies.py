"""Remedies for a model that does not fit: options that would make it fit.

Each remedy is compiled on reduced models before it is suggested.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from wse.bisection import largest_passing
from wse.compiler.options import Options
from wse.compiler.search.feasibility import fits
from wse.compiler.search.reduced.misfits import Misfits
from wse.compiler.search.smallest_mesh import min_pes, smallest_mesh
from wse.compiler.strategies import strategy
from wse.hardware.spec import SoftwareProfile, WaferSpec, mesh_on
from wse.models.spec import ModelSpec
from wse.number_formats import CODINGS, ELEMENT_BYTES
from wse_mappings.cuts.expert_groups import DEDICATED, DISTRIBUTED
from wse_mappings.strategies.catalogue import bundled_strategies

MAX_WAFERS = 256
NARROWER = ("float16", "int8", "int4")
"""Weight types to suggest, widest first. The first one that fits is used."""


def fewest_wafers(spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options) -> int:
    """Return the smallest number of wafers on which the model fits.

    Numbers up to one wafer per layer are tried, but at most `MAX_WAFERS`. If the model does not fit
    on any of them, the result is the largest number.

    Args:
        spec: Model.
        wafer: Wafer.
        software: Costs of the software on the wafer.
        options: The requested options. Their number of wafers is ignored.
    """
    first_count = _wafers_by_bytes(spec, wafer, software, options)
    wafer_count = fewest_wafers_from(first_count, spec, wafer, software, options, whole_layers=False)
    return max_wafer_count(spec) if wafer_count is None else wafer_count


def fewest_wafers_from(
    first_count: int,
    spec: ModelSpec,
    wafer: WaferSpec,
    software: SoftwareProfile,
    options: Options,
    *,
    whole_layers: bool,
) -> int | None:
    """Return the smallest number of wafers on which the model fits, counting from ``first_count``.

    Args:
        first_count: First number of wafers to try.
        spec, wafer, software, options: Inputs of the compilation.
        whole_layers: True if each layer must be stored on one rectangle of PEs.

    Returns:
        Number of wafers. None if the model does not fit on any number up to one wafer per layer (at
        most `MAX_WAFERS`).
    """
    misfits = Misfits()

    def fits_on(wafers: int) -> bool:
        """Return whether the model fits on the given number of wafers.

        Stages that did not fit on another number of wafers are not compiled again.
        """
        request = replace(options, wafers=wafers)
        return fits(spec, wafer, software, request, misfits, whole_layers=whole_layers)

    return _first_passing(range(first_count, max_wafer_count(spec) + 1), fits_on)


def _wafers_by_bytes(spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options) -> int:
    """Return the minimum number of wafers, at least 1, whose SRAM can hold weights and KV caches."""
    return max(1, math.ceil(min_pes(spec, wafer, software, options) / (wafer.mesh_rows * wafer.mesh_cols)))


def max_wafer_count(spec: ModelSpec) -> int:
    """Return the largest number of wafers to try: one per layer, but at most `MAX_WAFERS`."""
    return min(spec.layer_count, MAX_WAFERS)


def fewer_prompts(users: int) -> str:
    """Return a phrase that suggests fewer users, each with one prompt."""
    return "a single prompt" if users == 1 else f"at most {users} prompts"


def remedies(
    spec: ModelSpec,
    whole_wafer: WaferSpec,
    wafer: WaferSpec,
    software: SoftwareProfile,
    options: Options,
    fewer_users: Callable[[int], str] = fewer_prompts,
    users: int = 0,
) -> list[str]:
    """Return suggestions, for error messages, of changes to the request that make the model fit.

    Each phrase suggests the smallest sufficient change of one kind: a larger mesh, more wafers, a
    different mapping, narrower weights, a different expert placement, a shorter context, fewer
    users, or shorter verification passes.

    Args:
        spec: Model.
        whole_wafer: The wafer at its full size.
        wafer: The part of the wafer that is used.
        software: Costs of the software on the wafer.
        options: The requested options.
        fewer_users: Function that returns the phrase that suggests a given number of users.
        users: Number of users whose KV caches must fit at the same time, each with a full context;
            0 for the users of one pass.
    """
    given_cache_tokens = options.cache_tokens
    options = replace(options, cache_tokens=max(options.cache_tokens, options.cache_tokens_of(users, options.context)))

    def fits_with(**changes: Any) -> bool:
        """Return whether the request fits on the same mesh with some options changed."""
        return fits(spec, wafer, software, replace(options, **changes))

    as_listed = bool(options.listed)  # more PEs are of no use to regions that stay as they are
    larger = None if as_listed else larger_mesh(spec, whole_wafer, wafer, software, options)
    max_wafers = max_wafer_count(spec)
    min_wafers = max(options.wafers + 1, _wafers_by_bytes(spec, wafer, software, options))
    more_wafers = range(min_wafers, min_wafers if as_listed else max_wafers + 1)
    wafers = _first_passing(more_wafers, lambda n: fits_with(wafers=n))
    mapping = _search_mapping(options, max_wafers + 1 if wafers is None else wafers, fits_with)
    dtype = _narrower(spec, options, fits_with)
    fits_spread = options.experts == DEDICATED and fits_with(experts=DISTRIBUTED)
    context = largest_passing(
        max(options.prompt_tokens) + 1,
        options.context,
        lambda n: fits_with(context=n, cache_tokens=max(given_cache_tokens, options.cache_tokens_of(users, n))),
    )
    batch = largest_passing(1, options.batch, lambda n: fits_with(prompt_tokens=options.prompt_tokens[:n]))
    suggestions = (
        larger,
        None if wafers is None else f"--wafers {wafers}",
        mapping,
        dtype,
        "--experts distributed" if fits_spread else None,
        None if context is None else f"--context {context}",
        None if batch is None else fewer_users(batch),
        _shorter_pass(options, fits_with),
    )
    return [suggestion for suggestion in suggestions if suggestion is not None]


def _shorter_pass(options: Options, fits_with: Callable[..., bool]) -> str | None:
    """Return a phrase that suggests verifying fewer tokens per pass, or no verification at all.

    Return None if neither makes the model fit.
    """
    tokens = largest_passing(2, options.verify_tokens, lambda n: fits_with(verify_tokens=n))
    if tokens is not None:
        return f"--verify-tokens {tokens}"
    return "no --verify-tokens" if options.verify_tokens and fits_with(verify_tokens=0) else None


def larger_mesh(
    spec: ModelSpec, whole_wafer: WaferSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options
) -> str | None:
    """Return a phrase that suggests the smallest larger mesh or region on which the model fits.

    If the user has requested a region, the phrase suggests a larger square region, on a larger mesh
    if necessary. Return None if the model fits on no larger mesh or region.

    Args:
        spec: Model.
        whole_wafer: The wafer at its full size, which limits the mesh.
        wafer: The part of the wafer that the request uses.
        software: Costs of the software on the wafer.
        options: The requested options.
    """
    rows, cols = options.region or (wafer.mesh_rows, wafer.mesh_cols)
    first_side = min(rows, cols)
    if options.region is None:
        mesh = smallest_mesh(spec, whole_wafer, software, options, at_least=first_side)
        return f"--mesh {mesh[0]}x{mesh[1]}" if mesh is not None and mesh[0] * mesh[1] > rows * cols else None

    def fits_on(side: int, on: WaferSpec) -> bool:
        """Return whether the model fits with square regions larger than the requested region.

        Args:
            side: Rows and columns of a region.
            on: Wafer whose mesh is used.
        """
        return side * side > rows * cols and fits(spec, on, software, replace(options, region=(side, side)))

    side = _first_passing(range(first_side, min(wafer.mesh_rows, wafer.mesh_cols) + 1), lambda n: fits_on(n, wafer))
    if side is not None:
        return f"--region {side}x{side}"
    low, high = max(wafer.mesh_rows, wafer.mesh_cols), min(whole_wafer.mesh_rows, whole_wafer.mesh_cols)
    side = _first_passing(range(low + 1, high + 1), lambda n: fits_on(n, mesh_on(whole_wafer, n, n)))
    return f"--mesh {side}x{side} --region {side}x{side}" if side is not None else None


def _search_mapping(options: Options, wafer_limit: int, fits_with: Callable[..., bool]) -> str | None:
    """Return a phrase that suggests ``--mapping auto``, which tries all other mappings.

    Args:
        options: The requested options.
        wafer_limit: Only numbers of wafers below this one are tried.
        fits_with: Function that returns whether the request fits with some options changed.

    Returns:
        The phrase; None if this mapping was already requested or does not fit.
    """
    if strategy(options.mapping).tries_others:
        return None
    name = next(name for name, other_strategy in bundled_strategies().items() if other_strategy.tries_others)
    wafers = _first_passing(range(options.wafers, wafer_limit), lambda n: fits_with(mapping=name, listed=(), wafers=n))
    if wafers is None:
        return None
    return f"--mapping {name}" + (f" --wafers {wafers}" if wafers > options.wafers else "")


def _narrower(spec: ModelSpec, options: Options, fits_with: Callable[..., bool]) -> str | None:
    """Return a phrase that suggests a weight type with fewer bits, with which the model fits.

    If the model fits with several types, the type with the most bits is suggested. If the request
    uses a type other than float32 for sums, the phrase also suggests float32 sums. The result is
    None if the model does not fit with any of the types.

    Args:
        spec: Model.
        options: The requested options.
        fits_with: Function that returns whether the request fits with some options changed.
    """
    for dtype in narrower_types(options.dtype):
        activations = (options.activations or spec.dtype) if dtype in CODINGS else None
        if fits_with(dtype=dtype, activations=activations, accumulate="float32"):
            return f"--dtype {dtype}" + (" --accumulate float32" if options.accumulate != "float32" else "")
    return None


def narrower_types(dtype: str) -> list[str]:
    """Return the weight types that have fewer bits than a given type, widest first.

    Only the types that error messages suggest are considered.
    """
    return [narrower for narrower in NARROWER if _bits(narrower) < _bits(dtype)]


def _bits(dtype: str) -> int:
    """Return the bits per weight of a type."""
    return CODINGS[dtype].bits if dtype in CODINGS else 8 * ELEMENT_BYTES[dtype]


def _first_passing(values: range, condition: Callable[[int], bool]) -> int | None:
    """Return the first value for which a condition is true; None if there is none."""
    return next((value for value in values if condition(value)), None)

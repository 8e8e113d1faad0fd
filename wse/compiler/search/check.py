"""Checks of a request before a search starts."""

from __future__ import annotations

from wse.compiler.options import PREFILL_PRODUCTS, Options, check_types
from wse.compiler.strategies import strategy
from wse.errors import BadInput, BadMesh, UnknownName
from wse.hardware.spec import WaferSpec
from wse.models.spec import ModelSpec


def check_names(options: Options) -> None:
    """Check that the mapping, prefill product and element types of a request exist.

    A mapping distributes layers across PEs. A prefill product is a matrix product for prompts.

    Raises:
        UnknownName: The mapping, the product or an element type does not exist.
        BadInput: The element types of weights and activations do not match.
    """
    strategy(options.mapping)
    if options.prefill not in (None, *PREFILL_PRODUCTS):
        raise UnknownName("product for prefill", str(options.prefill), PREFILL_PRODUCTS)
    check_types(options.dtype, options.activations)


def _check_experts(spec: ModelSpec, options: Options) -> None:
    """Check that a model has enough experts for a mapping that places them on all wafers.

    Raises:
        BadInput: The model has no experts.
        BadMesh: There are fewer experts than wafers.
    """
    if spec.experts is None:
        raise BadInput(
            f"--mapping {options.mapping}: {spec.name} has no experts to distribute over wafers; "
            "use --mapping region or tensor"
        )
    if spec.experts.count < options.wafers:
        raise BadMesh(
            f"--wafers {options.wafers}: {spec.name} has {spec.experts.count} experts and --mapping {options.mapping} "
            f"puts at least one on a wafer; choose at most {spec.experts.count}"
        )


def check_mesh(spec: ModelSpec, wafer: WaferSpec, options: Options) -> None:
    """Check that the requested region of PEs fits on the mesh and that no wafer would stay empty.

    Args:
        spec: Model, whose layers or experts are distributed across the wafers.
        wafer: Wafer, whose mesh limits the region.
        options: The request, with the region, the mapping and the number of wafers.

    Raises:
        BadMesh: The region is too large, or there are more wafers than layers or experts.
        BadInput: The mapping places experts on all wafers, but the model has no experts.
    """
    if options.region is not None:
        rows, cols = options.region
        if rows > wafer.mesh_rows or cols > wafer.mesh_cols:
            raise BadMesh(
                f"--region {rows}x{cols}: larger than the mesh of {wafer.mesh_rows}x{wafer.mesh_cols} PEs; "
                f"choose at most {wafer.mesh_rows}x{wafer.mesh_cols}"
            )
    if strategy(options.mapping).experts_apart:
        _check_experts(spec, options)
    if options.wafers > spec.layer_count and not options.across_wafers:
        raise BadMesh(
            f"--wafers {options.wafers}: a wafer holds at least one layer, and {spec.name} has {spec.layer_count}; "
            f"choose at most {spec.layer_count}"
        )

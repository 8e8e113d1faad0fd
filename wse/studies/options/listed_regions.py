"""Checks of the regions that a mapping file lists against a model and its wafers."""

from __future__ import annotations

from wse.compiler.options import Options
from wse.errors import BadInput
from wse.hardware.spec import WaferSpec, transposed_wafer
from wse.models.spec import ModelSpec
from wse.reports.number_text import plural
from wse_mappings.cuts.layer_parts import LAYER_PARTS


def mesh_of_listed(options: Options) -> tuple[int, int]:
    """Return (rows, columns) of the smallest mesh that contains all regions of a mapping file."""
    ends = [(region.rect.row + region.rect.rows, region.rect.col + region.rect.cols) for region in options.listed]
    rows, cols = (max(sides) for sides in zip(*ends, strict=True))
    return (cols, rows) if options.listed_transposed else (rows, cols)


def check_listed(options: Options, spec: ModelSpec, wafer: WaferSpec, *, live: bool) -> None:
    """Check that the regions of a mapping file fit the model and the wafers.

    Args:
        options: Compiler options. Nothing is checked if they list no regions.
        spec: Model.
        wafer: Wafer. Its mesh is the one that programs see, without dead PEs.
        live: Whether this mesh is smaller than the wafer's because of dead PEs. Used only in
            messages.

    Raises:
        BadInput: A region extends beyond the mesh, the number of wafers differs from the requested
            number, the model cannot be divided in this way, a layer is missing, or ``--region`` is
            also specified.
    """
    if not options.listed:
        return
    file, regions, last = options.mapping_file, options.listed, options.listed[-1]
    if options.region is not None:
        rows, cols = options.region
        raise BadInput(
            f"--region {rows}x{cols}: {file} lists regions with their rows and columns; leave one of the two out"
        )
    if last.wafer + 1 != options.wafers:
        wafers = last.wafer + 1
        raise BadInput(
            f"{file}: its regions are on {plural(wafers, 'wafer')}, not on --wafers {options.wafers}; "
            f"give --wafers {wafers}, or regions on every wafer and on no other"
        )
    mesh = transposed_wafer(wafer) if options.listed_transposed else wafer
    for index, (_, rect, *_) in enumerate(regions):
        row, col = rect.row + rect.rows, rect.col + rect.cols
        if row > mesh.mesh_rows or col > mesh.mesh_cols:
            pe_description = ("live " if live else "") + "PEs" + (", transposed," if options.listed_transposed else "")
            raise BadInput(
                f"{file}: region {index} has rows {rect.row} to {row - 1} and columns {rect.col} to {col - 1}, beyond "
                f"the {mesh.mesh_rows}x{mesh.mesh_cols} {pe_description} of {wafer.name}; "
                "move it, make it smaller, or give a larger mesh"
            )
    for index, region in enumerate(regions):
        if region.first_part > 1 and spec.has_post_norms(spec.layers[region.first_layer]):
            raise BadInput(
                f"{file}: region {index}: parts = [{region.first_part}, {region.last_part - 1}]: the output of "
                f"a feed-forward block of {spec.name} is normalised as a whole; begin with part 0 or 1"
            )
    if last.last_layer == spec.layer_count and last.last_part < LAYER_PARTS:
        raise BadInput(
            f"{file}: region {len(regions) - 1}: ends with part {last.last_part - 1} of the last layer, layer "
            f"{last.last_layer - 1}; let parts end with {LAYER_PARTS - 1}, or list a region with the remaining parts"
        )
    if last.last_layer != spec.layer_count:
        layers = plural(spec.layer_count, "layer")
        raise BadInput(
            f"{file}: its regions end with layer {last.last_layer - 1}, and {spec.name} has {layers}: "
            f"give the last one layers up to {spec.layer_count - 1}"
        )
    if spec.tied_embedding and len(regions) > 1 and last.first_layer == last.last_layer:
        raise BadInput(
            f"{file}: region {len(regions) - 1}: layers = []: the head of {spec.name} shares the table of the "
            "embedding, which the first region stores; leave the last region out"
        )

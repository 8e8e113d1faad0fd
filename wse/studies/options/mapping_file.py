"""Mapping files: TOML files for ``--mapping`` in which a user lists regions.

A file lists regions in layer order. Its keys are the same as for ``system.stages`` in ``wse compile
--json``::

    [[regions]]
    wafer = 0           # default 0
    row = 0             # of the first PE
    col = 0
    rows = 12
    cols = 20
    layers = [0, 2]     # first and last layer; [] for an embedding or head without layers
    parts = [0, 4]      # first part of the first layer, last part of the last layer; default all

The parts of a layer are its attention (0) and the eighths of its feed-forward block (1 to 8). The
embedding is in the first region. The head is in the last region, or with the embedding if both
share one table. A line ``transposed = true`` before the regions means that the mesh's rows and
columns are exchanged.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import pydantic

from wse.compiler.strategies import strategies, strategy
from wse.errors import BadMapping, UnknownName
from wse.files import names_toml_file, read_toml, short_repr
from wse.hardware.spec import LONGEST_SIDE
from wse.plugins import names_file_object
from wse_mappings.cuts.layer_parts import LAYER_PARTS
from wse_mappings.mesh.placement import Rect
from wse_mappings.regions.demand import ListedRegion

STRATEGY: Final = "pipeline"
"""The strategy that places layers on listed regions, in order."""

_Place = Annotated[int, pydantic.Field(ge=0, lt=LONGEST_SIDE)]
_Side = Annotated[int, pydantic.Field(ge=1, le=LONGEST_SIDE)]


_PARTS: Final = (
    f"the part that it begins with of its first layer and the one that it ends with of its last, such as [1, 2], from "
    f"0, attention, to {LAYER_PARTS - 1}, the last eighth of the feed-forward block"
)


class _Region(pydantic.BaseModel):
    """Entry of a mapping file: a rectangle of PEs, and the layers that it stores.

    Pydantic checks the types of the values.
    """

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    wafer: _Place = 0
    row: _Place
    col: _Place
    rows: _Side
    cols: _Side
    layers: list[_Place]
    parts: list[_Place] = [0, LAYER_PARTS - 1]


class Mapping(NamedTuple):
    """Requested rule for distributing layers across PEs: a strategy, or a list of regions.

    A region is a rectangle of PEs that stores consecutive layers. A mapping file lists regions.

    Attributes:
        strategy: Name of the mapping strategy.
        file: Name of the mapping file; empty if a strategy is requested by name.
        listed: Regions listed in the file; empty if there is no file.
        is_transposed: Whether the regions refer to a mesh with rows and columns exchanged.
    """

    strategy: str
    file: str = ""
    listed: tuple[ListedRegion, ...] = ()
    is_transposed: bool = False

    @property
    def wafers(self) -> int | None:
        """Number of wafers that the listed regions use; None if no regions are listed."""
        return self.listed[-1].wafer + 1 if self.listed else None


def load_mapping(name_or_path: str | Path) -> Mapping:
    """Load a mapping, which is a rule for distributing layers across PEs.

    Args:
        name_or_path: Name of a strategy, a strategy in a Python file (``FILE.py:NAME``), or a TOML
            file that lists regions of PEs. A strategy takes precedence over a file of the same
            name.

    Raises:
        UnknownName: There is no such strategy, or the file has an unknown key. The message suggests
            the most similar name.
        BadMapping: The file cannot be read, lists no regions, or its regions overlap, leave out a
            layer, or contain a layer twice.
        BadInput: A package or file defines a strategy that cannot be used.
    """
    mapping_text = str(name_or_path)
    if names_file_object(mapping_text) or not names_toml_file(mapping_text) or mapping_text in strategies():
        return Mapping(strategy(mapping_text, place="--mapping").name)
    path = Path(mapping_text)
    if not path.name.isprintable():
        raise BadMapping(f"{path}: the name has unprintable characters, which a trace cannot store; rename the file")
    table = read_toml(path, BadMapping)
    for key in table.keys() - {"regions", "transposed"}:
        raise UnknownName("key", key, ["regions", "transposed"], place=str(path))
    is_transposed = table.get("transposed", False)
    if not isinstance(is_transposed, bool):
        raise BadMapping(f"{path}: transposed = {short_repr(is_transposed)}: give true or false")
    return Mapping(STRATEGY, path.name, _regions(path, table.get("regions")), is_transposed)


def _regions(path: Path, file_entries: object) -> tuple[ListedRegion, ...]:
    """Return the regions that a mapping file lists.

    Raises:
        UnknownName: A region has an unknown key.
        BadMapping: There are no regions, a value is invalid, or regions overlap or are not in layer
            order.
    """
    if not isinstance(file_entries, list) or not file_entries:
        raise BadMapping(f"{path}: lists no regions; give each as [[regions]] with {', '.join(_Region.model_fields)}")
    regions: list[ListedRegion] = []
    for index, file_entry in enumerate(file_entries):
        regions.append(_region(path, index, file_entry))
        _check_order(path, regions, is_last=index == len(file_entries) - 1)
    for (i, a), (j, b) in combinations(enumerate(regions), 2):
        rows, cols = _common(a.rect.row, a.rect.rows, b.rect.row, b.rect.rows), _common(*a.rect[1::2], *b.rect[1::2])
        if a.wafer == b.wafer and rows and cols:
            raise BadMapping(
                f"{path}: regions {i} and {j} overlap in rows {rows[0]} to {rows[-1]} and columns {cols[0]} to "
                f"{cols[-1]} of wafer {a.wafer}; a PE is in one region: move one of them or make it smaller"
            )
    return tuple(regions)


def _region(path: Path, index: int, file_entry: object) -> ListedRegion:
    """Convert an entry of a mapping file to a region of PEs.

    Args:
        path: Mapping file, for messages.
        index: Index of the region in the file, for messages.
        file_entry: The region's entry as read from the file.

    Raises:
        UnknownName: The region has an unknown key.
        BadMapping: A value is missing or invalid.
    """
    try:
        region = _Region.model_validate(file_entry)
    except pydantic.ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place, key = f"{path}: region {index}", str(fault["loc"][0]) if fault["loc"] else ""
        if fault["type"] == "extra_forbidden":
            raise UnknownName("key", key, _Region.model_fields, place=place) from error
        if fault["type"] == "missing":
            raise BadMapping(f"{place}: has no {key}; give {', '.join(_Region.model_fields)}") from error
        allowed_values = {
            "": f"a table with {', '.join(_Region.model_fields)}",
            "layers": "the first and the last layer, such as [0, 3], or [] for a table alone",
            "parts": _PARTS,
        }.get(key, f"a whole number from {int(key in ('rows', 'cols'))} to {LONGEST_SIDE:,}")
        raise BadMapping(f"{place}: {key or 'region'} = {short_repr(fault['input'])}: give {allowed_values}") from error
    layers = region.layers
    if layers and (len(layers) != 2 or layers[0] > layers[1]):
        raise BadMapping(
            f"{path}: region {index}: layers = {short_repr(layers)}: give the first and the last layer, such as [0, 3]"
        )
    first, last = (layers[0], layers[1] + 1) if layers else (-1, -1)
    parts, is_single_layer = region.parts, last == first + 1
    ill_formed = len(parts) != 2 or max(parts) >= LAYER_PARTS or (is_single_layer and parts[0] > parts[1])
    if ill_formed or (not layers and parts != [0, LAYER_PARTS - 1]):
        exception = "" if layers else ", for a table alone leave it out, else"
        raise BadMapping(f"{path}: region {index}: parts = {short_repr(parts)}{exception}: give {_PARTS}")
    rect = Rect(region.row, region.col, region.rows, region.cols)
    return ListedRegion(region.wafer, rect, first, last, parts[0], parts[1] + 1)


def _check_order(path: Path, regions: list[ListedRegion], *, is_last: bool) -> None:
    """Check that the last region continues the layers and wafers of the region before it.

    Layers must be listed in order, each once. A region may have no layers if it is the first or the
    last one, which then stores only the embedding or the output head. It is replaced by a region
    that states its position in the layer order.

    Args:
        path: Mapping file, for messages.
        regions: Regions read so far. The last region is checked and may be replaced.
        is_last: Whether this region is also the last region in the file.

    Raises:
        BadMapping: The region does not continue the layers or wafers of the previous region.
    """
    index, region = len(regions) - 1, regions[-1]
    wafer, (layer, part) = (regions[-2].wafer, regions[-2].layers.next) if index else (0, (0, 0))
    place = f"{path}: region {index}"
    if region.wafer not in ((wafer, wafer + 1) if index else (0,)):
        remedy = f"after a region on wafer {wafer}: give {wafer} or {wafer + 1}" if index else "of the first: give 0"
        raise BadMapping(f"{place}: wafer = {region.wafer}, {remedy}, for layers go through wafers in order")
    if region.first_layer < 0:
        if index and not is_last:
            raise BadMapping(
                f"{place}: layers = []: only the first and the last region may have no layers; give it layers"
            )
        regions[-1] = region._replace(first_layer=layer, last_layer=layer)
    elif region.first_layer != layer:
        fault = "is in a region before it" if region.first_layer < layer else f"comes after layer {layer}, not held yet"
        raise BadMapping(
            f"{place}: layers = [{region.first_layer}, {region.last_layer - 1}]: layer {region.first_layer} {fault}; "
            f"list regions in the order of layers, each layer once: {layer} is next"
        )
    elif region.first_part != part:
        raise BadMapping(
            f"{place}: begins with part {region.first_part} of layer {layer}, where part {part} is next; "
            f"give parts = [{part}, {region.last_part - 1}]"
        )


def _common(first: int, count: int, other_first: int, other_count: int) -> range:
    """Return the integers that two ranges have in common.

    Args:
        first, count: Start and length of the first range.
        other_first, other_count: Start and length of the second range.
    """
    return range(max(first, other_first), min(first + count, other_first + other_count))

"""Sweep request: a grid from a TOML file and options, validated before any estimate.

The keys of a file are fields. A list is an axis; a single value is used in all settings. Wafer
constants are keys such as ``wafer.hop_cycles``, or entries of a table ``[wafer]``, in which the key
``name`` is the wafer itself. Software constants are written in the same way. ``--set`` overrides
values from the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from wse.errors import BadInput, BadMapping, BadMesh, BadModel, BadWafer, UnknownName
from wse.files import read_toml
from wse.hardware.spec import parse_mesh
from wse.reports.output_file import picture_path
from wse.studies.estimate.gpus.prepare import prepare_gpus
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.arguments import is_list
from wse.studies.options.option import make_request, replace_options
from wse.studies.sweep.grid import DEFAULT, OF_GPUS, Axis, Grid, Scalar, checked_value, known_fields

MAX_SETTINGS: Final = 1_000_000
TABLES: Final = ("wafer", "software")
_SOONEST: Final = make_request(EstimateRequest, wafers=1, prompt_len=1, new_tokens=1)
_SOONEST_ON_GPUS: Final = make_request(EstimateRequest, gpu="h100", gpus=1, prompt_len=1, new_tokens=1)
"""Requests for quick estimates, used to check names."""


def read_grid(source: Mapping[str, Any] | str | Path | None, sets: Sequence[str] | str = ()) -> Grid:
    """Read a sweep's settings from values by field, a TOML file or a model, and from options.

    Args:
        source: Values keyed by option or constant name, such as ``{"model": "story", "batch": [1,
            8]}``, where an iterable other than a string is a list of values to combine. Or the path
            of a ``.toml`` file, or a model. None if ``sets`` specifies everything.
        sets: Strings such as "batch=1,8", which override values from the file.

    Returns:
        The grid of all combinations of the values.

    Raises:
        BadInput: The file cannot be read, an option or constant is unknown or specified twice, or
            there are too many settings. Or a value is invalid, is repeated, or names something that
            does not exist. Or ``sets`` is given with values by field.
    """
    if isinstance(source, Mapping):
        if sets:
            raise BadInput(f"sets={sets!r}: settings are given as a mapping; put these values into it")
        return _check(axes_of(source, "settings"))
    if source is None and not sets:
        raise BadInput("nothing to sweep: give a FILE.toml, or a MODEL with --set, such as --set batch=1,8")
    axes: dict[str, Axis] = {}
    if source is not None and str(source).endswith(".toml"):
        axes |= axes_of(read_toml(Path(source), BadInput), str(source))
        if not axes and not sets:
            raise BadInput(f"{source}: is empty; give settings, such as batch = [1, 8]")
    elif source is not None:
        axes["model"] = Axis("model", (str(source),))
    return _check(axes | _from_texts([sets] if isinstance(sets, str) else sets))


def _check(axes: dict[str, Axis]) -> Grid:
    grid = Grid(tuple(axes.values()))
    if len(grid) > MAX_SETTINGS:
        sizes = " × ".join(f"{len(axis.values):,} {axis.name}" for axis in grid.axes if len(axis.values) > 1)
        raise BadInput(f"{sizes} are {len(grid):,} settings: give at most {MAX_SETTINGS:,}")
    check_names(grid)
    return grid


def axes_of(table: Mapping[str, Any], source: str) -> dict[str, Axis]:
    """Validate the settings of a sweep and return the axes of its grid, keyed by name.

    Args:
        table: Options and constants with their values, such as ``batch``. A list of values is an
            axis with several values. Wafer and software constants may be in nested tables.
        source: Source of the table, for error messages.

    Raises:
        BadInput: A name is unknown or specified twice, or a value has the wrong type or is
            repeated.
    """
    values: dict[str, Any] = {}
    for key, value in table.items():
        fields = value if key in TABLES and isinstance(value, dict) else {"name": value}
        for name, number in fields.items():
            field = key if name == "name" else f"{key}.{name}"
            if field in values:
                raise BadInput(f"{source}: {field} is given twice; keep one")
            values[field] = number
    return {field: _axis(field, list(value) if is_list(value) else [value], source) for field, value in values.items()}


def _from_texts(sets: Sequence[str]) -> dict[str, Axis]:
    axes: dict[str, Axis] = {}
    for text in sets:
        name, equals, values = text.partition("=")
        if not equals:
            raise BadInput(f"--set {text!r}: give a field and its values, such as --set batch=1,8")
        name = name.strip()
        if name in axes:
            raise BadInput(f"--set {name} is given twice; put all its values into one, such as --set {name}=A,B")
        parts = [part.strip() for part in values.split(",")] if values.strip() else []
        axes[name] = _axis(name, parts, "--set")
    return axes


def _axis(name: str, raw_values: Sequence[object], source: str) -> Axis:
    values: dict[Scalar, None] = {}
    for raw in raw_values:
        value = checked_value(name, raw, source)
        if value in values:
            raise BadInput(f"{source}: {name} has {value!r} twice; give each value once")
        values[value] = None
    if not values:
        if name not in known_fields():
            raise UnknownName("setting", name, known_fields(), place=source)
        raise BadInput(f"{source}: {name} has no values; give at least one")
    return Axis(name, tuple(values))


def check_names(grid: Grid) -> None:
    """Check that all models, machines, mappings and files named by a sweep exist and are readable.

    Such errors are thus found before the sweep starts. A value may be valid only in combination
    with some values of other options. It is accepted here, and invalid combinations become errors
    in the table.

    Raises:
        BadInput: A model, wafer, GPU, mapping or similar item does not exist. The subclass
            indicates which.
    """
    for axis in grid.axes:
        if known_fields()[axis.name] is not str:
            continue
        for value in axis.values:
            option: dict[str, Any] = {axis.name: None if value == DEFAULT else value}
            try:
                if axis.name in OF_GPUS:
                    prepare_gpus(replace_options(_SOONEST_ON_GPUS, **option))
                else:
                    prepare_estimate(replace_options(_SOONEST, **option))
            except (UnknownName, BadModel, BadWafer, BadMapping):
                raise
            except BadMesh:
                parse_mesh(str(value))  # raises for an invalid mesh; a large one may fit another wafer
            except BadInput:
                continue  # may be valid with other values; else its row has the error


def sweep_picture(png: str | None, axis: str | None) -> Path | None:
    """Return the path of the plot requested by ``--png``, or None without ``--png``.

    Raises:
        BadInput: The file cannot be written, or ``--x`` is specified without ``--png``.
    """
    if png is not None:
        return picture_path("--png", png)
    if axis is not None:
        raise BadInput(f"--x {axis}: is the axis of a picture; give --png FILE.png too, or leave it out")
    return None

"""Objects that users add to wse: patterns, mappings, rewrites, families and presets.

A package lists its objects in its own ``pyproject.toml``, in the entry point group of their kind::

    [project.entry-points."wse.mappings"]
    halves = "my_package.halves:STRATEGY"

Entry points are only loaded when a command needs all names, or a name that is not bundled. Bundled
objects cannot be replaced.

An object can also come from a Python file without a package. Options that name a pattern or a
mapping accept ``FILE.py:NAME``. The file is executed, so users must trust it.
"""

from __future__ import annotations

import linecache
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

from wse.errors import BadInput, UnknownName
from wse.files import read_file

PATTERNS: Final = "wse.patterns"
STRATEGIES: Final = "wse.mappings"
REWRITES: Final = "wse.rewrites"
FAMILIES: Final = "wse.families"
WAFERS: Final = "wse.wafers"
SOFTWARE: Final = "wse.software"
GPUS: Final = "wse.gpus"
STACKS: Final = "wse.stacks"
LINKS: Final = "wse.links"

SOURCE_LIMIT_BYTES: Final = 2**20
_FILE_OBJECT: Final = re.compile(r"(?P<file>.+\.py):(?P<name>[^\W\d]\w*)")

Thing = TypeVar("Thing")


@cache
def plugins(group: str) -> tuple[tuple[str, Any], ...]:
    """Load the objects with which installed packages extend wse, from all entry points of a group.

    The result is cached.

    Args:
        group: Name of the group, such as ``wse.patterns``.

    Returns:
        For each entry point, in the order of their names: a phrase for messages that says where the
        object comes from, and the object.

    Raises:
        BadInput: An entry point cannot be loaded.
    """
    points = sorted(entry_points(group=group), key=lambda point: (point.name, point.value))
    return tuple((_place(point), _load(point)) for point in points)


def with_plugins(group: str, bundled: Mapping[str, Thing], names: Callable[[Any], Iterable[str]]) -> dict[str, Thing]:
    """Return bundled objects and objects from installed packages, keyed by name.

    Args:
        group: Name of the entry-point group, such as ``wse.patterns``.
        bundled: Objects that are part of wse, keyed by name.
        names: Function that returns the names under which an object of an installed package is
            known. It raises TypeError or AttributeError for an object of the wrong type.

    Raises:
        BadInput: An entry point cannot be loaded, its object has the wrong type, or the name of the
            object is already taken.
    """
    objects, places = dict(bundled), dict.fromkeys(bundled, "wse itself")
    for place, plugin in plugins(group):
        try:
            plugin_names = tuple(names(plugin))
        except (TypeError, AttributeError) as error:
            raise BadInput(
                f"{place}: cannot be used: {error}: see docs/adding, fix the package or uninstall it"
            ) from error
        for name in plugin_names:
            if name in places:
                raise BadInput(
                    f"{place}: its name {name!r} is taken by {places[name]}: give it another or uninstall it"
                )
            objects[name], places[name] = plugin, place
    return objects


def wrong_type(plugin: object, expected_type: str) -> TypeError:
    """Build the error for an installed package's object that is not of the expected type.

    Args:
        plugin: The object that an entry point of the package refers to.
        expected_type: Full name of the type, such as ``wse.models.family.Family``, with more
            details if they help.
    """
    return TypeError(f"an object of type {type(plugin).__name__} is not a {expected_type}")


def _load(point: EntryPoint) -> Any:
    """Import and return the object of an entry point.

    Raises:
        BadInput: The import fails.
    """
    try:
        return point.load()
    except Exception as error:
        raise BadInput(
            f"{_place(point)}: cannot be loaded: {type(error).__name__}: {error}: fix the package or uninstall it"
        ) from error


def _place(point: EntryPoint) -> str:
    """Return a description of an entry point's origin: its name, value, group and package."""
    package = f" of package {point.dist.name} {point.dist.version}" if point.dist is not None else ""
    return f"entry point {point.name} = {point.value} in {point.group}{package}"


def names_file_object(text: str) -> bool:
    """Return whether a string has the form ``FILE.py:NAME``, a name in a user's Python file.

    >>> [names_file_object(text) for text in ("own/mine.py:mine", "chain", "mine.py")]
    [True, False, False]
    """
    return text.isprintable() and _FILE_OBJECT.fullmatch(text) is not None


def file_of(text: str) -> Path:
    """Return the path in a string such as ``FILE.py:NAME@ARGUMENT``, without the rest.

    >>> str(file_of("own/mine.py:mine@4")), str(file_of("regions.toml"))
    ('own/mine.py', 'regions.toml')
    """
    name = text.partition("@")[0]
    return Path(name.rpartition(":")[0] if names_file_object(name) else text)


def refuse_file_alone(text: str, place: str = "") -> None:
    """Raise BadInput if a string names a Python file without naming an object in the file.

    Args:
        text: Text that the user gave.
        place: Option or configuration key whose value is the string, for the error message.
    """
    if text.endswith(".py"):
        raise BadInput(f"{f'{place}: ' if place else ''}{text}: name what is in the file too, as {text}:NAME")


def object_of_file(text: str) -> Any:
    """Return the object that a string of the form ``FILE.py:NAME`` names.

    The file is executed on first use, and again after it has changed.

    Raises:
        BadInput: The file cannot be read, or executing it fails. The message contains the file, the
            line and Python's own message.
        UnknownName: The file does not define an object with this name.
    """
    match = _FILE_OBJECT.fullmatch(text)
    assert match is not None
    path, name = Path(match["file"]), match["name"]
    definitions = vars(_module(path, read_file(path, SOURCE_LIMIT_BYTES, BadInput, "a Python file")))
    if name not in definitions:
        raise UnknownName(
            "object",
            name,
            [defined_name for defined_name in definitions if not defined_name.startswith("_")],
            place=str(path),
        )
    return definitions[name]


@lru_cache(maxsize=64)
def _module(path: Path, source: bytes) -> ModuleType:
    """Execute the source of a Python file and return it as a module.

    The file can import other modules from its own folder.
    """
    module = ModuleType(f"{path.stem}_{abs(hash((path, source))):x}")
    module.__file__ = str(path)
    saved_path = list(sys.path)
    sys.modules[module.__name__] = module  # dataclasses look up the types of their fields here
    sys.path.insert(0, str(path.resolve().parent))
    linecache.checkcache(str(path))
    try:
        exec(compile(source, str(path), "exec"), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        raise BadInput(fault_in_file(error, path)) from error
    finally:
        sys.path[:] = saved_path
    return module


def fault_in_file(error: BaseException, path: Path) -> str:
    """Return a one-line message for an error raised by the code in a user's file.

    The message states the last line of the file that was executing, if the error came from it.
    """
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}: line {error.lineno}: {type(error).__name__}: {error.msg}; correct that line"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    place = f"{path}: line {lines[-1]}" if lines else str(path)
    return (
        f"{place}: {type(error).__name__}: {error}; correct that line"
        if lines
        else f"{place}: {error}; correct the file"
    )

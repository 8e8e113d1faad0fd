"""Objects of users: patterns, strategies, rewrites, families and presets, of packages or of files by path.

A package names its objects in its own ``pyproject.toml``, under the group of their kind::

    [project.entry-points."wse.mappings"]
    halves = "my_package.halves:STRATEGY"

Entry points are read when a name is requested that is not bundled, or when all names are: a command that needs none of
them does not look. What is bundled cannot be replaced.

A file needs no package: where an option names a pattern or a mapping, ``FILE.py:NAME`` is the object of that name in
that file, which is run as any program that its user starts.
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

SOURCE_LIMIT_BYTES: Final = 2**20
_FILE_OBJECT: Final = re.compile(r"(?P<file>.+\.py):(?P<name>[^\W\d]\w*)")

Thing = TypeVar("Thing")


@cache
def plugins(group: str) -> tuple[tuple[str, Any], ...]:
    """(where it comes from, object) of every entry point of a group, by name of the entry point.

    Raises:
        BadInput: one cannot be loaded.
    """
    points = sorted(entry_points(group=group), key=lambda point: (point.name, point.value))
    return tuple((_place(point), _load(point)) for point in points)


def with_plugins(group: str, bundled: Mapping[str, Thing], names: Callable[[Any], Iterable[str]]) -> dict[str, Thing]:
    """Return the ``bundled`` objects and those of the entry points of a group, by name.

    Args:
        group: The group of the entry points.
        bundled: Objects that need no entry point.
        names: The names that an object of an entry point is known by; raises TypeError or AttributeError for one that
            is not of the kind that the group is for.

    Raises:
        BadInput: an entry point cannot be loaded, has another kind of object, or one of a name that is taken.
    """
    objects, places = dict(bundled), dict.fromkeys(bundled, "wse itself")
    for place, thing in plugins(group):
        try:
            known_as = tuple(names(thing))
        except (TypeError, AttributeError) as error:
            message = f"{place}: cannot be used: {error}: see docs/adding, mend the package or uninstall it"
            raise BadInput(message) from error
        for name in known_as:
            if name in places:
                message = f"{place}: its name {name!r} is taken by {places[name]}: give it another or uninstall it"
                raise BadInput(message)
            objects[name], places[name] = thing, place
    return objects


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:
        message = (
            f"{_place(point)}: cannot be loaded: {type(error).__name__}: {error}: mend the package or uninstall it"
        )
        raise BadInput(message) from error


def _place(point: EntryPoint) -> str:
    """Return an entry point as messages name it: its group, name and value, and the package that has it."""
    package = f" of package {point.dist.name} {point.dist.version}" if point.dist is not None else ""
    return f"entry point {point.name} = {point.value} in {point.group}{package}"


def names_file_object(text: str) -> bool:
    """Return whether a text names an object of a user's file, as ``FILE.py:NAME``.

    >>> names_file_object("own/mine.py:mine"), names_file_object("chain"), names_file_object("mine.py")
    (True, False, False)
    """
    return text.isprintable() and _FILE_OBJECT.fullmatch(text) is not None


def file_of(text: str) -> Path:
    """Return the file that a text names, alone or with an object of it and what is behind ``@``.

    >>> str(file_of("own/mine.py:mine@4")), str(file_of("regions.toml"))
    ('own/mine.py', 'regions.toml')
    """
    name = text.partition("@")[0]
    return Path(name.rpartition(":")[0] if names_file_object(name) else text)


def refuse_file_alone(text: str, where: str = "") -> None:
    """Raise BadInput for a text that names a Python file without the object in it; ``where`` it was given."""
    if text.endswith(".py"):
        message = f"{f'{where}: ' if where else ''}{text}: name what is in the file too, as {text}:NAME"
        raise BadInput(message)


def object_of_file(text: str) -> Any:
    """Return the object that ``FILE.py:NAME`` names. The file is run once, and again when it was changed.

    Raises:
        BadInput: the file cannot be read, or running it fails: with the file, the line and Python's own message.
        UnknownName: it has no such object.
    """
    match = _FILE_OBJECT.fullmatch(text)
    assert match is not None
    path, name = Path(match["file"]), match["name"]
    own = vars(_module(path, read_file(path, SOURCE_LIMIT_BYTES, BadInput, "a Python file")))
    if name not in own:
        raise UnknownName("object", name, [known for known in own if not known.startswith("_")], where=str(path))
    return own[name]


@lru_cache(maxsize=64)
def _module(path: Path, source: bytes) -> ModuleType:
    """Return the module that a file's ``source`` makes; what stands beside the file can be imported in it."""
    module = ModuleType(f"{path.stem}_{abs(hash((path, source))):x}")
    module.__file__ = str(path)
    before = list(sys.path)
    sys.modules[module.__name__] = module  # where dataclasses look for the types of their fields
    sys.path.insert(0, str(path.resolve().parent))
    linecache.checkcache(str(path))
    try:
        exec(compile(source, str(path), "exec"), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        raise BadInput(fault_in_file(error, path)) from error
    finally:
        sys.path[:] = before
    return module


def fault_in_file(error: BaseException, path: Path) -> str:
    """Return an error that running code of a user's file raised, with the last line of the file on the way to it."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}: line {error.lineno}: {type(error).__name__}: {error.msg}; mend that line"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    place = f"{path}: line {lines[-1]}" if lines else str(path)
    return f"{place}: {type(error).__name__}: {error}; mend that line" if lines else f"{place}: {error}; mend the file"

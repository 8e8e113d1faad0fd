"""Bytes of code and fixed buffers on PEs that run attention, the output head and so on.

What a PE runs is its *role*. A software profile states the bytes in ``software/code_sizes``: a TOML
file with a table for each role. Each number is a table with value, unit, grade and source.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

from wse.errors import BadWafer, UnknownName
from wse.files import read_toml, short_repr
from wse.hardware.number import Grade

_FOLDER: Final = Path(__file__).parent / "software" / "code_sizes"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSizes:
    """Bytes that code, system and fixed buffers occupy on a PE, for one role of PEs.

    A role is what a PE runs, such as attention or the output head. The bytes do not depend on the
    model. All numbers are totals per PE, except the increases per token.

    Attributes:
        code_bytes: Instructions.
        system_bytes: Tables and stack of the runtime.
        rope_bytes: Tables for rotary position embeddings.
        scratch_bytes: Fixed buffers for activations.
        appliance_bytes: Additional code if the program is compiled by the vendor's appliance.
        route_table_bytes: Code that a PE does not need if the host writes its routes.
        strip_code_bytes: Replaces ``code_bytes`` if blocks of PEs have fewer rows than columns; 0
            to use ``code_bytes`` for them too.
        token_system_bytes: Increase of ``system_bytes`` for each token of a prefill chunk.
        token_scratch_bytes: Increase of ``scratch_bytes`` for each token of a prefill chunk.
    """

    code_bytes: int
    system_bytes: int
    rope_bytes: int = 0
    scratch_bytes: int = 0
    appliance_bytes: int = 0
    route_table_bytes: int = 0
    strip_code_bytes: int = 0
    token_system_bytes: int = 0
    token_scratch_bytes: int = 0


@cache
def load_code_sizes(name: str) -> dict[str, CodeSizes]:
    """Return the sizes of code and buffers of PEs from a bundled profile, keyed by role of the PE.

    Raises:
        UnknownName: There is no such profile, or a key in it is unknown.
        BadWafer: A number is missing, not a whole number, or has no source.
    """
    profiles = {path.stem: path for path in sorted(_FOLDER.glob("*.toml"))}
    if name not in profiles:
        raise UnknownName("profile of code sizes", name, profiles)
    path = profiles[name]
    return {role: _read_role(path, role, table) for role, table in read_toml(path, BadWafer).items()}


def _read_role(path: Path, role: str, table: Any) -> CodeSizes:
    """Return the `CodeSizes` in a profile for one role of PEs, after checking them.

    Args:
        path: File of the profile, for messages.
        role: Name of the role, which is the name of the table.
        table: Content of the table.

    Raises:
        UnknownName: The table has an unknown key.
        BadWafer: A number is missing or not a whole number, or has no unit, grade or source.
    """
    keys = [field.name for field in fields(CodeSizes)]
    if not isinstance(table, dict) or "code_bytes" not in table or "system_bytes" not in table:
        raise BadWafer(f"{path}: [{role}]: give a table with code_bytes and system_bytes")
    for key, entry in table.items():
        if key not in keys:
            raise UnknownName("key", key, keys, place=f"{path}: [{role}]")
        value = entry.get("value") if isinstance(entry, dict) else None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise BadWafer(f"{path}: [{role}] {key} = {short_repr(entry)}: give a table with a whole number of bytes")
        if entry.get("grade") not in get_args(Grade) or not entry.get("unit") or not entry.get("source"):
            raise BadWafer(
                f"{path}: [{role}] {key}: give its unit, its grade ({', '.join(get_args(Grade))}) and its source"
            )
    return CodeSizes(**{key: entry["value"] for key, entry in table.items()})

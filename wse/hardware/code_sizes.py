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
    """Bytes on a PE that depend on what the PE runs (its role) but not on the model.

    Attributes:
        code_bytes: Instructions.
        system_bytes: Tables and stack of the runtime.
        rope_bytes: Tables of rotations.
        scratch_bytes: Fixed buffers for activations.
        appliance_bytes: Additional bytes with the compiler of the appliance.
        route_table_bytes: Code that is saved if the host writes the routes.
        strip_code_bytes: Instructions of the kernels for blocks with fewer rows than columns.
        token_system_bytes: Further ``system_bytes`` for each token of a prefill chunk.
        token_scratch_bytes: Further ``scratch_bytes`` for each token of a prefill chunk.
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
    """Return the code and buffer sizes in a bundled profile, keyed by the role of a PE.

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
    """Check and return the bytes of one role of PEs."""
    keys = [field.name for field in fields(CodeSizes)]
    if not isinstance(table, dict) or "code_bytes" not in table or "system_bytes" not in table:
        msg = f"{path}: [{role}]: give a table with code_bytes and system_bytes"
        raise BadWafer(msg)
    for key, entry in table.items():
        if key not in keys:
            raise UnknownName("key", key, keys, place=f"{path}: [{role}]")
        value = entry.get("value") if isinstance(entry, dict) else None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            msg = f"{path}: [{role}] {key} = {short_repr(entry)}: give a table with a whole number of bytes"
            raise BadWafer(msg)
        if entry.get("grade") not in get_args(Grade) or not entry.get("unit") or not entry.get("source"):
            msg = f"{path}: [{role}] {key}: give its unit, its grade ({', '.join(get_args(Grade))}) and its source"
            raise BadWafer(msg)
    return CodeSizes(**{key: entry["value"] for key, entry in table.items()})

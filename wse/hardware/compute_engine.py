"""Costs of vector operations and messages in the compute engine, as a software profile states them.

Such a profile describes software that issues one operation per descriptor and waits for it. It is
a TOML file in ``software/compute_engine``. Each number is a table with value, unit, grade and
source.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

from wse.errors import BadWafer, UnknownName
from wse.files import read_toml, short_repr
from wse.hardware.number import Grade, SourcedNumber

_FOLDER: Final = Path(__file__).parent / "software" / "compute_engine"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeEngineCosts:
    """Constants of software that runs one vector operation or message at a time on each PE.

    Attributes:
        operation_cycles: Fixed cycles per vector operation.
        element_cycles: Cycles per element of a float32 operation with operands in SRAM.
        exponential_operations: Vector operations of an exponential.
        sigmoid_operations: Vector operations in addition to those of the exponential in SiLU.
        head_norm_operations: Vector operations that normalise one head.
        rotation_operations: Vector operations that rotate one head by its position.
        multicast_cycles: Fixed cycles per multicast by routers.
        multicast_word_cycles: Cycles per 32-bit word of a multicast.
        multicast_hop_cycles: Cycles per receiver on the line of a multicast.
        relay_cycles: Cycles per streamed relay in a reduce, besides ramps, hop and addition.
        forward_word_cycles: Cycles per word that an engine receives and sends again.
        stored_word_cycles: Cycles per word that a task stores and later reloads.
        stored_overlap_cycles: Cycles saved per PE because its words overlap with the next PE.
        vector_stored_word_cycles: Cycles per word that a vector operation stores and reloads.
        task_cycles: Cycles by which the start of a task delays a message.
        ring_us: Microseconds of a message from the host through two columns of PEs and back.
        ring_free_bytes: Message size in bytes up to which ``ring_us`` is constant.
        ring_us_per_byte: Microseconds for each byte beyond ``ring_free_bytes``.
        rdma_us: Microseconds of a round trip between two hosts with RDMA.
        tcp_us: Microseconds of a round trip between two hosts with TCP.
        clock_hz: Clock of the machines on which the profile was measured.
    """

    operation_cycles: float
    element_cycles: float
    exponential_operations: float
    sigmoid_operations: float
    head_norm_operations: float
    rotation_operations: float
    multicast_cycles: float
    multicast_word_cycles: float
    multicast_hop_cycles: float
    relay_cycles: float
    forward_word_cycles: float
    stored_word_cycles: float
    stored_overlap_cycles: float
    vector_stored_word_cycles: float
    task_cycles: float
    ring_us: float
    ring_free_bytes: float
    ring_us_per_byte: float
    rdma_us: float
    tcp_us: float
    clock_hz: float


@cache
def load_compute_engine(name: str) -> ComputeEngineCosts:
    """Return the costs of a PE's compute engine in a bundled profile.

    The compute engine runs vector operations, and sends and receives messages.

    Raises:
        UnknownName: There is no such profile, or a key in it is unknown.
        BadWafer: A number is missing, not finite, or has no source.
    """
    return ComputeEngineCosts(**{key: number.value for key, number in sourced_costs(name).items()})


@cache
def sourced_costs(name: str) -> dict[str, SourcedNumber]:
    """Return the costs of a bundled compute-engine profile, with units and sources, by field name.

    Raises:
        UnknownName: There is no such profile, or a key in it is unknown.
        BadWafer: A number is missing, not finite, or has no source.
    """
    profiles = {path.stem: path for path in sorted(_FOLDER.glob("*.toml"))}
    if name not in profiles:
        raise UnknownName("profile of a compute engine", name, profiles)
    path = profiles[name]
    table = read_toml(path, BadWafer)
    keys = [field.name for field in fields(ComputeEngineCosts)]
    for key in table:
        if key not in keys:
            raise UnknownName("key", key, keys, place=str(path))
    missing = [key for key in keys if key not in table]
    if missing:
        raise BadWafer(f"{path}: has no {missing[0]}; add it with value, unit, grade and source")
    return {key: _number(path, key, table[key]) for key in keys}


def _number(path: Path, key: str, entry: Any) -> SourcedNumber:
    """Return a number of a compute-engine profile with its unit and source, after checking it.

    Args:
        path: File of the profile, for messages.
        key: Name of the number.
        entry: Table with ``value``, ``unit``, ``grade`` and ``source``.

    Raises:
        BadWafer: The value is negative, infinite or not a number, or another key is missing.
    """
    value = entry.get("value") if isinstance(entry, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
        raise BadWafer(f"{path}: {key} = {short_repr(entry)}: give a table with a value that is not negative")
    if entry.get("grade") not in get_args(Grade) or not entry.get("unit") or not entry.get("source"):
        raise BadWafer(f"{path}: {key}: give its unit, its grade ({', '.join(get_args(Grade))}) and its source")
    return SourcedNumber(value=float(value), unit=entry["unit"], grade=entry["grade"], source=entry["source"])

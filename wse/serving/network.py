"""The path between a user and a machine that serves: network, connection, and the service's own computers.

The time to first token that a machine is timed at is from host to host. A user meets it behind a connection that has to
be made, a request that has to come and an answer that has to go: together as long as the machine itself takes, once
that is fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wse.errors import BadWafer, UnknownName
from wse.files import read_toml
from wse.hardware.number import GRADES, Grade, SourcedNumber, numeric_fields
from wse.hardware.number_file import read_number

_BUNDLED: Final = Path(__file__).parents[1] / "data" / "network.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The assumptions about the way between a user and a service. ``sources`` has unit, grade, source and range."""

    network_round_trip_s: float
    connection_round_trips: float  # of a new connection, before a request may leave
    service_s: float  # the service's own computers, for a request and its first token
    sources: Mapping[str, SourcedNumber]

    @property
    def connection_s(self) -> float:
        """Seconds that a new connection takes."""
        return self.connection_round_trips * self.network_round_trip_s

    @property
    def seconds(self) -> float:
        """Seconds between a user and the machine: a connection, the request's way, the service, the token's way."""
        return self.connection_s + self.network_round_trip_s + self.service_s

    @property
    def weakest(self) -> tuple[Grade, str]:
        """The grade of the weakest number, and its name."""
        name = max(_NAMES, key=lambda name: list(GRADES).index(self.sources[name].grade))
        return self.sources[name].grade, name

    @property
    def range(self) -> tuple[float, float]:
        """The least and the most seconds that `seconds` may be: all numbers at the same end of their range."""
        trip, trips, service = (self.sources[name].range or (self.sources[name].value,) * 2 for name in _NAMES)
        low, high = ((trips[end] + 1) * trip[end] + service[end] for end in (0, 1))
        return low, high


_NAMES: Final = tuple(numeric_fields(Network))


def load_network(path: str | Path | None = None) -> Network:
    """Return the bundled assumptions, with the numbers of a TOML file instead of theirs.

    Raises:
        UnknownName: an unknown key in the file; the nearest known one is named.
        BadWafer: the file cannot be read, or a number is in another unit or out of bounds.
    """
    sources = _read(_BUNDLED, "")
    if path is not None:
        sources |= _read(Path(path), f"set in {path}")
    return Network(**{name: source.value for name, source in sources.items()}, sources=sources)


def _read(path: Path, default_source: str) -> dict[str, SourcedNumber]:
    """Return the numbers of one file."""
    fields, numbers = numeric_fields(Network), {}
    for key, stated in read_toml(path, BadWafer).items():
        if key not in fields:
            raise UnknownName("key", key, fields, where=str(path))
        numbers[key] = read_number(path, key, stated, fields[key], default_source)
    return numbers

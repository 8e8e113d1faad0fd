"""Network: the time between a user and a machine, for connection, network and service.

The time to first token of a machine is measured from its host and back to its host. A user also
waits for a connection, for the transfer of request and answer, and for the service's own computers.
On a fast machine, this takes as long as the machine itself.
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
    """Assumptions about the network path between a user and a service.

    Attributes:
        network_round_trip_s: Round-trip time between the user and the service, in seconds.
        connection_round_trips: Round trips that a new connection needs before a request can be
            sent.
        service_s: Seconds that the service's own computers need for a request and its first token.
        sources: Each number with its unit, evidence grade, source and range.
    """

    network_round_trip_s: float
    connection_round_trips: float
    service_s: float
    sources: Mapping[str, SourcedNumber]

    @property
    def connection_s(self) -> float:
        """Seconds to open a new connection."""
        return self.connection_round_trips * self.network_round_trip_s

    @property
    def seconds(self) -> float:
        """Seconds that the network and the service add to the time to first token.

        This time covers the new connection, the transit of the request and the token, and the work
        of the service's own computers.
        """
        return self.connection_s + self.network_round_trip_s + self.service_s

    @property
    def weakest(self) -> tuple[Grade, str]:
        """Evidence grade of the least reliable number, and the name of this number."""
        name = max(_NAMES, key=lambda name: list(GRADES).index(self.sources[name].grade))
        return self.sources[name].grade, name

    @property
    def range(self) -> tuple[float, float]:
        """Minimum and maximum of `seconds`: all numbers at the low or high ends of their ranges."""
        trip, trips, service = (self.sources[name].range or (self.sources[name].value,) * 2 for name in _NAMES)
        low, high = ((trips[end] + 1) * trip[end] + service[end] for end in (0, 1))
        return low, high


_NAMES: Final = tuple(numeric_fields(Network))


def load_network(path: str | Path | None = None) -> Network:
    """Return the bundled network assumptions, overridden by the numbers in a TOML file, if any.

    Raises:
        UnknownName: The file has an unknown key; the message suggests a similar one.
        BadWafer: The file cannot be read, or a number has the wrong unit or is out of bounds.
    """
    sources = _read(_BUNDLED, "")
    if path is not None:
        sources |= _read(Path(path), f"set in {path}")
    return Network(**{name: source.value for name, source in sources.items()}, sources=sources)


def _read(path: Path, default_source: str) -> dict[str, SourcedNumber]:
    """Return the network assumptions that one TOML file states, keyed by name.

    Args:
        path: Path of the file.
        default_source: Source of numbers for which the file does not state a source.
    """
    fields, numbers = numeric_fields(Network), {}
    for key, raw_value in read_toml(path, BadWafer).items():
        if key not in fields:
            raise UnknownName("key", key, fields, place=str(path))
        numbers[key] = read_number(path, key, raw_value, fields[key], default_source)
    return numbers

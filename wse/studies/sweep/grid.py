"""A grid of settings: every combination of the values of its axes, the last axis varying fastest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from wse.request.estimate_request import EstimateRequest
from wse.studies.sweep.fields import SOFTWARE, WAFER, Scalar, is_number_of_machine, option_value


@dataclass(frozen=True, slots=True)
class Axis:
    """A field and its values; one value where it is the same in all settings."""

    name: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Settings by their index, from 0.

    >>> grid = Grid((Axis("batch", (1, 8)), Axis("mapping", ("region", "pipeline"))))
    >>> len(grid), grid.setting(2)
    (4, {'batch': 8, 'mapping': 'region'})
    """

    axes: tuple[Axis, ...]

    def __len__(self) -> int:
        """Settings."""
        return math.prod(len(axis.values) for axis in self.axes)

    def places(self, index: int) -> tuple[int, ...]:
        """Which value of each axis a setting has."""
        places = []
        for axis in reversed(self.axes):
            index, place = divmod(index, len(axis.values))
            places.append(place)
        return tuple(reversed(places))

    def setting(self, index: int) -> dict[str, Scalar]:
        """The values of a setting by field, in the order of the axes."""
        return {axis.name: axis.values[at] for axis, at in zip(self.axes, self.places(index), strict=True)}

    def request(self, index: int) -> EstimateRequest:
        """What a setting asks of an estimate."""
        setting = self.setting(index)
        options: dict[str, Any] = {
            name: option_value(name, value) for name, value in setting.items() if not is_number_of_machine(name)
        }
        numbers: dict[str, Any] = {
            f"{prefix[:-1]}_values": tuple(
                (name.removeprefix(prefix), value) for name, value in setting.items() if name.startswith(prefix)
            )
            for prefix in (WAFER, SOFTWARE)
        }
        return EstimateRequest(**options, **numbers)

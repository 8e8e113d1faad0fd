"""Grid: all combinations of the values of several axes. The last axis varies fastest."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request
from wse.studies.options.settings import SOFTWARE, WAFER
from wse.studies.sweep.fields import Scalar, is_number_of_machine, option_value

TOKENS: Final = "new_tokens"


@dataclass(frozen=True, slots=True)
class Axis:
    """An option or constant varied by a sweep, and its values.

    A single value is the same in all settings.
    """

    name: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Cartesian product of the values of several axes.

    Each combination is called a setting. Settings are indexed from 0; the last axis varies fastest.

    >>> grid = Grid((Axis("batch", (1, 8)), Axis("mapping", ("region", "pipeline"))))
    >>> len(grid), grid.setting(2)
    (4, {'batch': 8, 'mapping': 'region'})
    """

    axes: tuple[Axis, ...]

    def __len__(self) -> int:
        """Return the number of settings."""
        return math.prod(len(axis.values) for axis in self.axes)

    def places(self, index: int) -> tuple[int, ...]:
        """Return, for each axis of the sweep, the index of the value that a setting has on it.

        Args:
            index: Index of the setting.
        """
        places = []
        for axis in reversed(self.axes):
            index, place = divmod(index, len(axis.values))
            places.append(place)
        return tuple(reversed(places))

    def setting(self, index: int) -> dict[str, Scalar]:
        """Return the values that the setting with index ``index`` has, keyed by axis name."""
        return {axis.name: axis.values[at] for axis, at in zip(self.axes, self.places(index), strict=True)}

    def groups(self, indices: Iterable[int]) -> list[list[int]]:
        """Divide settings into groups that share most of their compilation.

        The settings within a group differ only in machine constants and in the number of generated
        tokens. A single worker estimates a whole group, so that its process can reuse cached
        results, such as reduction trees.

        Args:
            indices: Indices of the settings to group.

        Returns:
            For each group, the indices of its settings.
        """
        deciding = [
            at for at, axis in enumerate(self.axes) if not is_number_of_machine(axis.name) and axis.name != TOKENS
        ]
        by_places: dict[tuple[int, ...], list[int]] = {}
        for index in indices:
            places = self.places(index)
            by_places.setdefault(tuple(places[at] for at in deciding), []).append(index)
        return list(by_places.values())

    def request(self, index: int) -> EstimateRequest:
        """Return the estimate request for the setting with index ``index`` in the sweep."""
        setting = self.setting(index)
        options: dict[str, Any] = {
            name: option_value(name, value) for name, value in setting.items() if not is_number_of_machine(name)
        }
        numbers: dict[str, Any] = {
            f"{prefix[:-1]}_values": tuple(
                (name.removeprefix(prefix), value)
                for name, value in setting.items()
                if name.startswith(prefix) and not isinstance(value, str)
            )
            for prefix in (WAFER, SOFTWARE)
        }
        factors = [f"{name}={value}" for name, value in setting.items() if is_number_of_machine(name)]
        return make_request(
            EstimateRequest, **options, **numbers, settings=tuple(text for text in factors if "=x" in text)
        )

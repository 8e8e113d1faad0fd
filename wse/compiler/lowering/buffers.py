"""Buffers and patterns of all phases, each requested by name or by call and kept once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from wse.compiler.state import PatternCall
from wse.compiler.symbolic import (
    SymBuffer,
)
from wse.errors import WseBug
from wse.models.graph import name_in_layer
from wse_mappings.result_cache import ResultCache
from wse_mappings.schedule import LineSchedule


class Patterns:
    """The distinct patterns of a Program with the calls that created them."""

    def __init__(self, cache: ResultCache) -> None:
        self._cache = cache
        self._index: dict[Any, int] = {}
        self.schedules: list[LineSchedule] = []
        self.calls: list[PatternCall] = []

    def get(self, make: Callable[..., LineSchedule], *args: Any, **options: Any) -> int:
        """Return the index of the pattern that ``make(*args, **options)`` returns."""
        return self.index_of(PatternCall(make, args, tuple(sorted(options.items()))))

    def index_of(self, call: PatternCall) -> int:
        """Return the index of the pattern that a call returns."""
        key = (call.make.__name__, call.args, call.options)
        if key not in self._index:
            self._index[key] = len(self.schedules)
            self.schedules.append(call.schedule(self._cache))
            self.calls.append(call)
        return self._index[key]


class Buffers:
    """The buffers of all phases, tiles included.

    Phases share names, so each name has one place in SRAM.
    """

    def __init__(self, tiles: Iterable[SymBuffer]) -> None:
        self._tiles = {(tile.stage, tile.name): tile for tile in tiles}
        self._by_name: dict[tuple[int, str], SymBuffer] = {}
        self._requests: dict[SymBuffer, int] = {}

    def tile(self, stage: int, name: str) -> SymBuffer:
        """Return a weight tile."""
        tile = self._tiles[stage, name]
        self._requests.setdefault(tile, 0)
        return tile

    def has_tile(self, stage: int, name: str) -> bool:
        """Return whether there is a weight tile of that name."""
        return (stage, name) in self._tiles

    def get(self, stage: int, name: str, elements: int, view: str, use: str, *, permanent: bool = False) -> SymBuffer:
        """Return the buffer of that name, enlarged to at least ``elements``.

        Raises WseBug when it is requested as something else.
        """
        key = (stage, name)
        if key not in self._by_name:
            self._by_name[key] = SymBuffer(
                stage=stage, name=name, use=use, view=view, elements=elements, permanent=permanent
            )
        buffer = self._by_name[key]
        if (buffer.view, buffer.use, buffer.permanent) != (view, use, permanent):
            message = f"buffer {name} is {buffer.view} for {buffer.use}, asked for as {view} for {use}"
            raise WseBug(message)
        buffer.elements = max(buffer.elements, elements)
        self._requests[buffer] = max(self._requests.get(buffer, 0), elements)
        return buffer

    def take_requests(self) -> dict[SymBuffer, int]:
        """Return the buffers that were requested since the last call, in order, with the maximum elements of each."""
        asked, self._requests = self._requests, {}
        return asked

    def of_layer(self, asked: dict[SymBuffer, int], stage: int, layer: int) -> tuple[SymBuffer, ...]:
        """Return the buffers of another layer of the same kind that correspond to those of a layer."""
        return tuple(
            self._tiles[stage, name]
            if like.use == "weights"
            else self.get(stage, name, elements, like.view, like.use, permanent=like.permanent)
            for like, elements in asked.items()
            for name in [name_in_layer(like.name, layer)]
        )

    def values(self) -> tuple[SymBuffer, ...]:
        """Return every buffer, in the order of first request."""
        return tuple(self._by_name.values())

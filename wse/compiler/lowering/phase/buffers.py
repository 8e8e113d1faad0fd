"""Buffers and patterns of all phases, each created when first requested."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from wse.compiler.state import PatternCall
from wse.compiler.symbolic import SymBuffer
from wse.errors import WseBug
from wse.models.op import name_in_layer
from wse_mappings.result_cache import ResultCache
from wse_mappings.schedule import LineSchedule


class Patterns:
    """Distinct communication patterns of a Program, and the function calls that create them.

    A step refers to a pattern by its index in these lists.

    Attributes:
        schedules: Messages of each pattern.
        calls: Call that created each pattern.
    """

    def __init__(self, cache: ResultCache) -> None:
        self._cache = cache
        self._index: dict[Any, int] = {}
        self.schedules: list[LineSchedule] = []
        self.calls: list[PatternCall] = []

    def get(self, make: Callable[..., LineSchedule], *args: Any, **options: Any) -> int:
        """Return the index of the pattern ``make(*args, **options)``, adding it if it is new.

        Args:
            make: Function that creates the messages of a pattern, such as `k_tree`.
            args: Positional arguments of ``make``.
            options: Keyword arguments of ``make``.
        """
        return self.index_of(PatternCall(make, args, tuple(sorted(options.items()))))

    def index_of(self, call: PatternCall) -> int:
        """Return the index of the pattern that a function call creates, adding it if it is new."""
        key = (call.make.__name__, call.args, call.options)
        if key not in self._index:
            self._index[key] = len(self.schedules)
            self.schedules.append(call.schedule(self._cache))
            self.calls.append(call)
        return self._index[key]


class Buffers:
    """The buffers of all phases, including weight tiles.

    A buffer is identified by its name and its stage (the part of the model that is stored on the
    same PEs). Phases that use the same name share the buffer.
    """

    def __init__(self, tiles: Iterable[SymBuffer]) -> None:
        self._tiles = {(tile.stage, tile.name): tile for tile in tiles}
        self._by_name: dict[tuple[int, str], SymBuffer] = {}
        self._requests: dict[SymBuffer, int] = {}

    def tile(self, stage: int, name: str) -> SymBuffer:
        """Return the buffer that stores a weight tile on the PEs of a stage.

        Args:
            stage: Index of the stage.
            name: Name of the tile.
        """
        tile = self._tiles[stage, name]
        self._requests.setdefault(tile, 0)
        return tile

    def has_tile(self, stage: int, name: str) -> bool:
        """Return whether the PEs of a stage store a weight tile with a given name."""
        return (stage, name) in self._tiles

    def get(self, stage: int, name: str, elements: int, view: str, use: str, *, permanent: bool = False) -> SymBuffer:
        """Return a buffer by stage and name; create it, or enlarge it to ``elements``, if necessary.

        Args:
            stage: Index of the stage whose PEs store the buffer.
            name: Name of the buffer.
            elements: Minimum number of elements.
            view: How the elements are read, such as ``act`` for activations or ``f32``.
            use: Purpose under which reports list the buffer's SRAM, such as ``kv``.
            permanent: Whether the contents survive from one phase to the next.

        Raises:
            WseBug: The buffer exists with another view, use or permanence.
        """
        key = (stage, name)
        if key not in self._by_name:
            self._by_name[key] = SymBuffer(
                stage=stage, name=name, use=use, view=view, elements=elements, permanent=permanent
            )
        buffer = self._by_name[key]
        if (buffer.view, buffer.use, buffer.permanent) != (view, use, permanent):
            raise WseBug(f"buffer {name} is {buffer.view} for {buffer.use}, but was requested as {view} for {use}")
        buffer.elements = max(buffer.elements, elements)
        self._requests[buffer] = max(self._requests.get(buffer, 0), elements)
        return buffer

    def take_requests(self) -> dict[SymBuffer, int]:
        """Return the buffers that were requested since the last call of this method.

        Returns:
            The buffers in the order of their first request, each with the maximum number of
            elements requested.
        """
        requests, self._requests = self._requests, {}
        return requests

    def buffers_of_layer(self, layer_requests: dict[SymBuffer, int], stage: int, layer: int) -> tuple[SymBuffer, ...]:
        """Return the buffers on which a layer runs steps that were lowered for an equivalent layer.

        Equivalent layers have the same steps, which are lowered only once. Each layer runs them on
        its own buffers.

        Args:
            layer_requests: Buffers of the layer whose steps were lowered, with their element
                counts.
            stage: Stage of the layer that reuses the steps.
            layer: Index of the layer that reuses the steps.

        Returns:
            One buffer for each of ``layer_requests``, in the same order.
        """
        return tuple(
            self._tiles[stage, name]
            if layer_buffer.use == "weights"
            else self.get(stage, name, elements, layer_buffer.view, layer_buffer.use, permanent=layer_buffer.permanent)
            for layer_buffer, elements in layer_requests.items()
            for name in [name_in_layer(layer_buffer.name, layer)]
        )

    def values(self) -> tuple[SymBuffer, ...]:
        """Return all buffers except weight tiles, in the order of their first request."""
        return tuple(self._by_name.values())

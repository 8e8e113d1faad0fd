"""Which experts the tokens of a pass were routed to, read from the SRAM of one PE as the routers leave it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse.execute.arena import Arena


class Routing:
    """The choices of the last pass. ``pairs``: by layer, int64 ``[experts]``, how many tokens chose each expert."""

    def __init__(self) -> None:
        self.pairs: dict[int, npt.NDArray[np.int64]] = {}

    def read(self, arena: Arena, layer: int, address: int, count: int, experts: int) -> None:
        """Count the ``count`` ids at ``address`` of the north-west PE; all PEs hold the same."""
        ids = arena.view("float32")[0, address : address + count, 0]
        real = ids[(ids >= 0) & (ids < experts)].astype(np.int64)
        self.pairs[layer] = np.bincount(real, minlength=experts)

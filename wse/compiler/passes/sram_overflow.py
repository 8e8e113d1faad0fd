"""Error raised when a stage needs more SRAM than its PEs have."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from wse.compiler.state import State
from wse.errors import DoesNotFit
from wse.program.stage import Buffer, Stage

_LAYER: Final = re.compile(r"layers\.\d+\.")
_USES: Final = {"code": "code", "weights": "weights", "kv": "KV cache", "state": "state"}
"""Uses whose buffers are always live, with their names in messages."""
_OTHERS: Final = "activations and buffers"


class SramOverflow(DoesNotFit):
    """Error raised when a stage needs more bytes per PE than the SRAM provides.

    Attributes:
        needed: Bytes that the stage needs per PE.
        available: Bytes of SRAM per PE.
        largest_use: The use of SRAM that needs the most bytes: ``code``, ``weights``, ``KV cache``,
            ``state`` or ``activations and buffers``.
    """

    def __init__(self, state: State, stage: int, needed_bytes: int, buffers: Sequence[Buffer]) -> None:
        """Compose the error message, which says how much memory the stage needs, and for what.

        Args:
            state: State after placement, before addresses are known.
            stage: Index of the stage.
            needed_bytes: Bytes that the stage needs per PE.
            buffers: Buffers on each PE of the stage. Buffers that are not always live may share
                addresses.
        """
        available, rect = state.wafer.sram_bytes_per_pe, state.stages[stage].rect
        if state.choice.is_transposed:  # stages have rectangles on the transposed mesh
            rect = rect.transposed
        bytes_of = {name: sum(b.bytes for b in buffers if b.use == use) for use, name in _USES.items()}
        bytes_of[_OTHERS] = needed_bytes - sum(bytes_of.values())
        self.needed, self.available = needed_bytes, available
        self.largest_use = max(bytes_of, key=lambda use: bytes_of[use])
        wafers = f" of each of {state.options.wafers} wafers" if state.options.wafers > 1 else ""
        user_state = f"state {bytes_of['state']:,}, " if bytes_of["state"] else ""
        message = (
            f"{state.spec.name} does not fit on {rect.rows}x{rect.cols} PEs{wafers}: every PE of stage {stage} "
            f"({_contents(state.stages[stage])}; first: row {rect.row}, col {rect.col}) needs "
            f"{needed_bytes:,} of {available:,} bytes, {needed_bytes - available:,} too many: "
            f"code, stack and runtime {bytes_of['code']:,}, weights {bytes_of['weights']:,}, "
            f"KV cache {bytes_of['KV cache']:,}, {user_state}the rest {bytes_of[_OTHERS]:,}"
        )
        message += f"; the largest use is {self.largest_use}"
        if self.largest_use != "code":
            message += f", {_largest_buffer_text(buffers, self.largest_use, available - bytes_of['code'])}"
        super().__init__(message)


def _contents(stage: Stage) -> str:
    """Return a message that lists what a stage stores, such as ``layers 0 to 4, embedding``."""
    first, last = stage.first_layer, stage.last_layer - 1
    layers = "no layers" if last < first else f"layer {first}" if last == first else f"layers {first} to {last}"
    return ", ".join([layers, *["embedding"] * stage.has_embedding, *["head"] * stage.has_head])


def _largest_buffer_text(buffers: Sequence[Buffer], use: str, room: int) -> str:
    """Return the part of an error message that names the largest buffer for one use of SRAM.

    If layers have separate buffers for the same purpose (weights, KV cache), their sizes are added
    up.

    Args:
        buffers: Buffers of a PE.
        use: The use, such as ``KV cache``.
        room: Bytes per PE that code does not use. A buffer that needs more is reported as too large
            for any PE.
    """
    sizes: dict[str, list[int]] = defaultdict(list)
    for buffer in buffers:
        if buffer.use != "code" and _USES.get(buffer.use, _OTHERS) == use:
            # Buffers that are not always live share addresses, so the sizes of several layers do not add up.
            sizes[_LAYER.sub("", buffer.name) if use != _OTHERS else buffer.name].append(buffer.bytes)
    name = max(sizes, key=lambda name: sum(sizes[name]))
    layers = f" of {len(sizes[name])} layers" if len(sizes[name]) > 1 else ""
    alone_text = ", too large for a PE even alone" if max(sizes[name]) > room else ""
    return f"above all {name}{layers} with {sum(sizes[name]):,} bytes{alone_text}"

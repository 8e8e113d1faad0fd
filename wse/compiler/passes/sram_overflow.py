"""The error of a stage that needs more SRAM than its PEs have: what is too large, where, by how many bytes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from wse.compiler.state import State
from wse.errors import DoesNotFit
from wse.program.program import Buffer, Stage

_LAYER: Final = re.compile(r"layers\.\d+\.")
_USES: Final = {"code": "code", "weights": "weights", "kv": "KV cache"}
"""The uses whose buffers are always live, by the names that messages have for them."""
_OTHERS: Final = "activations and buffers"


class SramOverflow(DoesNotFit):
    """A stage whose PEs need more than their SRAM, with the error message.

    Attributes:
        needed: Bytes that the stage needs on one PE.
        available: Bytes of SRAM of a PE.
        largest_use: The use with the most bytes: ``code``, ``weights``, ``KV cache`` or ``activations and buffers``.
    """

    def __init__(self, state: State, stage: int, needed: int, buffers: Sequence[Buffer]) -> None:
        """Compose the message.

        Args:
            state: The state of the compiler before addresses are known.
            stage: Index of the stage.
            needed: Bytes that the stage needs on one PE.
            buffers: Buffers of a PE of the stage. Those that are not always live may share addresses.
        """
        available, rect = state.wafer.sram_bytes_per_pe, state.stages[stage].rect
        bytes_of = {name: sum(b.bytes for b in buffers if b.use == use) for use, name in _USES.items()}
        bytes_of[_OTHERS] = needed - sum(bytes_of.values())
        self.needed, self.available = needed, available
        self.largest_use = max(bytes_of, key=lambda use: bytes_of[use])
        wafers = f" of each of {state.options.wafers} wafers" if state.options.wafers > 1 else ""
        are = "is" if self.largest_use in ("code", "KV cache") else "are"
        message = (
            f"{state.spec.name} does not fit on {rect.rows}x{rect.cols} PEs{wafers}: its {self.largest_use} {are} too "
            f"large; every PE of stage {stage} ({_contents(state.stages[stage])}; first: row {rect.row}, "
            f"col {rect.col}) needs {needed:,} of {available:,} bytes, {needed - available:,} too many: "
            f"code {bytes_of['code']:,}, weights {bytes_of['weights']:,}, KV cache {bytes_of['KV cache']:,}, "
            f"the rest {bytes_of[_OTHERS]:,}"
        )
        if self.largest_use != "code":
            message += f"; {_largest(buffers, self.largest_use, available - bytes_of['code'])}"
        super().__init__(message)


def _contents(stage: Stage) -> str:
    """Return the parts of the model that a stage stores, such as ``layers 0 to 4, embedding``."""
    first, last = stage.first_layer, stage.last_layer - 1
    layers = "no layers" if last < first else f"layer {first}" if last == first else f"layers {first} to {last}"
    return ", ".join([layers, *["embedding"] * stage.has_embedding, *["head"] * stage.has_head])


def _largest(buffers: Sequence[Buffer], use: str, room: int) -> str:
    """Return the largest buffers of a use as text; buffers with the same name in several layers are added."""
    sizes: dict[str, list[int]] = defaultdict(list)
    for buffer in buffers:
        if buffer.use != "code" and _USES.get(buffer.use, _OTHERS) == use:
            # What is not always live shares addresses, so that sizes of several layers do not add up.
            sizes[_LAYER.sub("", buffer.name) if use != _OTHERS else buffer.name].append(buffer.bytes)
    name = max(sizes, key=lambda name: sum(sizes[name]))
    layers = f" of {len(sizes[name])} layers" if len(sizes[name]) > 1 else ""
    alone = ", too large for a PE even alone" if max(sizes[name]) > room else ""
    return f"the largest is {name}{layers} ({use}) with {sum(sizes[name]):,} bytes{alone}"

"""Phrases for equivalent items that are listed together, such as ops of several layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wse.reports.terminal import count, printable

if TYPE_CHECKING:
    from wse.tracing.query.costs.folds import Ranges

MAX_STRETCHES: Final = 6
"""Maximum number of layer ranges in a phrase. If there are more, the middle ones are omitted."""


def op_text(op: str, layers: Ranges, ops: int) -> str:
    """Format an op's name, the number of equivalent ops that are combined, and their layers.

    Args:
        op: Name of the op within its layer. Empty means no op.
        layers: First and last layer of each range of consecutive layers.
        ops: Number of ops that are combined because they have equal cycles.

    >>> op_text("gate_up", ((0, 79),), 80), op_text("head", (), 1), op_text("norm", ((3, 3),), 1)
    ('gate_up ×80, layers 0–79', 'head', 'norm, layer 3')
    """
    times = f" ×{count(ops)}" if ops > 1 else ""
    return f"{printable(op) or 'no op'}{times}{f', {layers_text(layers)}' if layers else ''}"


def equal_layers_text(layers: Ranges, number: int) -> str:
    """Format layer ranges, with the number of layers if there are several.

    >>> equal_layers_text(((0, 8), (71, 79)), 18), equal_layers_text(((3, 3),), 1)
    ('layers 0–8, 71–79 ×18', 'layer 3')
    """
    return f"{layers_text(layers)}{f' ×{count(number)}' if number > 1 else ''}"


def layers_text(layers: Ranges) -> str:
    """Format layer ranges, each specified by its first and last layer.

    >>> layers_text(((3, 3),)), layers_text(((0, 8), (71, 79))), layers_text(((1, 1), (4, 5)))
    ('layer 3', 'layers 0–8, 71–79', 'layers 1, 4–5')
    """
    if len(layers) == 1 and layers[0][0] == layers[0][1]:
        return f"layer {layers[0][0]}"
    texts = [range_text(*layer_range) for layer_range in layers]
    if len(texts) > MAX_STRETCHES:
        texts = [*texts[: MAX_STRETCHES - 2], f"… {texts[-1]}"]
    return f"layers {', '.join(texts)}"


def range_text(first: int, last: int) -> str:
    """Format a range of numbers. A range of one number is written as that number.

    >>> range_text(3, 3), range_text(0, 79)
    ('3', '0–79')
    """
    return str(first) if first == last else f"{first}–{last}"

"""The interface of a rewrite: when it is valid, its settings, and how it changes steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wse.compiler.lowering.builder import BlockSteps
from wse.compiler.lowering.context import Context
from wse.compiler.options import Options
from wse.models.spec import ModelSpec

FLOAT32 = "float32"


def always_valid(spec: ModelSpec, options: Options) -> str:
    """Return "", which means that a rewrite is valid for every model and request."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A change of a block's steps that saves cycles and preserves results except for rounding.

    Attributes:
        name: Name, as in ``--schedule``.
        summary: What the rewrite does, in one sentence.
        source: Where the idea comes from.
        position: Position in the order in which rewrites are applied, lowest first. A rewrite sees
            the steps that earlier ones have produced.
        apply: Function that changes the steps of a block in place, given the context, the steps and
            a setting. It leaves blocks without the expected steps unchanged.
        invalid: Function that returns why the rewrite cannot be used for a model and a request; ""
            if it can.
        settings: Settings to try; (1,) for a rewrite without settings.
        holds_tiles: Function that returns whether PEs store additional tiles for the rewrite.
        between_stages: Whether the rewrite applies to layers that are split between stages. Its
            benefit cannot be measured on a single layer.
    """

    name: str
    summary: str
    source: str
    position: int
    apply: Callable[[Context, BlockSteps, int], None]
    invalid: Callable[[ModelSpec, Options], str] = always_valid
    settings: tuple[int, ...] = (1,)
    holds_tiles: Callable[[ModelSpec], bool] = lambda spec: False
    between_stages: bool = False


def needs_float32_sums(spec: ModelSpec, options: Options) -> str:
    """Return why statistics and sums cannot travel in one message; "" if they can.

    Statistics, such as maxima and sums of squares, are always float32, and the elements of a
    message have one type. So the sums must be float32, too (``--accumulate``).
    """
    if options.accumulate != FLOAT32:
        return f"sums are {options.accumulate} but statistics float32, and a message has elements of one type"
    return ""


def needs_shared_block(spec: ModelSpec, options: Options) -> str:
    """Return why a rewrite that needs a shared block cannot be used; "" if it can.

    A shared block is a feed-forward block that every token uses in addition to its experts.
    """
    if spec.experts is None or not spec.experts.shared_size:
        return f"{spec.name} has no shared block in addition to its experts"
    return ""

"""The contract of a rewrite: where it is valid, the settings to try, and what it does to a block of steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wse.compiler.lowering.builder import Draft
from wse.compiler.lowering.context import Context
from wse.compiler.options import Options
from wse.models.spec import ModelSpec

FLOAT32 = "float32"


def always_valid(spec: ModelSpec, options: Options) -> str:
    """Return no reason against a rewrite, for any model and request."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A rewrite of the steps of a block.

    Attributes:
        name: Its name.
        summary: One sentence: what it does.
        source: Where the idea comes from.
        position: Its place in the order in which rewrites are applied: one of a higher position is applied to what
            those of lower ones have made.
        apply: What it does to the draft of a block of a context, with one of its settings. Where nothing in the block
            is of the form that it knows, it does nothing.
        invalid: Why it must not be used for a model and a request; empty where it may be.
        settings: Settings to try; one alone where there is nothing to set.
        holds_tiles: Whether PEs store more tiles for it than those of a model's own tensors.
        between_stages: Whether it is for layers that stages share, of which a layer alone tells nothing.
    """

    name: str
    summary: str
    source: str
    position: int
    apply: Callable[[Context, Draft, int], None]
    invalid: Callable[[ModelSpec, Options], str] = always_valid
    settings: tuple[int, ...] = (1,)
    holds_tiles: Callable[[ModelSpec], bool] = lambda spec: False
    between_stages: bool = False


def needs_float32_sums(spec: ModelSpec, options: Options) -> str:
    """Return why statistics and sums cannot share a message where sums are not float32."""
    if options.accumulate != FLOAT32:
        return f"sums are {options.accumulate}, statistics float32: one message has elements of one type"
    return ""


def needs_shared_block(spec: ModelSpec, options: Options) -> str:
    """Return why experts cannot be joined with a shared block where there is none."""
    if spec.experts is None or not spec.experts.shared_size:
        return f"{spec.name} has no block beside its experts"
    return ""

"""The interface of a rewrite: when it is valid, its settings, and how it changes steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from wse.compiler.lowering.phase.block_steps import BlockSteps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.options import Options
from wse.models.spec import ModelSpec

FLOAT32 = "float32"


Invalid = Callable[[ModelSpec, Options], str]
"""Function that returns why a rewrite cannot be used for a model and a request; "" if it can."""


def needs(trait: Callable[[ModelSpec], object], fault: str) -> Invalid:
    """Create the check of a rewrite that requires a property of the model.

    Args:
        trait: Function that returns a true value if a model has the property.
        fault: Error text for a model without the property, appended to the model's name, such as
            "has no router".

    Returns:
        Function of the model and the options that returns an error text, or "" if the model has the
        property.
    """
    return lambda spec, options: "" if trait(spec) else f"{spec.name} {fault}"


def all_of(*checks: Invalid) -> Invalid:
    """Create the check of a rewrite with several requirements.

    Args:
        checks: Checks of the requirements, in the order in which they are made.

    Returns:
        Function of the model and the options that returns the first error text, or "" if all
        requirements are met.
    """
    return lambda spec, options: next((fault for check in checks if (fault := check(spec, options))), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A change of a block's steps that saves cycles and preserves results except for rounding.

    Attributes:
        name: Name, as in ``--schedule``.
        summary: What the rewrite does, in one sentence.
        source: Where the idea comes from.
        position: Position in the order in which rewrites are applied, lowest first. A rewrite sees
            the steps produced by earlier rewrites.
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
    invalid: Invalid = needs(lambda spec: True, "")  # noqa: RUF009 (a function)
    settings: tuple[int, ...] = (1,)
    holds_tiles: Callable[[ModelSpec], bool] = lambda spec: False
    between_stages: bool = False


def needs_float32_sums(spec: ModelSpec, options: Options) -> str:
    """Return an error text if statistics cannot be sent together with sums; "" if they can.

    All elements of a message have the same type. Statistics, such as maxima and sums of squares,
    are always float32, so the sums must also be float32 (``--accumulate``).

    Args:
        spec: Model; not used.
        options: The request.
    """
    if options.accumulate != FLOAT32:
        return f"sums are {options.accumulate} but statistics float32, and a message has elements of one type"
    return ""


needs_latent_attention: Final = needs(lambda spec: spec.latent, "has no latent attention")
"""Check for rewrites that need multi-head latent attention."""

needs_router: Final = needs(lambda spec: spec.experts, "has no router")
"""Check for rewrites that need the router of a mixture of experts."""

needs_shared_block: Final = needs(
    lambda spec: spec.experts is not None and spec.experts.shared_size,
    "has no shared block in addition to its experts",
)
"""Check for rewrites that need a shared block, which all tokens use in addition to experts."""

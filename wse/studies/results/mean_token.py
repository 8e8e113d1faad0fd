"""Mean cycles of a decoded token, which reports show as the time per output token (TPOT)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wse.backends.fabric.model import Fabric
    from wse.compiler.placeable import Placeable


def mean_token_cycles(fabric: Fabric, placeable: Placeable) -> float:
    """Return the cycles of a decode pass, averaged over all decode passes of a request.

    Later passes take longer, because more tokens are in the KV caches. If each user gets only one
    new token, which prefill already yields, the result is the cycle count of the pass that would
    follow.

    Args:
        fabric: Timing model of the compiled request.
        placeable: The request, with its prompt lengths and its number of new tokens.
    """
    passes = max(1, placeable.new_tokens - 1)
    classes = fabric.decode_costs(placeable.options.prompt_tokens, passes)
    return sum(token_class.cost.cycles * token_class.tokens for token_class in classes) / passes

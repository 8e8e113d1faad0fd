"""A mapping strategy of a user's own file. It is called ``FILE.py:NAME`` everywhere.

What its methods raise, and what they return that no compiler could use, becomes one line with the file.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from wse.errors import BadInput, WseError
from wse.plugins import fault_in_file
from wse_mappings.strategies.strategy import Demand, Layout, Share, Strategy

REMEDY = "see docs/adding/strategy.md, and mend the file"


def own_strategy(named: str, thing: Any, check: Callable[[Any], object]) -> Strategy:
    """Return the strategy from a file: an object, or a class that makes one without arguments.

    Args:
        named: ``FILE.py:NAME``.
        thing: What the file has under that name.
        check: Raises TypeError or AttributeError for what is no strategy.

    Raises:
        BadInput: it is no strategy.
    """
    path = Path(named.rpartition(":")[0])
    try:
        own = copy.copy(thing() if isinstance(thing, type) else thing)
        check(own)
        own.name = named
    except (TypeError, AttributeError) as error:
        message = f"{named}: is no mapping strategy: {error}; {REMEDY}"
        raise BadInput(message) from error
    layouts, partition = own.layouts, own.partition

    def checked_layouts(demand: Demand, others: Sequence[Strategy]) -> list[Layout]:
        made: list[Layout] = _call(path, named, lambda: list(layouts(demand, others)))
        for layout in made:
            if not isinstance(layout, Layout) or (layout.mapping != named and not own.tries_others):
                message = f"{named}: layouts: {layout!r} is none of its own: give Layout(self.name, ...); {REMEDY}"
                raise BadInput(message)
        return made

    def checked_partition(demand: Demand, layout: Layout) -> Sequence[Share]:
        shares: list[Share] = _call(path, named, lambda: list(partition(demand, layout)))
        fault = _fault_of_shares(demand, shares)
        if fault:
            message = f"{named}: partition: {fault}; {REMEDY}"
            raise BadInput(message)
        return shares

    own.layouts, own.partition = checked_layouts, checked_partition
    strategy: Strategy = own
    return strategy


def _call(path: Path, named: str, method: Callable[[], Any]) -> Any:
    try:
        return method()
    except WseError:
        raise
    except Exception as error:
        message = f"{named}: {fault_in_file(error, path)}"
        raise BadInput(message) from error


def _fault_of_shares(demand: Demand, shares: Iterable[Share]) -> str:
    """Return the first region whose layers do not continue those of the region before it, as text; or nothing."""
    layer, part = 0, 0
    for index, share in enumerate(shares):
        if not isinstance(share, Share):
            return f"region {index} is a {type(share).__name__}, no Share"
        if share.experts:
            continue
        if (share.first_layer, share.first_part) != (layer, part):
            return f"region {index} begins with layer {share.first_layer}, where layer {layer} is next"
        layer, part = share.layers.next
    return "" if (layer, part) == (demand.layers, 0) else f"its regions end before layer {layer}, of {demand.layers}"

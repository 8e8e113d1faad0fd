"""All-reduce as a reduce followed by a multicast of the sum from its root in both directions.

Broadcasts are nearly free on a mesh. Source: Luczynski et al., Near-Optimal Wafer-Scale Reduce,
HPDC 2024, arXiv 2404.15888.
"""

from __future__ import annotations

from wse_mappings.patterns.both_sides import both_sides
from wse_mappings.patterns.line_reduces import sample_reduce
from wse_mappings.patterns.pattern import Pattern
from wse_mappings.patterns.sampling import Case, Sizes, line_case
from wse_mappings.schedule import Arrival, LineSchedule, outward_multicasts, uniform_schedule


def reduce_multicast(reduce: LineSchedule, root: int) -> LineSchedule:
    """Return an all-reduce: a reduce followed by a multicast from ``root`` on an additional colour.

    Args:
        reduce: Reduce into ``root``, which must be the same on all lines.
        root: PE on which the sum is computed.
    """
    length, lines = reduce.length, reduce.variants.shape[1]
    multicasts = outward_multicasts(root, 0, length)
    messages = [(source, target, Arrival(arrival)) for source, target, arrival in reduce.messages.tolist()]
    message_colours = (
        None if reduce.message_colours is None else reduce.message_colours.tolist() + [reduce.colours] * len(multicasts)
    )
    return uniform_schedule(
        f"{reduce.name}_multicast",
        length,
        lines,
        messages + multicasts,
        reduce.colours + 1,
        message_colours=message_colours,
    )


def _sample(sizes: Sizes) -> Case:
    """Return a test case with a random all-reduce consisting of a reduce and a multicast.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the number of PEs in the line and the number of words.
    """
    name, reduce = sample_reduce(sizes)
    if sizes.number_below(2):
        into_end = reduce_multicast(reduce(sizes.length, 1, Arrival.ADD), 0)
        return line_case("reduce_multicast", into_end, sizes, name)
    into_middle = reduce_multicast(both_sides(sizes.length, 1, Arrival.ADD, reduce), sizes.length // 2)
    return line_case("reduce_multicast", into_middle, sizes, f"{name}, from both sides")


PATTERN = Pattern(name="reduce_multicast", samples={"reduce_multicast": _sample})

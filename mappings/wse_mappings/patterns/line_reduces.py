"""Bundled reduces of a line into its end, and patterns that are built from any of them.

- From both sides: each half of a line reduces toward the middle. The middle PE adds the sums of the
  western half, then the sums of the eastern half. The two halves use different colours.
- All-reduce: a reduce followed by a multicast of the sum from its root in both directions.
  Broadcasts are nearly free on a mesh. Source: Luczynski et al., Near-Optimal Wafer-Scale Reduce,
  HPDC 2024, arXiv 2404.15888.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import Final

from wse_mappings.patterns import auto_gen, binary_tree, chain, star, two_phase
from wse_mappings.patterns.pattern import Pattern, Reduce
from wse_mappings.patterns.sampling import LEVEL_CYCLES, Case, Sizes, line_case
from wse_mappings.schedule import Arrival, LineSchedule, outward_multicasts, uniform_schedule

_PATTERNS: Final = (chain.PATTERN, star.PATTERN, binary_tree.PATTERN, two_phase.PATTERN, auto_gen.PATTERN)

LINE_REDUCES: Final = MappingProxyType(
    {pattern.name: pattern.reduce for pattern in _PATTERNS if pattern.reduce is not None}
)
"""Reduces of a line, keyed by pattern name, in the order in which searches try them."""


def sample_reduce(sizes: Sizes) -> tuple[str, Reduce]:
    """Return the name and the function of a random reduce algorithm, such as a chain or a tree.

    A parameter of the algorithm, such as a group size, has its default value. For an auto-gen tree,
    it is the best depth for ``sizes``.
    """
    depth = auto_gen.best_depth(sizes.length, sizes.words, LEVEL_CYCLES)
    reduces: dict[str, Reduce] = {
        "chain": chain.chain,
        "star": star.star,
        "binary_tree": binary_tree.binary_tree,
        "two_phase": two_phase.two_phase,
        "auto_gen": partial(auto_gen.auto_gen, depth=depth),
    }
    name = list(reduces)[sizes.number_below(len(reduces))]
    return name, reduces[name]


def both_sides(length: int, lines: int, arrival: Arrival, reduce: Reduce) -> LineSchedule:
    """Return the messages of a reduce along each line of PEs from both ends into the middle PE.

    The middle PE has the index ``length // 2``. The two halves use different colours (virtual
    channels), so they are reduced at the same time.

    Args:
        length: Number of PEs in a line.
        lines: Number of lines.
        arrival: How two operands are combined: ADD, MAX or ARGMAX.
        reduce: Function that returns a reduce of a line into its first PE. It is used for each
            half.
    """
    root = length // 2
    west, east = reduce(root + 1, 1, arrival), reduce(length - root, 1, arrival)
    messages = [(root - source, root - target, arrival) for source, target in west.messages[:, :2].tolist()]
    messages += [(root + source, root + target, arrival) for source, target in east.messages[:, :2].tolist()]
    colours = west.colours + east.colours
    message_colours = None
    if west.message_colours is not None and east.message_colours is not None:
        message_colours = west.message_colours.tolist() + (west.colours + east.message_colours).tolist()
    return uniform_schedule(
        f"{east.name}_both_sides", length, lines, messages, colours, message_colours=message_colours
    )


def _sample_both_sides(sizes: Sizes) -> Case:
    """Return a test case with a random reduce from both ends of a line into its middle.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the number of PEs in the line and the number of words.
    """
    name, reduce = sample_reduce(sizes)
    return line_case("both_sides", both_sides(sizes.length, 1, Arrival.ADD, reduce), sizes, name)


BOTH_SIDES = Pattern(name="both_sides", samples={"both_sides": _sample_both_sides})


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


def _sample_reduce_multicast(sizes: Sizes) -> Case:
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


REDUCE_MULTICAST = Pattern(name="reduce_multicast", samples={"reduce_multicast": _sample_reduce_multicast})

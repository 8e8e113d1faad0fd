"""Reduce from both sides: each half of a line reduces toward the middle by any reduce into an end.

The middle PE adds the sums of the western half, then the sums of the eastern half. The two halves
use different colours.
"""

from __future__ import annotations

from wse_mappings.patterns.line_reduces import sample_reduce
from wse_mappings.patterns.pattern import Pattern, Reduce
from wse_mappings.patterns.sampling import Case, Sizes, line_case
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule


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


def _sample(sizes: Sizes) -> Case:
    """Return a test case with a random reduce from both ends of a line into its middle.

    `wse validate --against wavelet` compares the fast timing model with a simulation of every word
    on such cases. ``sizes`` determines the number of PEs in the line and the number of words.
    """
    name, reduce = sample_reduce(sizes)
    return line_case("both_sides", both_sides(sizes.length, 1, Arrival.ADD, reduce), sizes, name)


PATTERN = Pattern(name="both_sides", samples={"both_sides": _sample})

"""Star reduce: PE 0 adds the words of one PE after another, the nearest first; who has sent becomes a wire.

One colour, two switch positions. Source: Luczynski et al., Near-Optimal Wafer-Scale Reduce, HPDC 2024,
arXiv 2404.15888.
"""

from __future__ import annotations

from wse_mappings.schedule import Arrival, LineSchedule, uniform


def star(length: int, lines: int, arrival: Arrival) -> LineSchedule:
    """Reduce ``arrival`` (ADD, LARGER or LARGER_PAIR) over every line of ``length`` PEs into PE 0."""
    messages = [(pe, 0, arrival) for pe in range(1, length)]
    return uniform("star", length, lines, messages, colours=1, channel=[0] * len(messages))

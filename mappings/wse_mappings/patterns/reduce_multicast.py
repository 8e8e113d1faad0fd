"""All-reduce by a reduce and a multicast of the sum, both ways from its root. Broadcasts are nearly free on a mesh.

Source: Luczynski et al., Near-Optimal Wafer-Scale Reduce, HPDC 2024, arXiv 2404.15888.
"""

from __future__ import annotations

from wse_mappings.schedule import Arrival, LineSchedule, uniform


def reduce_multicast(reduce: LineSchedule, root: int) -> LineSchedule:
    """``reduce``, the same on all lines, and then the words of its ``root`` to every PE on one more colour."""
    length, lines = reduce.length, reduce.variants.shape[1]
    out = [(root, end, Arrival.MULTICAST) for end in (length - 1, 0) if end != root]
    messages = [(source, target, Arrival(what)) for source, target, what in reduce.messages.tolist()]
    channel = None if reduce.channel is None else reduce.channel.tolist() + [reduce.colours] * len(out)
    return uniform(f"{reduce.name}_multicast", length, lines, messages + out, reduce.colours + 1, channel=channel)

"""A run as a timeline: its steps, passes, tokens and traffic."""

from __future__ import annotations

from collections.abc import Iterator

from wse.inspect.export.chosen_passes import Chosen
from wse.inspect.export.events import Event
from wse.inspect.export.step_slices import ordered_steps, step_slices
from wse.inspect.export.token_slices import pass_slices, token_slices
from wse.inspect.export.traffic_counts import crossing_counts, link_counts
from wse_traces.read import Trace


def timeline(trace: Trace, chosen: Chosen) -> Iterator[Event]:
    """All events of the chosen passes and tokens.

    Raises:
        BadTrace: a time or a traffic is out of range.
        TraceError: the trace is damaged.
    """
    steps = ordered_steps(trace, chosen.passes)
    yield from pass_slices(trace, chosen)
    yield from token_slices(trace, chosen)
    yield from step_slices(trace, steps)
    yield from link_counts(steps)
    yield from crossing_counts(trace, chosen.passes)

"""TraceFormat: the interface of all trace formats, with the checks of a request's values."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from wse.errors import BadInput
from wse.files import short_repr
from wse.hardware.quantity import whole_number
from wse.serving.simulation.workload import NORMAL
from wse.studies.serve_sim.traces.lines import TraceLine


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """One request of a trace.

    Attributes:
        line: Line of the request.
        arrival_s: Arrival time in seconds.
        prompt_tokens: Length of the prompt, at least 1.
        new_tokens: Length of the answer. 0 if the recorded service gave no answer.
        tier: Service tier, FAST or NORMAL.
        prefix: Hash of each block at the start of the prompt that other prompts may share.
        block_tokens: Tokens per block of the prefix.
    """

    line: TraceLine
    arrival_s: float
    prompt_tokens: int
    new_tokens: int
    tier: int = NORMAL
    prefix: tuple[Hashable, ...] = ()
    block_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFormat:
    """A format of trace files.

    Attributes:
        title: Name of the format, such as "BurstGPT CSV".
        first_line: A typical first line, for messages.
        fields: Names of the fields of a request, some of which may be optional.
        requests: Function that yields the requests of a trace in the order of the file. Its
            argument is an iterator over all lines of the file, including a header. It raises
            BadInput for a line that is not of this format; the message names the line.
    """

    title: str
    first_line: str
    fields: tuple[str, ...]
    requests: Callable[[Iterator[TraceLine]], Iterator[TraceRequest]]

    @property
    def is_json(self) -> bool:
        """Whether each line is a JSON object; otherwise, the format is CSV."""
        return self.first_line.startswith("{")


MAX_TOKENS: Final = 2**31


def token_count(line: TraceLine, name: str, value: Any, minimum: int = 1) -> int:
    """Convert a value of a trace to a number of tokens.

    Args:
        line: Line of the value, for the error message.
        name: Name of the field, for the error message.
        value: A string or a number.
        minimum: Smallest allowed number.

    Raises:
        BadInput: The value is not a whole number from ``minimum`` to `MAX_TOKENS`.
    """
    tokens = value if isinstance(value, int) and not isinstance(value, bool) else None
    if isinstance(value, str):
        tokens = whole_number(value)
    elif isinstance(value, float) and value.is_integer():
        tokens = int(value)
    if tokens is None or not minimum <= tokens <= MAX_TOKENS:
        raise BadInput(f"{line.place}: {name} {short_repr(value)}: give a whole number of at least {minimum}")
    return tokens


def seconds_of(line: TraceLine, name: str, value: Any, unit_s: float = 1.0) -> float:
    """Convert a time in a trace to seconds.

    Args:
        line: Line of the value, for the error message.
        name: Name of the field, for the error message.
        value: A string or a number.
        unit_s: Duration of the unit of ``value`` in seconds, such as 1e-3 for milliseconds.

    Raises:
        BadInput: The value is not a finite number.
    """
    time = math.nan
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            time = float(value)
        except (ValueError, OverflowError):
            time = math.nan
    if not math.isfinite(time):
        raise BadInput(f"{line.place}: {name} {short_repr(value)}: give a number")
    return time * unit_s

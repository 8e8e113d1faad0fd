"""TraceFormat: the interface of all trace formats, and TraceRequest, one request of a trace."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Protocol

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


class TraceFormat(Protocol):
    """A format of trace files.

    Attributes:
        title: Name of the format, such as "BurstGPT CSV".
        first_line: A typical first line, for messages.
    """

    @property
    def title(self) -> str: ...
    @property
    def first_line(self) -> str: ...

    def known_fields(self, first_line: str) -> int:
        """Count the field names of this format in a file's first line.

        A file is read in the format with the highest count.
        """
        ...

    def requests(self, lines: Iterator[TraceLine]) -> Iterator[TraceRequest]:
        """Read the requests of a trace.

        Args:
            lines: All lines of the file, including a header.

        Yields:
            The requests in the order of the file.

        Raises:
            BadInput: A line is not of this format. The message names the line.
        """
        ...

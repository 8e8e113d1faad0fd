"""Reader of a trace of any known format, with checks that concern all formats."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, NoReturn

import numpy as np

from wse.errors import BadInput
from wse.files import short_repr
from wse.serving.simulation.prefixes import PrefixTreeBuilder
from wse.serving.simulation.workload import Workload
from wse.studies.serve_sim.traces.lines import TraceLine, read_lines
from wse.studies.serve_sim.traces.mooncake import Mooncake
from wse.studies.serve_sim.traces.plain_csv import AZURE, BURSTGPT, SPLITWISE
from wse.studies.serve_sim.traces.trace_format import TraceFormat, TraceRequest
from wse.studies.serve_sim.traces.wse_csv import WseCsv

FORMATS: Final[tuple[TraceFormat, ...]] = (WseCsv(), Mooncake(), AZURE, SPLITWISE, BURSTGPT)
MAX_REQUESTS: Final = 1_000_000
MAX_BLOCKS: Final = 5_000_000
"""Maximum number of different blocks of prompts, each of which needs about 200 bytes of memory."""
LATEST_S: Final = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSelection:
    """Rules that determine which requests of a trace are served.

    Attributes:
        context: Maximum number of tokens per request, prompt plus answer.
        limit_source: Source of this maximum, for error messages, such as "--context 4096".
        skips_too_long: True to leave out longer requests. False to raise an error.
        max_requests: Number of requests after which reading stops; None for all.
    """

    context: int
    limit_source: str
    skips_too_long: bool = False
    max_requests: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """The requests of a trace.

    Attributes:
        workload: The requests that are served.
        title: Name of the format.
        too_long: Number of requests that were left out because they exceed the context.
        without_answer: Number of requests that were left out because they have no answer.
    """

    workload: Workload
    title: str
    too_long: int
    without_answer: int


def read_trace(path: Path, selection: TraceSelection) -> Trace:
    """Read the requests of a serving simulation from a trace of any known format.

    Arrival times must not be negative or decrease. Requests whose answer has no tokens failed in
    the recorded service, and are left out.

    Args:
        path: The file.
        selection: Which requests are served.

    Raises:
        BadInput: The file cannot be read or is too large, or a line is invalid. The message names
            the line.
        UnknownName: A column or a tier is unknown.
    """
    lines = read_lines(path)
    first_line = next(lines, None)
    if first_line is None:
        message = f"{path}: is empty; give a trace of requests, such as a CSV file that begins with {WseCsv.first_line}"
        raise BadInput(message)
    trace_format = _format_of(first_line)
    collector = _Collector(selection)
    for request in trace_format.requests(chain([first_line], lines)):
        collector.add(request)
        if len(collector) == selection.max_requests:
            break
    return collector.trace(path, trace_format.title)


def _format_of(first_line: TraceLine) -> TraceFormat:
    """Recognise the format of a trace by the field names in its first line.

    The format with the most of its field names in the line is returned.

    Raises:
        BadInput: The line contains no field name of any format.
    """
    best_format = max(FORMATS, key=lambda trace_format: trace_format.known_fields(first_line.text))
    if not best_format.known_fields(first_line.text):
        known_lines = "; or ".join(f"{f.first_line} ({f.title})" for f in FORMATS)
        message = (
            f"{first_line.place}: {short_repr(first_line.text)}: no known trace of requests begins like this; "
            f"begin with {known_lines}"
        )
        raise BadInput(message)
    return best_format


class _Collector:
    """The requests read from a trace so far, and the numbers of requests left out."""

    def __init__(self, selection: TraceSelection) -> None:
        """Create a collector without requests."""
        self._selection = selection
        self._arrival_s = array("d")
        self._prompt_tokens, self._new_tokens, self._tiers, self._prefixes = (array("q") for _ in range(4))
        self._tree = PrefixTreeBuilder()
        self._last_s = 0.0
        self._first_too_long: TraceRequest | None = None
        self._too_long = self._without_answer = 0

    def __len__(self) -> int:
        """Return the number of requests that are served."""
        return len(self._arrival_s)

    def add(self, request: TraceRequest) -> None:
        """Check the next request of the trace. Either add it or count it as left out.

        A request is left out if it has no answer or exceeds the context.

        Raises:
            BadInput: The arrival time is invalid, or there are too many requests or prompt blocks.
        """
        self._check_arrival(request)
        if not request.new_tokens:
            self._without_answer += 1
            return
        if request.prompt_tokens + request.new_tokens > self._selection.context:
            self._too_long += 1
            self._first_too_long = self._first_too_long or request
            return
        if len(self) == MAX_REQUESTS:
            self._refuse_more(request, f"{MAX_REQUESTS:,} requests")
        self._arrival_s.append(request.arrival_s)
        self._prompt_tokens.append(request.prompt_tokens)
        self._new_tokens.append(request.new_tokens)
        self._tiers.append(request.tier)
        self._prefixes.append(self._tree.add(request.prefix, request.block_tokens))
        if len(self._tree) > MAX_BLOCKS:  # a line is limited, so the tree never grows far beyond
            self._refuse_more(request, f"{MAX_BLOCKS:,} different blocks of prompts")

    def _refuse_more(self, request: TraceRequest, limit: str) -> NoReturn:
        """Raise BadInput because the trace has too many requests or prompt blocks.

        Args:
            request: First request beyond the limit.
            limit: The limit, such as "1,000,000 requests", for the message.
        """
        raise BadInput(f"{request.line.place}: more than {limit}; read fewer requests, with --requests")

    def _check_arrival(self, request: TraceRequest) -> None:
        """Raise BadInput if a request's arrival time is out of range or before the previous one."""
        time, last_s = request.arrival_s, self._last_s
        if not 0 <= time <= LATEST_S:
            raise BadInput(f"{request.line.place}: arrival after {time:g} s: give times from 0 s to {LATEST_S:.0e} s")
        if time < last_s:
            message = (
                f"{request.line.place}: arrival after {time:.9g} s is before {last_s:.9g} s of the line above; "
                "sort lines by arrival"
            )
            raise BadInput(message)
        self._last_s = time

    def _check_lengths(self) -> None:
        """Raise BadInput if requests exceed the context and the selection does not skip them."""
        request, selection = self._first_too_long, self._selection
        if request is None or selection.skips_too_long:
            return
        further_text = f", and so are {self._too_long - 1:,} further requests" if self._too_long > 1 else ""
        message = (
            f"{request.line.place}: {request.prompt_tokens} + {request.new_tokens} tokens are more than "
            f"{selection.limit_source}{further_text}; give at most {selection.context}, or leave such requests out "
            "with --too-long skip"
        )
        raise BadInput(message)

    def trace(self, path: Path, title: str) -> Trace:
        """Return the collected requests as a workload, with the numbers of requests left out.

        Args:
            path: The file, for error messages.
            title: Name of the format.

        Raises:
            BadInput: No requests remain, or some exceed the context and must not be skipped.
        """
        self._check_lengths()
        if not len(self):
            left_out = self._too_long + self._without_answer
            rest = f" besides {left_out:,} that are too long or have no answer" if left_out else ""
            raise BadInput(f"{path}: there is no request{rest}; give at least one below the first line")
        return Trace(
            workload=Workload(
                arrival_s=np.array(self._arrival_s),
                prompt_tokens=np.array(self._prompt_tokens),
                new_tokens=np.array(self._new_tokens),
                tier=np.array(self._tiers),
                prefix=np.array(self._prefixes),
                prefix_tree=self._tree.tree(),
            ),
            title=title,
            too_long=self._too_long,
            without_answer=self._without_answer,
        )

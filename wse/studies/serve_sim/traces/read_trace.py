"""Reader of a trace of any known format, with checks that concern all formats."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from wse.errors import BadInput
from wse.files import short_repr
from wse.serving.simulation.kv.prefixes import PrefixTreeBuilder
from wse.serving.simulation.workload import Workload
from wse.studies.serve_sim.traces.csv_formats import AZURE, BURSTGPT, SPLITWISE, WSE_CSV
from wse.studies.serve_sim.traces.lines import TraceLine, csv_cells, json_keys, read_lines
from wse.studies.serve_sim.traces.mooncake import MOONCAKE
from wse.studies.serve_sim.traces.trace_format import TraceFormat, TraceRequest

FORMATS: Final = (WSE_CSV, MOONCAKE, AZURE, SPLITWISE, BURSTGPT)
MAX_REQUESTS: Final = 1_000_000
MAX_BLOCKS: Final = 5_000_000
"""Maximum number of different blocks of prompts, each of which needs about 200 bytes of memory."""
LATEST_S: Final = 1e9


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


def read_trace(
    path: Path, *, context: int, limit_source: str, skips_too_long: bool = False, max_requests: int | None = None
) -> Trace:
    """Read the requests of a serving simulation from a trace of any known format.

    Arrival times must not be negative or decrease. Requests whose answer has no tokens failed in
    the recorded service, and are left out.

    Args:
        path: The file.
        context: Maximum number of tokens per request, prompt plus answer.
        limit_source: Source of this maximum, for error messages, such as "--context 4096".
        skips_too_long: True to leave out longer requests. False to raise an error.
        max_requests: Number of requests after which reading stops; None for all.

    Raises:
        BadInput: The file cannot be read or is too large, a line is invalid, a request is too long,
            or no requests remain. The message names the line.
        UnknownName: A column or a tier is unknown.
    """
    lines = read_lines(path)
    first_line = next(lines, None)
    if first_line is None:
        raise BadInput(
            f"{path}: is empty; give a trace of requests, such as a CSV file that begins with {WSE_CSV.first_line}"
        )
    trace_format = _format_of(first_line)
    arrival_s, tree = array("d"), PrefixTreeBuilder()
    columns = {name: array("q") for name in ("prompt_tokens", "new_tokens", "tier", "prefix")}
    first_too_long, too_long, without_answer = None, 0, 0
    for request in _in_order(trace_format.requests(chain([first_line], lines))):
        if not request.new_tokens:
            without_answer += 1
            continue
        if request.prompt_tokens + request.new_tokens > context:
            first_too_long, too_long = first_too_long or request, too_long + 1
            continue
        if len(arrival_s) == MAX_REQUESTS:
            _refuse_more(request, f"{MAX_REQUESTS:,} requests")
        arrival_s.append(request.arrival_s)
        last_block = tree.add(request.prefix, request.block_tokens)
        values = (request.prompt_tokens, request.new_tokens, request.tier, last_block)
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
        if len(tree) > MAX_BLOCKS:  # a line is limited, so the tree never grows far beyond
            _refuse_more(request, f"{MAX_BLOCKS:,} different blocks of prompts")
        if len(arrival_s) == max_requests:
            break
    if first_too_long is not None and not skips_too_long:
        further_text = f", and so are {too_long - 1:,} further requests" if too_long > 1 else ""
        raise BadInput(
            f"{first_too_long.line.place}: {first_too_long.prompt_tokens} + {first_too_long.new_tokens} tokens are "
            f"more than {limit_source}{further_text}; give at most {context}, or leave such requests out with "
            "--too-long skip"
        )
    if not arrival_s:
        left_out = too_long + without_answer
        rest = f" besides {left_out:,} that are too long or have no answer" if left_out else ""
        raise BadInput(f"{path}: there is no request{rest}; give at least one below the first line")
    requests: dict[str, Any] = {name: np.array(column) for name, column in columns.items()}
    workload = Workload(arrival_s=np.array(arrival_s), **requests, prefix_tree=tree.tree())
    return Trace(workload=workload, title=trace_format.title, too_long=too_long, without_answer=without_answer)


def _format_of(first_line: TraceLine) -> TraceFormat:
    """Recognise the format of a trace by its first line: JSON or CSV, and the names of fields.

    The format with the most of its field names in the line is returned.

    Raises:
        BadInput: The line contains no field name of any format.
    """
    keys = json_keys(first_line.text)
    names = csv_cells(first_line.text) if keys is None else keys
    formats = [trace_format for trace_format in FORMATS if trace_format.is_json == (keys is not None)]
    best_format = max(formats, key=lambda trace_format: len({*trace_format.fields} & {*names}))
    if not {*best_format.fields} & {*names}:
        known_lines = "; or ".join(f"{f.first_line} ({f.title})" for f in FORMATS)
        raise BadInput(
            f"{first_line.place}: {short_repr(first_line.text)}: no known trace of requests begins like this; "
            f"begin with {known_lines}"
        )
    return best_format


def _in_order(requests: Iterable[TraceRequest]) -> Iterator[TraceRequest]:
    """Yield the requests of a trace after checking that their arrival times do not decrease.

    Raises:
        BadInput: An arrival time is out of range, or before the previous one.
    """
    last_s = 0.0
    for request in requests:
        time, place = request.arrival_s, request.line.place
        if not 0 <= time <= LATEST_S:
            raise BadInput(f"{place}: arrival after {time:g} s: give times from 0 s to {LATEST_S:.0e} s")
        if time < last_s:
            raise BadInput(
                f"{place}: arrival after {time:.9g} s is before {last_s:.9g} s of the line above; sort lines by arrival"
            )
        last_s = time
        yield request


def _refuse_more(request: TraceRequest, limit: str) -> NoReturn:
    """Raise BadInput because the trace has too many requests or prompt blocks.

    Args:
        request: First request beyond the limit.
        limit: The limit, such as "1,000,000 requests", for the message.
    """
    raise BadInput(f"{request.line.place}: more than {limit}; read fewer requests, with --requests")

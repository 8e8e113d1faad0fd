"""CSV traces: the format of wse itself, and those of Azure, BurstGPT and Splitwise.

The formats have a column for each of arrival, prompt length and answer length. That of wse has columns
``arrival_s``, ``prompt_tokens`` and ``new_tokens``. A request with 0 ``new_tokens`` has no answer and is
not served. Three further columns are optional. ``tier`` is ``fast`` or ``normal``. ``prefix`` is any
name. Prompts with the same prefix name share their first ``prefix_tokens`` tokens and must be longer
than the prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from wse.errors import BadInput, UnknownName
from wse.files import short_repr
from wse.serving.simulation.workload import FAST, NORMAL
from wse.studies.serve_sim.traces.lines import TraceLine, column_names, read_rows
from wse.studies.serve_sim.traces.trace_format import TraceFormat, TraceRequest, seconds_of, token_count


def plain_csv(
    title: str,
    columns: tuple[str, str, str],
    read_arrival: Callable[[TraceLine, str, Any], float] = seconds_of,
    *,
    from_first: bool = False,
) -> TraceFormat:
    """Return a format of CSV files with one request per row. Other columns are ignored.

    Args:
        title: Name of the format.
        columns: Names of the columns with the arrival, the prompt length and the answer length.
        read_arrival: Function that converts an arrival time to seconds. Its arguments are the line,
            the name of the column, and the text of the cell.
        from_first: Whether to subtract the first arrival from all arrival times, because the file
            states dates.
    """
    arrival, prompt, answer = columns

    def requests(lines: Iterator[TraceLine]) -> Iterator[TraceRequest]:
        """Yield the request in each row of a CSV trace (see `TraceFormat`)."""
        first_s = 0.0
        for index, (line, values) in enumerate(read_rows(lines, columns)):
            arrival_s = read_arrival(line, arrival, values[arrival])
            if from_first and index == 0:
                first_s = arrival_s
            yield TraceRequest(
                line=line,
                arrival_s=arrival_s - first_s,
                prompt_tokens=token_count(line, prompt, values[prompt]),
                new_tokens=token_count(line, answer, values[answer], minimum=0),
            )

    return TraceFormat(title=title, first_line=",".join(columns), fields=columns, requests=requests)


def _date_s(line: TraceLine, name: str, value: Any) -> float:
    """Convert a date and time to seconds since 1970. UTC is assumed if no time zone is stated.

    Args:
        line: Line of the value, for the error message.
        name: Name of the column, for the error message.
        value: Date and time in ISO 8601 format, such as "2023-11-16 18:15:46.68".

    Raises:
        BadInput: The value is not a date and time.
    """
    try:
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as fault:
        raise BadInput(
            f"{line.place}: {name} {short_repr(value)}: give a time such as 2023-11-16 18:15:46.68"
        ) from fault


AZURE: Final = plain_csv(
    "Azure LLM inference CSV", ("TIMESTAMP", "ContextTokens", "GeneratedTokens"), _date_s, from_first=True
)
"""Azure LLM inference traces of 2023 and 2024.

Sources: Patel et al., Splitwise, ISCA 2024; Stojkovic et al., DynamoLLM, HPCA 2025; files and
format in github.com/Azure/AzurePublicDataset.
"""

BURSTGPT: Final = plain_csv("BurstGPT CSV", ("Timestamp", "Request tokens", "Response tokens"))
"""BurstGPT traces (Wang et al., KDD 2025; github.com/HPMLL/BurstGPT).

Times are in seconds. Failed requests have 0 response tokens.
"""

SPLITWISE: Final = plain_csv("Splitwise CSV of Vidur", ("arrived_at", "num_prefill_tokens", "num_decode_tokens"))
"""Splitwise traces in the format of Vidur (Agrawal et al., MLSys 2024, github.com/microsoft/vidur)."""


NEEDED: Final = ("arrival_s", "prompt_tokens", "new_tokens")
OPTIONAL: Final = ("tier", "prefix", "prefix_tokens")
TIERS: Final = {"fast": FAST, "normal": NORMAL, "": NORMAL}


def _wse_requests(lines: Iterator[TraceLine]) -> Iterator[TraceRequest]:
    """Yield the request in each row of a trace, with its tier and prefix (see `TraceFormat`).

    In contrast to other formats, unknown columns are an error.

    Raises:
        UnknownName: A column or a tier is unknown.
    """
    header = next(lines)
    for name in column_names(header):
        if name not in (*NEEDED, *OPTIONAL):
            raise UnknownName("column", name, (*NEEDED, *OPTIONAL), place=header.place)
    known_tokens: dict[str, int] = {}
    for line, values in read_rows(chain([header], lines), NEEDED):
        tier = values.get("tier", "")
        if tier not in TIERS:
            raise UnknownName("tier", tier, [name for name in TIERS if name], place=line.place)
        prompt_tokens = token_count(line, "prompt_tokens", values["prompt_tokens"])
        prefix, prefix_tokens = _prefix(line, values, prompt_tokens, known_tokens)
        yield TraceRequest(
            line=line,
            arrival_s=seconds_of(line, "arrival_s", values["arrival_s"]),
            prompt_tokens=prompt_tokens,
            new_tokens=token_count(line, "new_tokens", values["new_tokens"], minimum=0),
            tier=TIERS[tier],
            prefix=(prefix,) if prefix else (),
            block_tokens=prefix_tokens,
        )


def _prefix(
    line: TraceLine, values: Mapping[str, str], prompt_tokens: int, known_tokens: dict[str, int]
) -> tuple[str, int]:
    """Return the name and the length of a prompt's prefix, or "" and 0 without a prefix.

    Args:
        line: Line of the request, for error messages.
        values: Values of the row, keyed by column.
        prompt_tokens: Length of the prompt.
        known_tokens: Length of each prefix in earlier rows, keyed by name. A new prefix is added.

    Raises:
        BadInput: Only the name or only the length is given, the prefix is not shorter than the
            prompt, or an earlier row states a different length.
    """
    name, text = values.get("prefix", ""), values.get("prefix_tokens", "")
    if not name and not text:
        return "", 0
    if not name or not text:
        raise BadInput(
            f"{line.place}: prefix {short_repr(name)} with prefix_tokens {short_repr(text)}: give both, or neither"
        )
    tokens = token_count(line, "prefix_tokens", text)
    if tokens != known_tokens.setdefault(name, tokens):
        raise BadInput(
            f"{line.place}: prefix_tokens {tokens}: prefix {short_repr(name)} has {known_tokens[name]} tokens "
            "in a row above"
        )
    if tokens >= prompt_tokens:
        raise BadInput(f"{line.place}: prefix_tokens {tokens}: give fewer than the {prompt_tokens} of the prompt")
    return name, tokens


WSE_CSV: Final = TraceFormat(
    title="wse CSV", first_line=",".join(NEEDED), fields=(*NEEDED, *OPTIONAL), requests=_wse_requests
)
"""The CSV format of wse, with optional columns for service tiers and shared prefixes."""

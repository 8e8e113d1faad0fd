"""CSV traces with a column for each of arrival, prompt length and answer length.

The formats of this kind are those of Azure, BurstGPT and Splitwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from wse.errors import BadInput
from wse.files import short_repr
from wse.studies.serve_sim.traces.lines import TraceLine, read_rows
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

"""CSV traces with a column for each of arrival, prompt length and answer length.

The formats of this kind are those of Azure, BurstGPT and Splitwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from wse.errors import BadInput
from wse.files import short_repr
from wse.studies.serve_sim.traces.lines import TraceLine, count_columns, read_rows
from wse.studies.serve_sim.traces.trace_format import TraceRequest, seconds_of, token_count


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCsv:
    """A format of CSV files with one request per row. Other columns are ignored.

    Attributes:
        title: Name of the format.
        arrival, prompt, answer: Names of the columns.
        read_arrival: Function that converts an arrival time to seconds. Its arguments are the line,
            the name of the column, and the text of the cell.
        from_first: Whether to subtract the first arrival from all arrival times, because the file
            states dates.
    """

    title: str
    arrival: str
    prompt: str
    answer: str
    read_arrival: Callable[[TraceLine, str, Any], float] = seconds_of
    from_first: bool = False

    @property
    def first_line(self) -> str:
        """Header of such a file."""
        return f"{self.arrival},{self.prompt},{self.answer}"

    def known_fields(self, first_line: str) -> int:
        """Count the columns of this format in a file's first line, to recognise the format."""
        return count_columns(first_line, (self.arrival, self.prompt, self.answer))

    def requests(self, lines: Iterator[TraceLine]) -> Iterator[TraceRequest]:
        """Yield the request in each row of a CSV trace (see `TraceFormat.requests`)."""
        first_s = 0.0
        for index, (line, values) in enumerate(read_rows(lines, (self.arrival, self.prompt, self.answer))):
            arrival_s = self.read_arrival(line, self.arrival, values[self.arrival])
            if self.from_first and index == 0:
                first_s = arrival_s
            yield TraceRequest(
                line=line,
                arrival_s=arrival_s - first_s,
                prompt_tokens=token_count(line, self.prompt, values[self.prompt]),
                new_tokens=token_count(line, self.answer, values[self.answer], minimum=0),
            )


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
        message = f"{line.place}: {name} {short_repr(value)}: give a time such as 2023-11-16 18:15:46.68"
        raise BadInput(message) from fault


AZURE: Final = PlainCsv(
    title="Azure LLM inference CSV",
    arrival="TIMESTAMP",
    prompt="ContextTokens",
    answer="GeneratedTokens",
    read_arrival=_date_s,
    from_first=True,
)
"""Azure LLM inference traces of 2023 and 2024.

Sources: Patel et al., Splitwise, ISCA 2024; Stojkovic et al., DynamoLLM, HPCA 2025; files and
format in github.com/Azure/AzurePublicDataset.
"""

BURSTGPT: Final = PlainCsv(
    title="BurstGPT CSV",
    arrival="Timestamp",
    prompt="Request tokens",
    answer="Response tokens",
)
"""BurstGPT traces (Wang et al., KDD 2025; github.com/HPMLL/BurstGPT).

Times are in seconds. Failed requests have 0 response tokens.
"""

SPLITWISE: Final = PlainCsv(
    title="Splitwise CSV of Vidur",
    arrival="arrived_at",
    prompt="num_prefill_tokens",
    answer="num_decode_tokens",
)
"""Splitwise traces in the format of Vidur (Agrawal et al., MLSys 2024, github.com/microsoft/vidur)."""

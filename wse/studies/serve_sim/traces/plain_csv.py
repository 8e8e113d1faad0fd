"""PlainCsv: a CSV trace with a column for each of arrival, prompt length and answer length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from wse.studies.serve_sim.traces.csv_rows import count_columns, read_rows
from wse.studies.serve_sim.traces.lines import TraceLine
from wse.studies.serve_sim.traces.trace_format import TraceRequest
from wse.studies.serve_sim.traces.values import seconds_of, token_count


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

"""Azure LLM inference traces of 2023 and 2024.

Sources: Patel et al., Splitwise, ISCA 2024; Stojkovic et al., DynamoLLM, HPCA 2025; files and
format in github.com/Azure/AzurePublicDataset.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from wse.errors import BadInput
from wse.files import short_repr
from wse.studies.serve_sim.traces.lines import TraceLine
from wse.studies.serve_sim.traces.plain_csv import PlainCsv


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

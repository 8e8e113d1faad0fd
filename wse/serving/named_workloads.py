"""NamedWorkload: lengths, pauses and shared prefixes of the requests of a typical service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from wse.errors import BadWafer, UnknownName
from wse.files import read_toml
from wse.hardware.number import SourcedNumber, numeric_fields
from wse.hardware.number_file import read_number

PrefixScope = Literal["service", "session"]
_FILE: Final = Path(__file__).parents[1] / "data" / "workloads.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedWorkload:
    """The requests that users send to a typical service, such as a chat service.

    Attributes:
        prompt_tokens, new_tokens: Mean lengths of prompts and answers.
        prompt_cv, new_cv: Standard deviations of these lengths, relative to their means.
        think_s: Seconds from the end of an answer to the same user's next request.
        prefix_share: Fraction of prompt tokens that a prompt shares with earlier prompts.
        prefix_scope: Which prompts share these tokens: all prompts of the service, such as a system
            prompt, or those of a session, such as its history.
        sources: Each number with its unit, evidence grade, source and range.
    """

    prompt_tokens: int
    prompt_cv: float
    new_tokens: int
    new_cv: float
    think_s: float
    prefix_share: float
    prefix_scope: PrefixScope
    sources: Mapping[str, SourcedNumber]

    def prefix_tokens(self, prompt_tokens: int) -> int:
        """Return how many of the tokens of a prompt are shared with earlier prompts."""
        return min(round(self.prefix_share * prompt_tokens), prompt_tokens - 1)


def workload_names() -> tuple[str, ...]:
    """Return the names of all workloads, in the order of the file."""
    return tuple(_workloads())


def load_workload(name: str) -> NamedWorkload:
    """Return the workload with the given name.

    Raises:
        UnknownName: There is no such workload.
    """
    if name not in _workloads():
        raise UnknownName("workload", name, _workloads(), place="--workload")
    return _workloads()[name]


@cache
def _workloads() -> Mapping[str, NamedWorkload]:
    """Return all workloads by name. The result is cached, because the file is part of wse."""
    return {name: _workload(name, table) for name, table in read_toml(_FILE, BadWafer).items()}


def _workload(name: str, table: Mapping[str, object]) -> NamedWorkload:
    """Return a workload, given its table in the file."""
    fields = numeric_fields(NamedWorkload)
    place = f"{_FILE}: {name}"
    sources = {key: read_number(place, key, table[key], number_type, "") for key, number_type in fields.items()}
    values: dict[str, int | float] = {key: source.value for key, source in sources.items()}
    return NamedWorkload(**values, prefix_scope=table["prefix_scope"], sources=sources)  # type: ignore[arg-type]

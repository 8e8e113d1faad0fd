"""Reader of CSV files with the arrival, lengths and optional tier and prefix of each request.

Columns ``arrival_s``, ``prompt_tokens`` and ``new_tokens`` are required. ``tier`` is ``fast`` or
``normal``. ``prefix`` is any name. Prompts with the same prefix name share their first
``prefix_tokens`` tokens and must be longer than the prefix.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from wse.errors import BadInput, UnknownName
from wse.files import read_file, short_repr
from wse.hardware.quantity import whole_number
from wse.serving.simulation.workload import FAST, NO_PREFIX, NORMAL, Workload

LIMIT_BYTES: Final = 256 * 2**20
MAX_ROWS: Final = 1_000_000
MAX_TOKENS: Final = 2**31
LATEST_S: Final = 1e9
NEEDED: Final = ("arrival_s", "prompt_tokens", "new_tokens")
FURTHER: Final = ("tier", "prefix", "prefix_tokens")
TIERS: Final = {"fast": FAST, "normal": NORMAL, "": NORMAL}


def read_arrivals(path: Path, context: int, limit_source: str) -> Workload:
    """Read the requests of a serving simulation from a CSV file.

    Arrival times must not be negative or decrease. Lengths must be integers of at least 1, and
    prompt plus answer must fit into the context. A shared prefix must be shorter than each of the
    prompts that share it.

    Args:
        path: The file.
        context: Maximum number of tokens per request, prompt plus answer.
        limit_source: Source of this maximum, for error messages, such as "--context 4096".

    Raises:
        BadInput: The file cannot be read or is too large, or a row is invalid. The message names
            the row.
        UnknownName: A column or a tier is unknown.
    """
    data = read_file(path, LIMIT_BYTES, BadInput, "a CSV file of arrivals")
    try:
        rows = list(csv.reader(data.decode("utf-8-sig").splitlines()))
    except (UnicodeDecodeError, csv.Error) as fault:
        message = f"{path}: not CSV in UTF-8: {fault}; give a table with columns {', '.join(NEEDED)}"
        raise BadInput(message) from fault
    columns = _columns(path, rows[0] if rows else [])
    reader = _RowReader(path, columns, context, limit_source)
    for number, row in enumerate(rows[1:], start=2):
        if row:
            reader.read(number, row)
    return reader.workload()


def _columns(path: Path, header: list[str]) -> dict[str, int]:
    names = [name.strip() for name in header]
    for name in names:
        if name not in (*NEEDED, *FURTHER):
            raise UnknownName("column", name, (*NEEDED, *FURTHER), place=f"{path}, row 1")
    missing = [name for name in NEEDED if name not in names]
    if missing or len(set(names)) < len(names):
        fault = f"column {missing[0]} is missing" if missing else "a column is there twice"
        message = f"{path}, row 1: {fault}; begin with a row such as {','.join(NEEDED)}"
        raise BadInput(message)
    return {name: at for at, name in enumerate(names)}


@dataclass(slots=True)
class _Rows:
    arrival_s: list[float]
    prompt_tokens: list[int]
    new_tokens: list[int]
    tier: list[int]
    prefix: list[int]
    prefix_tokens: list[int]


class _RowReader:
    def __init__(self, path: Path, columns: dict[str, int], context: int, limit_source: str) -> None:
        self._path, self._columns, self._context, self._limit_source = path, columns, context, limit_source
        self._rows = _Rows([], [], [], [], [], [])
        self._prefixes: dict[str, tuple[int, int]] = {}  # number and tokens

    def read(self, number: int, row: list[str]) -> None:
        """Check a row of the CSV file of requests and add it to the requests.

        Args:
            number: Row number in the file, for error messages.
            row: The cells of the row.

        Raises:
            BadInput: The row is invalid.
            UnknownName: The tier is unknown.
        """
        place, rows = f"{self._path}, row {number}", self._rows
        if len(row) != len(self._columns):
            message = f"{place}: {len(row)} values under {len(self._columns)} columns; give one for each"
            raise BadInput(message)
        if len(rows.tier) == MAX_ROWS:
            message = f"{place}: more than {MAX_ROWS:,} requests; give fewer"
            raise BadInput(message)
        values = {name: row[at].strip() for name, at in self._columns.items()}
        prompt, answer = (_tokens(place, name, values[name]) for name in ("prompt_tokens", "new_tokens"))
        if prompt + answer > self._context:
            message = (
                f"{place}: {prompt} + {answer} tokens are more than {self._limit_source}; give at most {self._context}"
            )
            raise BadInput(message)
        tier = values.get("tier", "")
        if tier not in TIERS:
            raise UnknownName("tier", tier, [name for name in TIERS if name], place=place)
        rows.arrival_s.append(self._arrival(place, values["arrival_s"]))
        rows.prompt_tokens.append(prompt)
        rows.new_tokens.append(answer)
        rows.tier.append(TIERS[tier])
        prefix, tokens = self._prefix(place, values, prompt)
        rows.prefix.append(prefix)
        rows.prefix_tokens.append(tokens)

    def _arrival(self, place: str, text: str) -> float:
        try:
            time = float(text)
        except ValueError:
            time = math.nan
        previous_time = self._rows.arrival_s[-1] if self._rows.arrival_s else 0.0
        if not 0 <= time <= LATEST_S:
            message = f"{place}: arrival_s {short_repr(text)}: give seconds from 0 to {LATEST_S:.0e}"
            raise BadInput(message)
        if time < previous_time:
            message = (
                f"{place}: arrival_s {time:g} is before {previous_time:g} of the row above; sort rows by arrival_s"
            )
            raise BadInput(message)
        return time

    def _prefix(self, place: str, values: dict[str, str], prompt: int) -> tuple[int, int]:
        name, text = values.get("prefix", ""), values.get("prefix_tokens", "")
        if not name and not text:
            return NO_PREFIX, 0
        if not name or not text:
            message = f"{place}: prefix {short_repr(name)} with prefix_tokens {short_repr(text)}: give both, or neither"
            raise BadInput(message)
        tokens = _tokens(place, "prefix_tokens", text)
        number, known_tokens = self._prefixes.setdefault(name, (len(self._prefixes), tokens))
        if tokens != known_tokens:
            message = (
                f"{place}: prefix_tokens {tokens}: prefix {short_repr(name)} has {known_tokens} tokens in a row above"
            )
            raise BadInput(message)
        if tokens >= prompt:
            message = f"{place}: prefix_tokens {tokens}: give fewer than the {prompt} of the prompt"
            raise BadInput(message)
        return number, tokens

    def workload(self) -> Workload:
        """Return all requests that were read from the file.

        Raises:
            BadInput: The file contains no requests.
        """
        rows = self._rows
        if not rows.tier:
            message = f"{self._path}: there is no request; give at least one row below {','.join(NEEDED)}"
            raise BadInput(message)
        return Workload(
            arrival_s=np.array(rows.arrival_s),
            prompt_tokens=np.array(rows.prompt_tokens, np.int64),
            new_tokens=np.array(rows.new_tokens, np.int64),
            tier=np.array(rows.tier, np.int64),
            prefix=np.array(rows.prefix, np.int64),
            prefix_tokens=np.array(rows.prefix_tokens, np.int64),
        )


def _tokens(place: str, name: str, text: str) -> int:
    tokens = whole_number(text)
    if tokens is None or not 1 <= tokens <= MAX_TOKENS:
        message = f"{place}: {name} {short_repr(text)}: give a whole number of at least 1"
        raise BadInput(message)
    return tokens
